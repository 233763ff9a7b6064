package page

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/event"
)

// pageRequest is one request for a page by a user who signed in. It keeps the
// first error of what it loads, as bufio.Scanner does: from then on every load
// returns the zero value without being tried, and show returns the error
// instead of rendering. A page therefore checks for errors only where a zero
// value would mislead it.
type pageRequest struct {
	*pages
	w   http.ResponseWriter
	r   *http.Request
	me  *dashboard.Principal
	org string
	err error

	// Loaded at most once.
	users           []action.User
	names           map[string]string // of users, by ID
	connectors      []action.Connector
	automations     []event.Automation
	automationNames map[string]string // by ID
}

func (p *pageRequest) ctx() context.Context { return p.r.Context() }

// query returns a parameter of the page's URL.
func (p *pageRequest) query(name string) string { return p.r.URL.Query().Get(name) }

func (p *pageRequest) decides() bool { return p.me.Role.Decides() }

// setError keeps an error unless there is one already.
func (p *pageRequest) setError(err error) {
	if p.err == nil {
		p.err = err
	}
}

// load calls f with the request's context and one argument.
func load[A, T any](p *pageRequest, f func(context.Context, A) (T, error), a A) T {
	return load2(p, func(ctx context.Context, a A, _ struct{}) (T, error) { return f(ctx, a) }, a, struct{}{})
}

// load2 is [load] for functions of two arguments.
func load2[A, B, T any](p *pageRequest, f func(context.Context, A, B) (T, error), a A, b B) (v T) {
	if p.err != nil {
		return v
	}
	got, err := f(p.ctx(), a, b)
	if p.err = err; err != nil {
		return v
	}
	return got
}

// show renders a page, unless a load failed. The name is the template's.
func (p *pageRequest) show(name, navigation, title string, data any) error {
	return p.showPart(name, "layout", layoutData{Page: navigation, Title: title, Me: p.me, Data: data})
}

// showPart renders a part of a page's template.
func (p *pageRequest) showPart(name, part string, data any) error {
	if p.err != nil {
		return p.err
	}
	return p.render(p.w, name, part, data)
}

// loadUsers returns the organization's users.
func (p *pageRequest) loadUsers() []action.User {
	if p.users == nil {
		p.users = load(p, p.People.ListUsers, p.org)
	}
	return p.users
}

// loadNames returns the names of users by their IDs.
func (p *pageRequest) loadNames() map[string]string {
	if p.names == nil {
		p.names = map[string]string{}
		for _, u := range p.loadUsers() {
			p.names[u.ID] = u.Name
		}
	}
	return p.names
}

// loadConnectors returns the organization's connectors.
func (p *pageRequest) loadConnectors() []action.Connector {
	if p.connectors == nil {
		p.connectors = load(p, p.Sources.ListConnectors, p.org)
	}
	return p.connectors
}

// loadAutomations returns the organization's automations.
func (p *pageRequest) loadAutomations() []event.Automation {
	if p.automations == nil {
		p.automations = load(p, p.Inbound.ListAutomations, p.org)
	}
	return p.automations
}

// loadAutomationNames returns the names of automations by their IDs.
func (p *pageRequest) loadAutomationNames() map[string]string {
	if p.automationNames == nil {
		p.automationNames = load(p, p.Inbound.AutomationNames, p.org)
	}
	return p.automationNames
}

// callerSession is the session of a call or request.
type callerSession struct {
	Asking     action.Session // only the ID if it was deleted
	Automation string         // name of the session's automation
}

// callerSessions loads sessions by ID.
func (p *pageRequest) callerSessions(ids []string) func(id string) callerSession {
	slices.Sort(ids)
	sessions := load2(p, p.Calls.SessionsOf, p.org, slices.Compact(ids))
	labels := map[string]string{}
	for _, s := range sessions {
		if s.Automation != "" {
			labels = p.loadAutomationNames()
			break
		}
	}
	return func(id string) callerSession {
		s, ok := sessions[id]
		if !ok {
			s = action.Session{ID: id}
		}
		return callerSession{s, cmp.Or(labels[s.Automation], s.Automation)}
	}
}

// navGroup is a group of links in the navigation.
type navGroup struct {
	Title string // empty for the first group
	Links []navLink
}

// navLink is a link in the navigation; see [layoutData].
type navLink struct{ Page, Path, Title string }

// navigation returns the pages that the user may see, in order.
func (p *pages) navigation(me *dashboard.Principal) []navGroup {
	all := []navGroup{
		{"", []navLink{{"inbox", "/", "Inbox"}, {"activity", "/activity", "Activity"}, {"overview", "/overview", "Overview"}}},
		{"Connect", []navLink{{"connectors", "/connectors", "Connectors"}, {"integrations", "/integrations", "Integrations"}, {"secrets", "/secrets", "Secrets"}}},
		{"Control", []navLink{{"policy", "/policy", "Policy"}, {"grants", "/grants", "Grants"}, {"sessions", "/sessions", "Sessions"}}},
		{"Automate", []navLink{
			{"automations", "/automations", "Automations"},
			{"triggers", "/triggers", "Triggers"},
			{"schedules", "/schedules", "Schedules"},
			{"runs", "/runs", "Runs"},
			{"events", "/events", "Events"},
			{"deliveries", "/deliveries", "Deliveries"},
		}},
		{"Organization", []navLink{{"people", "/people", "People"}, {"audit", "/audit", "Audit log"}, {"settings", "/settings", "Settings"}}},
	}
	var out []navGroup
	for _, g := range all {
		shown := navGroup{Title: g.Title}
		for _, l := range g.Links {
			if p.mayOpen(me, l.Path) {
				shown.Links = append(shown.Links, l)
			}
		}
		if len(shown.Links) > 0 {
			out = append(out, shown)
		}
	}
	return out
}

// mayOpen reports whether the page exists and the user may see it.
func (p *pages) mayOpen(me *dashboard.Principal, path string) bool {
	if path == "/" {
		return true
	}
	return p.MayOpen(me, "GET "+path)
}
