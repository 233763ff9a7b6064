package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
)

type grantCommand struct {
	Create   grantCreate   `cmd:"" aliases:"set" help:"Let calls through ahead: for all sessions, any number of times, for ever, unless --session, --max-calls or --expires say less."`
	List     grantList     `cmd:"" help:"List grants."`
	Remove   grantRemove   `cmd:"" aliases:"revoke" help:"Revoke a grant; it lets nothing through from the next call on."`
	Requests grantRequests `cmd:"" help:"List what agents ask for."`
	Approve  grantApprove  `cmd:"" help:"Make a grant of a request, of what was asked for or less."`
	Deny     grantDeny     `cmd:"" help:"Refuse a request."`
}

// grantRow is a grant with what people call its source.
type grantRow struct {
	action.Grant
	Name string `json:"name"`
}

// covers tells what terms let through.
func covers(t *action.Terms, name string) string {
	source, text := sourceName(name, t.Source), ""
	switch {
	case t.Any && t.Source == "":
		text = "any action of any source that is not dangerous"
	case t.Any:
		text = "any action of " + source + " that is not dangerous"
	default:
		text = call(name, t.Source, t.Action)
	}
	for i, pointer := range slices.Sorted(maps.Keys(t.Pins)) {
		text += []string{" with ", " and "}[min(i, 1)] + pointer + "=" + string(t.Pins[pointer])
	}
	return text
}

// budget tells how often and how long terms last.
func budget(t *action.Terms) string {
	calls := "any number of calls"
	if t.MaxCalls != nil {
		calls = number(*t.MaxCalls, "call")
	}
	if t.ExpiresAt == nil {
		return calls + ", for ever"
	}
	return calls + "; " + ends(t.ExpiresAt)
}

// whose tells whose calls the grant covers.
func (g *grantRow) whose() string {
	if g.Scope == action.ScopeSession {
		return "session " + g.Session
	}
	return "all sessions"
}

// report tells what the grant does, and how to undo it.
func (g *grantRow) report(w io.Writer, r *remote) {
	said(fmt.Sprintf("grant %s lets through %s for %s: %s", g.ID, covers(&g.Terms, g.Name), g.whose(), budget(&g.Terms)))(w)
	said("take it back with: " + r.hint("grant", "remove", g.ID))(w)
}

type grantCreate struct {
	remote
	bounds
	Key        string `arg:"" optional:"" help:"source:action; a connector goes by its name, slug or id."`
	Any        bool   `env:"-" help:"Any action that is not dangerous, in place of one."`
	Source     string `env:"-" help:"With --any: only of this source."`
	Unreviewed bool   `env:"-" help:"Grant it although the tool is not as it was reviewed."`
	Session    string `env:"-" placeholder:"ID" help:"Only this session (default: all sessions of the organization)."`
	Pin        []pin  `sep:"none" env:"-" placeholder:"/PARAM=JSON" help:"Only calls with exactly this value of a param; again for more."`
}

func (c *grantCreate) Run(ctx context.Context, std *stdio) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	return alter(ctx, &c.remote, std, http.MethodPost, "/api/v1/grants", body, func(w io.Writer, g *grantRow) {
		g.report(w, &c.remote)
		if wide := c.wide(); len(wide) > 0 {
			said("to let less through, remove it and say " + strings.Join(wide, ", "))(w)
		}
	})
}

// wide are the flags that would have narrowed the grant.
func (c *grantCreate) wide() (flags []string) {
	if c.Session == "" {
		flags = append(flags, "--session ID")
	}
	if c.Expires.field == "" {
		flags = append(flags, "--expires 8h")
	}
	if c.MaxCalls == nil {
		flags = append(flags, "--max-calls N")
	}
	return flags
}

func (c *grantCreate) body() (map[string]any, error) {
	body := map[string]any{"scope": action.ScopeOrganization}
	if c.Session != "" {
		body["scope"], body["session_id"] = action.ScopeSession, c.Session
	}
	if err := pinned(body, c.Pin); err != nil {
		return nil, err
	}
	if c.Unreviewed {
		body["unreviewed"] = true
	}
	c.into(body)
	if c.Any {
		return body, c.anyOf(body)
	}
	return body, c.oneOf(body)
}

func (c *grantCreate) anyOf(body map[string]any) error {
	if c.Key != "" {
		return wrongUse("--any takes no action; leave out %s, or leave out --any", visible(c.Key))
	}
	body["any"] = true
	if c.Source != "" {
		body["source"] = c.Source
	}
	return nil
}

func (c *grantCreate) oneOf(body map[string]any) error {
	switch {
	case c.Key == "":
		return wrongUse("name what to let through: %s, or --any for all that is not dangerous", visible(c.hint("grant", "create", "SOURCE:ACTION")))
	case c.Source != "":
		return wrongUse("--source goes with --any; an action is named with its source, as SOURCE:ACTION")
	case strings.Contains(c.Key, "*"):
		return wrongUse("a grant takes no *; for all actions that are not dangerous say: --any --source SOURCE")
	}
	key, err := action.ParseKey(c.Key)
	if err != nil {
		return wrongUse("%s is no action; write source:action, such as linear:create_issue", visible(c.Key))
	}
	body["source"], body["action"] = key.Source, key.Action
	return nil
}

type grantList struct {
	remote
	paging
	Session string `env:"-" placeholder:"ID" help:"Only those made for this session."`
	Usable  bool   `env:"-" help:"Only those that are neither revoked, expired nor used up."`
}

func (c *grantList) Run(ctx context.Context, std *stdio) error {
	query := c.query()
	if c.Session != "" {
		query.Set("session", c.Session)
	}
	if c.Usable {
		query.Set("usable", "true")
	}
	return show(ctx, &c.remote, std, "/api/v1/grants", query, func(w io.Writer, all *list[grantRow]) {
		rows := make([][]string, 0, len(all.Items))
		for _, g := range all.Items {
			rows = append(rows, []string{g.ID, covers(&g.Terms, g.Name), g.whose(), g.used(), g.state(), g.CreatedBy})
		}
		table(w, []string{"ID", "LETS THROUGH", "FOR", "USED", "STATE", "BY"}, rows)
		more(w, all.NextCursor)
	})
}

func (g *grantRow) used() string {
	if g.MaxCalls == nil {
		return fmt.Sprint(g.UsedCalls)
	}
	return fmt.Sprintf("%d of %d", g.UsedCalls, *g.MaxCalls)
}

func (g *grantRow) state() string {
	switch {
	case g.RevokedAt != nil:
		return "revoked " + since(g.RevokedAt)
	case g.MaxCalls != nil && g.UsedCalls >= *g.MaxCalls:
		return "used up"
	}
	return ends(g.ExpiresAt)
}

type grantRemove struct {
	remote
	ID string `arg:"" help:"Id of the grant; see sallyport grant list."`
}

func (c *grantRemove) Run(ctx context.Context, std *stdio) error {
	return alter(ctx, &c.remote, std, http.MethodDelete, "/api/v1/grants/"+url.PathEscape(c.ID), nil, func(w io.Writer, g *grantRow) {
		said("grant " + g.ID + " is revoked; it lets nothing through any more")(w)
	})
}

// pinned puts pins into a body as the API takes them. Of two for one param, one
// would be lost.
func pinned(body map[string]any, pins []pin) error {
	by := make(map[string]json.RawMessage, len(pins))
	for _, p := range pins {
		if by[p.pointer] != nil {
			return wrongUse("--pin %s is there twice; a param has one value", visible(p.pointer))
		}
		by[p.pointer] = p.value
	}
	if len(by) > 0 {
		body["pins"] = by
	}
	return nil
}
