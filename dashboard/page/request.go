package page

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

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
	Creator    string         // name of the user who created it; empty: an automation, or removed since
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
		return callerSession{s, cmp.Or(labels[s.Automation], s.Automation), p.loadNames()[s.CreatedBy]}
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
		{"Connect", []navLink{{"connectors", "/connectors", "Connectors"}, {"integrations", "/integrations", "Integrations"}, {"secrets", "/secrets", "Secrets"}, {"workspaces", "/workspaces", "Workspaces"}}},
		{"Control", []navLink{{"policy", "/policy", "Policy"}, {"grants", "/grants", "Grants"}, {"sessions", "/sessions", "Sessions"}}},
		{"Automate", []navLink{
			{"automations", "/automations", "Automations"},
			{"triggers", "/triggers", "Triggers"},
			{"schedules", "/schedules", "Schedules"},
			{"runs", "/runs", "Runs"},
			{"events", "/events", "Events"},
			{"deliveries", "/deliveries", "Deliveries"},
		}},
		{"Organization", []navLink{{"models", "/models", "Models"}, {"people", "/people", "People"}, {"audit", "/audit", "Audit log"}, {"settings", "/settings", "Settings"}}},
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

// filters narrow the list of a page. They are in its URL, so that links work
// without scripts.
type filters struct {
	path    string
	values  url.Values
	options map[string][]string // allowed values by parameter
}

// readFilters reads the first value of each parameter.
func (p *pageRequest) readFilters(names ...string) filters {
	f := filters{path: p.r.URL.Path, values: url.Values{}, options: map[string][]string{}}
	for _, name := range append(names, "cursor") {
		if v := p.query(name); v != "" {
			f.values.Set(name, v)
		}
	}
	return f
}

// readQuery decodes the page's URL into the input of an API operation, by the
// tags of its fields, and reads the page's own parameters. Lists may be
// repeated or comma-separated. The page size is not read from the URL.
func readQuery[T any](p *pageRequest, in *T, more ...string) filters {
	f, v := p.readFilters(more...), reflect.ValueOf(in).Elem()
	for _, field := range reflect.VisibleFields(v.Type()) {
		if field.Anonymous {
			continue
		}
		param := dashboard.NewParam(field)
		text := param.Fallback
		if param.Name != "limit" {
			given, list := p.r.URL.Query()[param.Name], field.Type.Kind() == reflect.Slice
			if list {
				given = strings.Split(strings.Join(given, ","), ",")
			}
			for _, v := range given {
				if v = strings.TrimSpace(v); v != "" && (!f.values.Has(param.Name) || list && !f.Has(param.Name, v)) {
					f.values.Add(param.Name, v)
				}
			}
			f.oneOf(p, param.Name, enumOf(field))
			text = cmp.Or(strings.Join(f.values[param.Name], ","), text)
		}
		if text == "" || p.err != nil {
			continue
		}
		if _, err := param.Set(v.FieldByIndex(field.Index), text); err != nil {
			p.setError(dashboard.Invalid("/"+param.Name, param.Name+" "+err.Error()+"."))
		}
	}
	return f
}

// enumOf returns the enumeration in a field's tag.
func enumOf(field reflect.StructField) []string {
	return strings.FieldsFunc(field.Tag.Get("enum"), func(r rune) bool { return r == ',' })
}

// oneOf refuses a filter value that is not an option.
func (f filters) oneOf(p *pageRequest, name string, options []string) {
	if len(options) == 0 {
		return
	}
	f.options[name] = options
	for _, v := range f.values[name] {
		if !slices.Contains(options, v) {
			p.setError(dashboard.Invalid("/"+name, name+" must be one of "+strings.Join(options, ", ")+"."))
		}
	}
}

// Options returns the allowed values of a filter.
func (f filters) Options(name string) []string { return f.options[name] }

// Get returns the value of a filter, or "" if it is not set.
func (f filters) Get(name string) string { return f.values.Get(name) }

// Has reports whether a list filter contains a value.
func (f filters) Has(name, value string) bool { return slices.Contains(f.values[name], value) }

// With returns the URL of the first page with one filter changed.
func (f filters) With(name, value string) string {
	v := f.copy(name, "cursor")
	if value != "" {
		v.Set(name, value)
	}
	return address(f.path, v)
}

// Without returns the URL of the first page without some filters.
func (f filters) Without(names ...string) string {
	return address(f.path, f.copy(append(names, "cursor")...))
}

// Older returns the URL of the next page, or "".
func (f filters) Older(cursor string) string {
	if cursor == "" {
		return ""
	}
	v := f.copy()
	v.Set("cursor", cursor)
	return address(f.path, v)
}

// Newest returns the URL of the first page, or "" on it.
func (f filters) Newest() string {
	if f.Get("cursor") == "" {
		return ""
	}
	return f.Without()
}

// All returns the URL of the list without filters.
func (f filters) All() string { return f.path }

// Any reports whether a filter is set.
func (f filters) Any() bool { return len(f.copy("cursor")) > 0 }

// copy returns the parameters without some filters.
func (f filters) copy(without ...string) url.Values {
	v := maps.Clone(f.values)
	for _, name := range without {
		v.Del(name)
	}
	return v
}

func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
