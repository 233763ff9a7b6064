package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/agent"
	"sallyport/internal/nearest"
)

type sessionCommand struct {
	Create sessionCreate `cmd:"" help:"Mint a session and print its token, once."`
	List   sessionList   `cmd:"" help:"List sessions."`
	Show   sessionShow   `cmd:"" help:"Show a session."`
	Rename sessionRename `cmd:"" help:"Change what a session is called, or how long it may be idle."`
	Pause  sessionPause  `cmd:"" help:"Have a session begin no calls; what is held stays."`
	Resume sessionResume `cmd:"" help:"Have a paused session begin calls again."`
	Stop   sessionStop   `cmd:"" help:"End a session for good; what is held is withdrawn."`
	Fail   sessionFail   `cmd:"" help:"End a session for good as one that failed."`
	Revoke sessionRevoke `cmd:"" help:"Stop a session whatever its status; its token is worthless at once."`
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
	PromptFile string   `type:"path" env:"-" placeholder:"FILE" help:"File with a system prompt of its own (default: that of its type)."`
	Tools      string   `enum:"all,search," default:"" help:"What its agent lists: all tools, or search: tools that find and call them (default: the server's)."`
	Model      string   `placeholder:"ID" help:"Model that it is for; sallyport models lists them."`
	Idle       string   `name:"idle-timeout" placeholder:"D" help:"After how long a silence it is stopped, such as 30m, or never (default: the server's)."`
	Key        string   `name:"idempotency-key" env:"-" placeholder:"KEY" help:"The same key and wish is the same session, with its token again."`
}

// Run prints JSON in any case, and before all else: a token is for a program to
// take.
func (c *sessionCreate) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	body := given{
		"kind": c.Kind, "type": c.Type, "title": c.Title, "group": c.Group,
		"task": c.Task, "automation": c.Automation, "tools": c.Tools, "model": c.Model, "idle_timeout": c.Idle, "idempotency_key": c.Key,
	}.set()
	if c.PromptFile != "" {
		text, err := os.ReadFile(c.PromptFile)
		if err != nil {
			return fmt.Errorf("reading the prompt: %w", err)
		}
		body["prompt"] = string(text)
	}
	if c.TTL.Duration != 0 {
		body["ttl"] = c.TTL.String()
	}
	if len(c.Connect) > 0 {
		if body["connections"], err = server.bindable(ctx, c.Connect); err != nil {
			return err
		}
	}
	var made struct {
		ID      string    `json:"session_id"`
		MCPURL  string    `json:"mcp_url"`
		LeftOut []leftOut `json:"left_out"`
	}
	raw, err := c.mint(ctx, server, body)
	if err != nil {
		return err
	}
	if err := errors.Join(std.printJSON(raw), decode(raw, &made)); err != nil {
		return err
	}
	if c.JSON {
		return nil // all is in what the server said
	}
	for _, l := range made.LeftOut {
		said("note: left out " + l.words())(std.Err)
	}
	if c.Group != "" {
		c.groupless(ctx, std, server)
	}
	switch {
	case len(c.Connect) == 0 && c.Automation == "":
		c.blind(ctx, std, server)
	default:
		server.unusable(ctx, std, made.ID)
	}
	if made.MCPURL != "" {
		said("its agent's shell needs: export SALLYPORT_URL=" + word(gatewayOf(made.MCPURL)) + " " + agent.TokenVariable + "=TOKEN")(std.Err)
	}
	return nil
}

// mint makes the session, with a key, so that one whose token was lost on the
// way is not lost.
func (c *sessionCreate) mint(ctx context.Context, server *client, body map[string]any) (json.RawMessage, error) {
	request, err := server.request(ctx, http.MethodPost, "/api/v1/sessions", nil, body)
	if err != nil {
		return nil, err
	}
	key := c.Key
	if key == "" {
		key = "cli-" + rand.Text()
		request.Header.Set("Idempotency-Key", key)
	}
	var raw json.RawMessage
	response, err := server.dispatch(request)
	if err == nil {
		_, raw, err = whole(response)
	}
	p := new(problem)
	if err != nil && (!errors.As(err, &p) || p.Status >= http.StatusInternalServerError) && !errors.As(err, new(nobody)) {
		return nil, fmt.Errorf("%w; whether the session was made is not known: the same command with --idempotency-key %s gets it with its token, and never makes a second one", err, key)
	}
	return raw, err
}

// gatewayOf is the gateway's own URL, of that for MCP.
func gatewayOf(mcp string) string { return strings.TrimSuffix(strings.TrimRight(mcp, "/"), "/mcp") }

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

// groupless says that the session's group has no capability, where others have
// some: the name may be mistaken, and the session may call nothing.
func (c *sessionCreate) groupless(ctx context.Context, std *stdio, server *client) {
	var all list[struct {
		Group string `json:"group"`
	}]
	if _, err := server.read(ctx, "/api/v1/capabilities", nil, &all); err != nil {
		return // the session is minted, which alone was asked for
	}
	var groups []string
	for _, row := range all.Items {
		if row.Group == c.Group {
			return
		}
		groups = append(groups, row.Group)
	}
	if len(groups) > 0 {
		said(fmt.Sprintf("note: group %s has no capability, so that this session's calls of services are denied; sallyport capability list shows who has one.%s",
			c.Group, nearest.Sentence(c.Group, groups)))(std.Err)
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
	Limit  int    `env:"-" default:"50" help:"How many, at most 100."`
	Cursor string `env:"-" help:"Where the list before ended."`
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
	State string `enum:"live,ended,pending,running,paused,stopped,failed," default:"" help:"Only those: live, ended, or a status."`
}

type sessionRow struct {
	ID          string     `json:"id"`
	Kind        string     `json:"kind"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	CreatedBy   string     `json:"created_by"`
	CreatedAt   *time.Time `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
	Withdrew    int        `json:"withdrawn_calls"`
	RevokedAt   *time.Time `json:"revoked_at"`
	Connections []string   `json:"connections"`

	Group      string     `json:"group"`
	Task       string     `json:"task"`
	Automation string     `json:"automation_id"`
	Status     string     `json:"status"`
	EndedNote  string     `json:"ended_note"`
	Tools      string     `json:"tools"`
	Prompt     string     `json:"prompt"`
	Model      string     `json:"model"`
	Idle       string     `json:"idle_timeout"`
	LastSeenAt *time.Time `json:"last_seen_at"`
	LeftOut    []leftOut  `json:"left_out"`
}

func (c *sessionList) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var sessions list[sessionRow]
	query := c.query()
	if c.State != "" {
		query.Set("state", c.State)
	}
	raw, err := server.read(ctx, "/api/v1/sessions", query, &sessions)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		names := server.labels(ctx, usersPath, keysPath, api.ListAutomations.Path)
		rows := make([][]string, 0, len(sessions.Items))
		for _, s := range sessions.Items {
			rows = append(rows, []string{s.ID, s.Kind, s.Type, s.Title, names.of(s.CreatedBy), since(s.CreatedAt), s.life(), since(s.ExpiresAt), s.sees()})
		}
		table(w, []string{"SESSION", "KIND", "TYPE", "TITLE", "BY", "CREATED", "STATUS", "EXPIRES", "INTEGRATIONS"}, rows)
		more(w, sessions.NextCursor)
	})
}

// sees tells how many integrations its agent may use.
func (s *sessionRow) sees() string {
	if slices.Equal(s.Connections, []string{action.AllConnections}) {
		return action.AllConnections
	}
	return strconv.Itoa(len(s.Connections))
}

// life is where the session is, and since when where that is an end.
func (s *sessionRow) life() string {
	switch {
	case s.RevokedAt != nil:
		return s.Status + " " + since(s.RevokedAt)
	case s.ExpiresAt != nil && !s.ExpiresAt.After(time.Now()):
		return "over"
	}
	return s.Status
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
