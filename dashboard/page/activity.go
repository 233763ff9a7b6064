package page

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
)

// activityRow is a call in the list.
type activityRow struct {
	action.Invocation
	callerSession
	Settled decider
}

// activityList is the data of the activity page.
type activityList struct {
	action.Page[action.Invocation]
	Rows  []activityRow
	Query activityQuery
	Names map[string]string // of users, by ID

	Sources     []action.Connector
	Automations map[string]string
	JSONL, CSV  string // where the list is as a file; empty: for those who decide
}

func (p *pageRequest) activity() error {
	var in api.ListInvocationsInput
	q := activityQuery{readQuery(p, &in, "last")}
	q.oneOf(p, "last", slices.Sorted(maps.Keys(timeRanges())))
	if last := q.Get("last"); last != "" && in.From == "" {
		in.From = p.Now().Add(-timeRanges()[last]).UTC().Format(time.RFC3339)
	}
	f := load2(p, func(ctx context.Context, in api.CallFilters, by api.CallerFilters) (action.InvocationFilter, error) {
		return p.InvocationFilter(ctx, p.me, in, by)
	}, in.CallFilters, in.CallerFilters)
	f.Limit, f.Cursor = in.Limit, in.Cursor
	d := activityList{
		Query: q, Page: load(p, p.Calls.ListInvocations, f), Names: p.loadNames(), Sources: p.loadConnectors(), Automations: p.loadAutomationNames(),
	}
	if p.decides() {
		d.JSONL, d.CSV = q.export("jsonl", in.From), q.export("csv", in.From)
	}
	var ids []string
	for _, inv := range d.Items {
		ids = append(ids, inv.Session)
	}
	asking := p.callerSessions(ids)
	for _, inv := range d.Items {
		d.Rows = append(d.Rows, activityRow{inv, asking(inv.Session), decidedBy(inv, d.Names)})
	}
	return p.show("activity", "activity", "Activity", d)
}

// activityQuery is the query of the activity page.
type activityQuery struct{ filters }

// timeRanges are the time ranges with a link.
func timeRanges() map[string]time.Duration {
	return map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour}
}

// More reports whether a filter is set that only the form shows.
func (q activityQuery) More() bool { return len(q.copy("status", "last", "cursor", "session")) > 0 }

// Toggle returns the URL of the list with a status added or removed.
func (q activityQuery) Toggle(status string) string {
	v := q.copy("status", "cursor")
	for _, s := range q.values["status"] {
		if s != status {
			v.Add("status", s)
		}
	}
	if !q.Has("status", status) {
		v.Add("status", status)
	}
	return address(q.path, v)
}

// Last returns the URL of the list for the last hour, day or week.
func (q activityQuery) Last(spell string) string {
	v := q.copy("from", "to", "last", "cursor")
	v.Set("last", spell)
	return address(q.path, v)
}

// export returns the URL of the whole list since a time, as a file.
func (q activityQuery) export(format, from string) string {
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
