package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sallyport/action"
)

type capabilityCommand struct {
	Set    capabilitySet    `cmd:"" help:"Give a group a capability at a provider, in place of the one it has."`
	List   capabilityList   `cmd:"" help:"List the capabilities of all groups, or of one."`
	Show   capabilityShow   `cmd:"" help:"Show every action and what becomes of it in a session of the group."`
	Remove capabilityRemove `cmd:"" help:"Take a capability away; calls are denied from the next one on."`
}

// ceiling names the capability of a group at a provider.
type ceiling struct {
	remote
	Group    string `arg:"" help:"Group of sessions."`
	Provider string `arg:"" help:"A connector's name, slug or id, or an integration."`
}

// Validate refuses names that are empty, as of a variable that is not set.
func (c *ceiling) Validate() error {
	if c.Group == "" || c.Provider == "" {
		return errors.New("the group and the provider have names; say which, as in: developer github")
	}
	return nil
}

func (c *ceiling) path() string {
	return "/api/v1/capabilities/" + url.PathEscape(c.Group) + "/" + url.PathEscape(c.Provider)
}

// capabilityRow is a capability with what people call its provider.
type capabilityRow struct {
	action.Capability
	Name    string `json:"name"`
	Warning string `json:"warning"`
}

func (c *capabilityRow) provider() string { return sourceName(c.Name, c.Provider) }

// limits tells what is said beside the level.
func (c *capabilityRow) limits() string {
	var parts []string
	if c.AllowedActions != nil {
		parts = append(parts, "only "+cmp.Or(strings.Join(c.AllowedActions, ", "), "nothing"))
	}
	if len(c.DeniedActions) > 0 {
		parts = append(parts, "never "+strings.Join(c.DeniedActions, ", "))
	}
	if c.Gate != "" {
		parts = append(parts, "dangerous actions behind gate "+c.Gate)
	}
	if c.Rate != nil {
		parts = append(parts, fmt.Sprintf("%s in %s", number(c.Rate.Calls, "call"), c.Rate.Span()))
	}
	if c.ExpiresAt != nil {
		parts = append(parts, ends(c.ExpiresAt))
	}
	return strings.Join(parts, "; ")
}

type capabilitySet struct {
	ceiling
	Level   string   `required:"" enum:"none,read,write,production,0,1,2,3" placeholder:"LEVEL" help:"none, read, write or production, or 0 to 3."`
	Allow   []string `placeholder:"ACTION" help:"Only this action; again for more (default: all that the level reaches)."`
	Deny    []string `placeholder:"ACTION" help:"Never this action; again for more."`
	Gate    string   `placeholder:"GATE" help:"Gate before dangerous actions; level production needs one."`
	Rate    *rate    `placeholder:"N/D" help:"Calls of the whole group in a window, such as 10/1m."`
	Expires expiry   `placeholder:"D|TIME" help:"When it ends, such as 24h or 2026-01-02T15:04:05Z (default: never)."`
}

// meaning tells what comes of the level, unless something else says less.
func (c *capabilityRow) meaning() string {
	const unless = " of this group run without asking there, unless a mode says otherwise"
	switch c.Level {
	case action.LevelRead:
		return "reads" + unless + "; everything else is denied"
	case action.LevelWrite:
		return "reads and writes" + unless + "; dangerous actions are denied"
	case action.LevelProduction:
		return "reads, writes and, once gate " + c.Gate + " is approved for the session's task, dangerous actions" + unless
	}
	return "everything of this group is denied there"
}

func (c *capabilitySet) body() map[string]any {
	body := map[string]any{"level": any(c.Level)}
	if n, err := strconv.Atoi(c.Level); err == nil {
		body["level"] = n
	}
	if c.Allow != nil {
		body["allowed_actions"] = c.Allow
	}
	if c.Deny != nil {
		body["denied_actions"] = c.Deny
	}
	if c.Gate != "" {
		body["required_gate"] = c.Gate
	}
	if c.Rate != nil {
		body["rate"] = c.Rate
	}
	c.Expires.into(body)
	return body
}

func (c *capabilitySet) Run(ctx context.Context, std *stdio) error {
	return alter(ctx, &c.remote, std, http.MethodPut, c.path(), c.body(), func(w io.Writer, now *capabilityRow) {
		std.warn(now.Warning)
		text := fmt.Sprintf("group %s has level %d (%s) at %s", now.Group, now.Level, now.Level, now.provider())
		if more := now.limits(); more != "" {
			text += "; " + more
		}
		said(text)(w)
		said(now.meaning())(w)
		said("see what that comes to with: " + c.hint("capability", "show", now.Group))(w)
	})
}

type capabilityList struct {
	remote
	Group string `help:"Only of this group."`
}

func (c *capabilityList) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, "/api/v1/capabilities", queryOf(given{"group": c.Group}), func(w io.Writer, all *list[capabilityRow]) {
		rows := make([][]string, 0, len(all.Items))
		for _, k := range all.Items {
			rows = append(rows, []string{k.Group, k.Name, k.Level.String(), k.limits(), k.GrantedBy, k.Provider})
		}
		table(w, []string{"GROUP", "PROVIDER", "LEVEL", "LIMITS", "BY", "ID"}, rows)
	})
}

type capabilityShow struct {
	remote
	Group string `arg:"" help:"Group of sessions."`
	Task  string `help:"Task of the session; gates are approved for one."`
}

// Validate refuses an empty name, as of a variable that is not set.
func (c *capabilityShow) Validate() error {
	if c.Group == "" {
		return errors.New("the group has a name; say which, as in: developer")
	}
	return nil
}

// Run shows the snapshot that an agent of the group sees.
func (c *capabilityShow) Run(ctx context.Context, std *stdio) error {
	path := "/api/v1/capabilities/" + url.PathEscape(c.Group)
	return show(ctx, &c.remote, std, path, queryOf(given{"task": c.Task}), func(w io.Writer, s *action.Snapshot) {
		if len(s.Capabilities) == 0 {
			said("there is no provider yet; add one with: " + c.hint("connector", "add", "NAME", "URL"))(w)
		}
		for i := range s.Capabilities {
			showProvider(w, &s.Capabilities[i])
		}
	})
}

func showProvider(w io.Writer, p *action.ProviderAbility) {
	c := capabilityRow{Name: p.Name, Capability: action.Capability{
		Provider: p.Provider, AllowedActions: p.AllowedActions, DeniedActions: p.DeniedActions,
		Gate: p.Gate, Rate: p.Rate, ExpiresAt: p.ExpiresAt,
	}}
	text := fmt.Sprintf("%s: level %d (%s)", c.provider(), p.Level, p.LevelName)
	if more := c.limits(); more != "" {
		text += "; " + more
	}
	said(text)(w)
	rows := make([][]string, 0, len(p.Actions))
	for _, a := range p.Actions {
		mode := string(a.Mode)
		if a.Denied {
			mode = "DENIED"
		}
		rows = append(rows, []string{a.Action, string(a.Risk), strconv.Itoa(int(a.Level)), mode, a.Reason})
	}
	table(w, []string{"ACTION", "RISK", "LEVEL", "MODE", "WHY"}, rows)
	fmt.Fprintln(w)
}

type capabilityRemove struct{ ceiling }

func (c *capabilityRemove) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, c.path(), "group "+c.Group+" has no capability at "+c.Provider+" any more")
}

// queryOf is a query of what was given.
func queryOf(g given) url.Values {
	query := make(url.Values)
	for name, value := range g {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// sourceName names a source as people do, with the id behind it that nobody
// chose.
func sourceName(name, id string) string {
	if name == "" || name == id {
		return id
	}
	return fmt.Sprintf("%s (%s)", name, id)
}
