package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"sallyport/action"
)

type sessionCommand struct {
	Create sessionCreate `cmd:"" help:"Mint a session and print its token, once."`
	List   sessionList   `cmd:"" help:"List sessions."`
	Revoke sessionRevoke `cmd:"" help:"Revoke a session; its token is worthless at once."`
}

type sessionCreate struct {
	remote
	Kind       string   `enum:"interactive,unattended," default:"" help:"interactive (default) or unattended."`
	Type       string   `enum:"coding,setup,automation," default:"" help:"coding (default), setup or automation."`
	Title      string   `help:"What people see of it."`
	Group      string   `help:"Group whose capabilities are its ceiling."`
	Task       string   `help:"Task that it works on; fixed from now on."`
	Automation string   `placeholder:"ID" help:"Automation that it runs; implies unattended."`
	TTL        lasting  `placeholder:"D" help:"How long its token is good, such as 8h or 90d (default: the server's)."`
	Connect    []string `sep:"none" env:"-" placeholder:"REF" help:"Integration that its agent may use: id, name or provider; again for more, or all (default: none, or what the automation is bound to)."`
}

// Run prints JSON in any case: a token is for a program to take.
func (c *sessionCreate) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	body := given{
		"kind": c.Kind, "type": c.Type, "title": c.Title, "group": c.Group,
		"task": c.Task, "automation": c.Automation,
	}.set()
	if c.TTL.Duration != 0 {
		body["ttl"] = c.TTL.String()
	}
	if len(c.Connect) > 0 {
		if body["connections"], err = server.bindable(ctx, c.Connect); err != nil {
			return err
		}
	}
	var made struct {
		ID string `json:"session_id"`
	}
	raw, err := server.change(ctx, http.MethodPost, "/api/v1/sessions", body, &made)
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
	case len(c.Connect) == 0 && c.Automation == "":
		c.blind(ctx, std, server)
	default:
		server.unusable(ctx, std, made.ID)
	}
	return std.printJSON(raw)
}

// blind says that the session sees no integration, where there are some.
func (c *sessionCreate) blind(ctx context.Context, std *stdio, server *client) {
	var all list[integrationRow]
	if _, err := server.read(ctx, integrationsPath, nil, &all); err != nil {
		return // the session is minted, which alone was asked for
	}
	n := 0
	for _, in := range all.Items {
		if in.Usable && in.User == "" {
			n++
		}
	}
	if n > 0 {
		said(fmt.Sprintf("note: this session sees none of %s; mint one with --connect REF or --connect all to have its agent use them", number(n, "integration")))(std.Err)
	}
}

// given are fields of a body; those that are empty were not given.
type given map[string]string

func (g given) set() map[string]any {
	body := make(map[string]any)
	for name, value := range g {
		if value != "" {
			body[name] = value
		}
	}
	return body
}

// paging are the flags of long lists.
type paging struct {
	Limit  int    `default:"50" help:"How many, at most 100."`
	Cursor string `help:"Where the list before ended."`
}

func (p paging) query() url.Values {
	q := url.Values{"limit": {strconv.Itoa(p.Limit)}}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	return q
}

type sessionList struct {
	remote
	paging
}

type sessionRow struct {
	ID          string     `json:"id"`
	Kind        string     `json:"kind"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	CreatedBy   string     `json:"created_by"`
	CreatedAt   *time.Time `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
	RevokedAt   *time.Time `json:"revoked_at"`
	Connections []string   `json:"connections"`
}

func (c *sessionList) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var sessions list[sessionRow]
	raw, err := server.read(ctx, "/api/v1/sessions", c.query(), &sessions)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		rows := make([][]string, 0, len(sessions.Items))
		for _, s := range sessions.Items {
			rows = append(rows, []string{s.ID, s.Kind, s.Type, s.Title, s.CreatedBy, since(s.CreatedAt), s.state(), s.sees()})
		}
		table(w, []string{"SESSION", "KIND", "TYPE", "TITLE", "BY", "CREATED", "EXPIRES", "INTEGRATIONS"}, rows)
		more(w, sessions)
	})
}

// sees tells how many integrations its agent may use.
func (s *sessionRow) sees() string {
	if slices.Equal(s.Connections, []string{action.AllConnections}) {
		return action.AllConnections
	}
	return strconv.Itoa(len(s.Connections))
}

func (s *sessionRow) state() string {
	if s.RevokedAt != nil {
		return "revoked " + since(s.RevokedAt)
	}
	return since(s.ExpiresAt)
}

type sessionRevoke struct {
	remote
	ID string `arg:"" help:"Id of the session."`
}

func (c *sessionRevoke) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, "/api/v1/sessions/"+url.PathEscape(c.ID), "session "+c.ID+" is revoked")
}

// remove deletes path and says what is so now.
func (r *remote) remove(ctx context.Context, std *stdio, path, done string) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	raw, err := server.change(ctx, http.MethodDelete, path, nil, nil)
	if err != nil {
		return err
	}
	return r.print(std, raw, said(done))
}

func said(text string) func(io.Writer) {
	return func(w io.Writer) { fmt.Fprintln(w, visible(text)) }
}

// oneLine shows JSON as it is, on one line and harmless.
func oneLine(raw json.RawMessage) string { return visible(string(raw)) }
