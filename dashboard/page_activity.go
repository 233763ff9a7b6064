package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
)

// activityRow is a call as a line of the list.
type activityRow struct {
	action.Invocation
	Asking     action.Session
	Automation string // the name of the session's
	Settled    settler
}

// activityList is what the page of calls shows.
type activityList struct {
	action.Page[action.Invocation]
	Rows  []activityRow
	Query activityQuery
	Names map[string]string // of people, by id

	Sources     []action.Connector
	Automations map[string]string
	JSONL, CSV  string // where the list is as a file; empty: for those who decide
}

func (p *pages) activity(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx, q := r.Context(), readActivity(r.URL.Query())
	in, by, err := q.sought(p.now())
	if err != nil {
		return err
	}
	f, err := p.sought(ctx, me, in, by)
	if err != nil {
		return err
	}
	f.Limit, f.Cursor = 50, q.Get("cursor")
	d := activityList{Query: q}
	if me.Role.Decides() {
		d.JSONL, d.CSV = q.Export("jsonl", in.From), q.Export("csv", in.From)
	}
	if d.Page, err = p.Calls.ListInvocations(ctx, f); err != nil {
		return err
	}
	if d.Names, err = p.names(ctx, me.Organization); err != nil {
		return err
	}
	if d.Sources, err = p.Sources.ListConnectors(ctx, me.Organization); err != nil {
		return err
	}
	if d.Automations, err = p.Inbound.AutomationNames(ctx, me.Organization); err != nil {
		return err
	}
	if d.Rows, err = p.activityRows(ctx, me, &d); err != nil {
		return err
	}
	return p.render(w, "activity", "layout", view{Page: "activity", Title: "Activity", Me: me, Data: d})
}

func (p *pages) activityRows(ctx context.Context, me *Principal, d *activityList) ([]activityRow, error) {
	var ids []string
	for _, inv := range d.Items {
		ids = append(ids, inv.Session)
	}
	slices.Sort(ids)
	sessions, err := p.Calls.SessionsOf(ctx, me.Organization, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	rows := make([]activityRow, len(d.Items))
	for i, inv := range d.Items {
		s := sessions[inv.Session]
		rows[i] = activityRow{Invocation: inv, Asking: s, Automation: or(d.Automations[s.Automation], s.Automation), Settled: settledBy(inv, d.Names)}
	}
	return rows, nil
}

// activityQuery is the query of the page: what its list is narrowed to.
type activityQuery struct{ values url.Values }

// activityNames are the filters, in the words of the API; last is a time that
// moves, such as "day".
var activityNames = []string{"status", "source", "action", "session", "automation", "group", "person", "risk", "mode", "run", "from", "to", "last", "cursor"}

func readActivity(q url.Values) activityQuery {
	v := url.Values{}
	for _, name := range activityNames {
		values := q[name]
		if name == "status" {
			values = strings.Split(strings.Join(values, ","), ",")
		}
		for _, value := range values {
			if value = strings.TrimSpace(value); value != "" && (v.Get(name) == "" || name == "status" && !slices.Contains(v[name], value)) {
				v.Add(name, value)
			}
		}
	}
	return activityQuery{v}
}

// spells of time that a link leads to.
func spells() map[string]time.Duration {
	return map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour}
}

func (q activityQuery) sought(now time.Time) (in api.Sought, by api.AskedBy, err error) {
	in = api.Sought{Source: q.Get("source"), Action: q.Get("action"), Risk: q.Get("risk"), Mode: q.Get("mode"), From: q.Get("from"), To: q.Get("to")}
	for _, status := range q.values["status"] {
		if !action.Status(status).Valid() {
			return in, by, invalid("/status", "There is no such status.")
		}
		in.Status = append(in.Status, action.Status(status))
	}
	for _, known := range []struct{ name, values string }{{"risk", "read write danger"}, {"mode", "allow deny require_approval"}, {"last", "hour day week"}} {
		if v := q.Get(known.name); v != "" && !slices.Contains(strings.Fields(known.values), v) {
			return in, by, invalid("/"+known.name, "There is no such "+known.name+"; take one of: "+strings.ReplaceAll(known.values, " ", ", ")+".")
		}
	}
	if last := q.Get("last"); last != "" && in.From == "" {
		in.From = now.Add(-spells()[last]).UTC().Format(time.RFC3339)
	}
	by = api.AskedBy{Session: q.Get("session"), Run: q.Get("run"), Automation: q.Get("automation"), Group: q.Get("group"), Person: q.Get("person")}
	return in, by, nil
}

// Get returns what a filter is set to; empty: it lets everything pass.
func (q activityQuery) Get(name string) string { return q.values.Get(name) }

// Has reports whether a filter has a value, of several.
func (q activityQuery) Has(name, value string) bool { return slices.Contains(q.values[name], value) }

// Any reports whether something is left out.
func (q activityQuery) Any() bool {
	return len(q.values) > 1 || len(q.values) == 1 && q.Get("cursor") == ""
}

// More reports whether a filter is set that only the form shows.
func (q activityQuery) More() bool {
	for name := range q.values {
		if !slices.Contains([]string{"status", "last", "cursor", "session"}, name) {
			return true
		}
	}
	return false
}

// Toggle is the address of the list with a status more, or less.
func (q activityQuery) Toggle(status action.Status) string {
	v := q.copy("status", "cursor")
	for _, s := range q.values["status"] {
		if s != string(status) {
			v.Add("status", s)
		}
	}
	if !q.Has("status", string(status)) {
		v.Add("status", string(status))
	}
	return address("/activity", v)
}

// Without is the address of the list without some filters.
func (q activityQuery) Without(names ...string) string {
	return address("/activity", q.copy(append(names, "cursor")...))
}

// Of is the address of the list with the calls of one session.
func (q activityQuery) Of(session string) string {
	v := q.copy("cursor")
	v.Set("session", session)
	return address("/activity", v)
}

// Last is the address of the list of the last hour, day or week.
func (q activityQuery) Last(spell string) string {
	v := q.copy("from", "to", "last", "cursor")
	v.Set("last", spell)
	return address("/activity", v)
}

// Older is the address of the page that follows; empty: there is none.
func (q activityQuery) Older(cursor string) string {
	if cursor == "" {
		return ""
	}
	v := q.copy("cursor")
	v.Set("cursor", cursor)
	return address("/activity", v)
}

// Newest is the address of the first page; empty: this is it.
func (q activityQuery) Newest() string {
	if q.Get("cursor") == "" {
		return ""
	}
	return q.Without()
}

// Export is the address of all that the list has since a time, as a file.
func (q activityQuery) Export(format, from string) string {
	v := q.copy("status", "last", "cursor")
	if list := q.values["status"]; len(list) > 0 {
		v.Set("status", strings.Join(list, ","))
	}
	if from != "" {
		v.Set("from", from)
	}
	v.Set("format", format)
	return address("/api/v1/audit/export", v)
}

// Statuses are those that there are, in the order of a call's life.
func (q activityQuery) Statuses() []action.Status {
	return []action.Status{
		action.StatusPending, action.StatusApproved, action.StatusExecuting, action.StatusCompleted,
		action.StatusFailed, action.StatusDenied, action.StatusExpired,
	}
}

// copy leaves some filters out.
func (q activityQuery) copy(without ...string) url.Values {
	v := url.Values{}
	for name, values := range q.values {
		if !slices.Contains(without, name) {
			v[name] = slices.Clone(values)
		}
	}
	return v
}

func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
