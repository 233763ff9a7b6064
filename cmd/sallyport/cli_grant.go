package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type grantCommand struct {
	Create   grantCreate   `cmd:"" aliases:"set" help:"Pre-approve calls. Without flags the grant has no limits; set --session, --max-calls or --expires."`
	List     grantList     `cmd:"" help:"List grants."`
	Remove   grantRemove   `cmd:"" aliases:"revoke" help:"Revoke a grant; takes effect at the next call."`
	Requests grantRequests `cmd:"" help:"List grant requests of agents."`
	Approve  grantApprove  `cmd:"" help:"Approve a grant request, as requested or narrower."`
	Deny     grantDeny     `cmd:"" help:"Deny a grant request."`
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

// grantWhose tells whose calls the grant covers.
func grantWhose(g *api.GrantView) string {
	if g.Scope == action.ScopeSession {
		return "session " + g.Session
	}
	return "all sessions"
}

// showGrant tells what the grant does, and how to undo it.
func showGrant(w io.Writer, g *api.GrantView, r *remote) {
	said(fmt.Sprintf("grant %s lets through %s for %s: %s", g.ID, covers(&g.Terms, g.Name), grantWhose(g), budget(&g.Terms)))(w)
	said("take it back with: " + r.hint("grant", "remove", g.ID))(w)
}

type grantCreate struct {
	remote
	bounds
	Key string `arg:"" optional:"" help:"source:action; name a connector by name, slug or ID."`
	api.NewGrant
	Pin []pin `sep:"none" env:"-" placeholder:"/PARAM=JSON" help:"Only calls with exactly this param value; repeat for more."`
}

func (c *grantCreate) Run(ctx context.Context, std *stdio) (err error) {
	in := c.NewGrant
	in.Scope = api.ScopeName(action.ScopeOrganization)
	if c.Session != "" {
		in.Scope = api.ScopeName(action.ScopeSession)
	}
	if in.Pins, err = pinned(c.Pin); err != nil {
		return err
	}
	in.MaxCalls, in.Lifetime = c.bounds.MaxCalls, c.Expires.Lifetime
	if err = c.what(&in); err != nil {
		return err
	}
	return perform(ctx, &c.remote, std, api.CreateGrant, api.Body[api.NewGrant]{Body: in}, func(w io.Writer, g *api.GrantView) {
		showGrant(w, g, &c.remote)
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
	if !c.Expires.given() {
		flags = append(flags, "--expires 8h")
	}
	if c.bounds.MaxCalls == nil {
		flags = append(flags, "--max-calls N")
	}
	return flags
}

// what checks and fills in which actions are let through.
func (c *grantCreate) what(in *api.NewGrant) error {
	switch {
	case c.Any && c.Key != "":
		return wrongUse("--any takes no action; leave out %s, or leave out --any", visible(c.Key))
	case c.Any:
		return nil
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
	in.Source, in.Action = key.Source, key.Action
	return nil
}

type grantList struct {
	remote
	api.ListGrantsInput
}

func (*grantList) route() api.Operation { return api.ListGrants.Operation }

func (c *grantList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListGrants, c.ListGrantsInput, cells("ID LETS_THROUGH FOR USED STATE BY", func(g *api.GrantView) []string {
		return []string{g.ID, covers(&g.Terms, g.Name), grantWhose(g), grantUsed(g), grantState(g), g.CreatedBy}
	}))
}

func grantUsed(g *api.GrantView) string {
	if g.MaxCalls == nil {
		return fmt.Sprint(g.UsedCalls)
	}
	return fmt.Sprintf("%d of %d", g.UsedCalls, *g.MaxCalls)
}

func grantState(g *api.GrantView) string {
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
	ID string `arg:"" help:"ID of the grant; see sallyport grant list."`
}

func (c *grantRemove) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.RevokeGrant, api.ByID{ID: c.ID}, func(w io.Writer, g *api.GrantView) {
		said("grant " + g.ID + " is revoked; it lets nothing through any more")(w)
	})
}

// pinned are pins as the API takes them. Of two for one param, one would be lost.
func pinned(pins []pin) (map[string]json.RawMessage, error) {
	by := make(map[string]json.RawMessage, len(pins))
	for _, p := range pins {
		if by[p.pointer] != nil {
			return nil, wrongUse("--pin %s is there twice; a param has one value", visible(p.pointer))
		}
		by[p.pointer] = p.value
	}
	return by, nil
}
