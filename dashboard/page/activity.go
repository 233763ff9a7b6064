package page

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
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
	JSONL, CSV  string // URLs of the list as a file; empty: reserved for owners and admins

	Refusals    []refusalRow // of the first page
	RefusalsCSV string       // URL of all of them as a file; empty: likewise
}

// refusalRow is a count of refused calls in the list.
type refusalRow struct {
	action.RefusalCount
	callerSession
	Reason string
}

// shownRefusals is the number of counts of refused calls on the page.
const shownRefusals = 20

// refusals loads the latest counts of refused calls that match the filters of the page
// which apply to them.
func (p *pageRequest) refusals(f action.InvocationFilter) (rows []refusalRow) {
	list := load(p, p.Calls.Refusals, action.RefusalFilter{Organization: p.org, Session: f.Session, From: f.From, To: f.To, Limit: shownRefusals}).Items
	var ids []string
	for _, c := range list {
		ids = append(ids, c.Session)
	}
	asking := p.callerSessions(ids)
	for _, c := range list {
		rows = append(rows, refusalRow{c, asking(c.Session), refusalReason(c.Kind)})
	}
	return rows
}

func refusalReason(kind action.RefusalKind) string {
	switch kind {
	case action.RefusedUnknown:
		return "Unknown tool"
	case action.RefusedParams:
		return "Invalid params"
	case action.RefusedRate:
		return "Rate limit"
	case action.RefusedQuota:
		return "Quota"
	case action.RefusedPending:
		return "Too many pending calls"
	case action.RefusedDecision:
		return "Attempt to approve or deny"
	}
	return string(kind)
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
		d.RefusalsCSV = "/api/v1/audit/export?what=refusals&format=csv"
	}
	if q.Get("cursor") == "" && len(f.Statuses) == 0 {
		d.Refusals = p.refusals(f)
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

// invocationPage is the data of a call's page.
type invocationPage struct {
	card
	Moments  []timelineEvent
	Evidence action.Evidence
	Origin   event.SessionOrigin
	From     link // its connector or integration
	Short    bool // the stored result is truncated
}

// link is a link to a page; the path may be empty.
type link struct{ Path, Text string }

// timelineEvent is an entry in the history of a call.
type timelineEvent struct {
	At    time.Time
	Text  string
	By    decider         // empty if no one in particular did it
	Note  string          // of the user or the gateway
	Data  json.RawMessage // redacted
	Class string          // of its marker: good, bad or empty
}

func (p *pageRequest) invocation() error {
	c := p.cardOf(p.r.PathValue("id"))
	from := link{Text: c.SourceName}
	if id, ok := strings.CutPrefix(c.Source, view.ConnectorPrefix); ok {
		from.Path = "/connectors/" + id
	} else if c.Integration != "" {
		from.Path = "/integrations/" + c.Source
	}
	d := invocationPage{
		card: c, From: from, Short: bytes.Contains(c.Result, []byte(`"_truncated"`)),
		Evidence: load2(p, p.Calls.Evidence, p.org, c.ID),
		Origin:   load2(p, p.Origins, p.me, []action.Invocation{c.Invocation})[c.Session],
	}
	d.Moments = p.invocationTimeline(&d)
	return p.show("invocation", "activity", c.Action, d)
}

// invocationTimeline returns the history of a call in chronological order.
func (p *pageRequest) invocationTimeline(d *invocationPage) []timelineEvent {
	list, names := lifecycle(d.Invocation, d.Settled), p.loadNames()
	if at := d.Evidence.DeliveredAt; at != nil {
		list = append(list, timelineEvent{At: *at, Text: "The result was delivered to the agent"})
	}
	for _, e := range load2(p, p.Calls.Events, p.org, d.ID) {
		m := timelineEvent{At: e.At, Text: eventText(e.Kind), Data: e.Data}
		if e.By != "" {
			m.By = personName(e.By, names)
		}
		list = append(list, m)
	}
	slices.SortStableFunc(list, func(a, b timelineEvent) int { return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()) })
	return list
}

// lifecycle returns the entries that derive from the row.
func lifecycle(inv action.Invocation, by decider) []timelineEvent {
	list := []timelineEvent{{At: inv.CreatedAt, Text: "The agent requested the call"}}
	add := func(at *time.Time, m timelineEvent) {
		if at != nil {
			m.At = *at
			list = append(list, m)
		}
	}
	layer := "Policy layer: " + string(inv.ModeSource)
	switch {
	case inv.Mode == action.ModeRequireApproval:
		add(&inv.CreatedAt, timelineEvent{Text: "Policy required approval", Note: layer})
	case inv.Mode == action.ModeAllow && inv.Grant != "":
		add(&inv.CreatedAt, timelineEvent{Text: "Allowed by a grant", Class: "good"})
	case inv.Mode == action.ModeAllow:
		add(&inv.CreatedAt, timelineEvent{Text: "Allowed by policy", Note: layer, Class: "good"})
	}
	if inv.ApprovedBy != "" && inv.ApprovedAt != nil {
		add(inv.ApprovedAt, timelineEvent{Text: "Approved", By: by, Class: "good"})
	}
	if inv.StartedAt != nil {
		add(inv.StartedAt, timelineEvent{Text: "Execution started", Note: inv.Executor})
	}
	add(inv.CompletedAt, finalEvent(inv, by))
	return list
}

// finalEvent returns the entry for the end of a call.
func finalEvent(inv action.Invocation, by decider) timelineEvent {
	m := timelineEvent{Note: inv.DeniedNote}
	switch inv.Status {
	case action.StatusCompleted:
		m.Text, m.Class = "Completed", "good"
	case action.StatusFailed:
		m.Text, m.Class = "Failed", "bad"
		if inv.Error != nil {
			m.Note = inv.Error.Label()
		}
	case action.StatusExpired:
		m.Text, m.Class = "Expired: not decided in time", "bad"
		if inv.ApprovedBy != "" {
			m.Text = "Expired: not executed in time"
		}
	default:
		sentence, _ := action.Denied(inv.DeniedReason)
		m.Text = strings.TrimSuffix(sentence, ".")
		switch m.Class = "bad"; inv.DeniedReason {
		case action.DeniedHuman:
			m.Text, m.By = "Denied", by
		case action.DeniedWithdrawn:
			if m.Class = ""; inv.DeniedNote != "" {
				m.Text = "Withdrawn"
			}
		}
	}
	return m
}

// evidencePage lists the files that a session uploaded as evidence.
func (p *pageRequest) evidencePage() error {
	session := load2(p, p.Session, p.org, p.r.PathValue("id"))
	page := load2(p, func(ctx context.Context, session, cursor string) (action.Page[action.Upload], error) {
		return p.Sessions.ListUploads(ctx, p.org, session, 20, cursor)
	}, session.ID, p.query("cursor"))
	return p.show("evidence", "sessions", "Evidence", struct {
		Session action.Session
		Uploads []action.Upload
		Older   string
	}{session, page.Items, p.readFilters().Older(page.Next)})
}

func evidenceURL(u action.Upload, name string) string {
	return "/api/v1/sessions/" + url.PathEscape(u.Session) + "/evidence/" + url.PathEscape(u.ID) + "/" + url.PathEscape(name)
}

// formatSize formats a size in bytes.
func formatSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// decider is who or what settled a call.
type decider struct {
	Text   string
	Person bool
}

// decidedBy returns the decider of a call. The names are those of users by ID.
func decidedBy(inv action.Invocation, names map[string]string) decider {
	switch {
	case inv.Status == action.StatusPending:
		return decider{Text: "not decided yet"}
	case inv.Status == action.StatusExpired && inv.ApprovedBy == "":
		return decider{Text: "no one"}
	case inv.Status == action.StatusDenied && inv.DeniedReason != action.DeniedHuman:
		_, by := action.Denied(inv.DeniedReason)
		return decider{Text: by}
	case inv.ApprovedBy == "":
		return decider{Text: "policy"}
	}
	return decider{Text: cmp.Or(names[inv.ApprovedBy], shortID(inv.ApprovedBy)), Person: true}
}

// denialReason explains a denial, unless the decider or a note does.
func denialReason(inv action.Invocation) string {
	sentence, _ := action.Denied(inv.DeniedReason)
	_, why, _ := strings.Cut(sentence, ": ")
	if inv.DeniedReason == action.DeniedWithdrawn && inv.DeniedNote != "" {
		return ""
	}
	return strings.TrimSuffix(why, ".")
}

// displayStatus returns the displayed status. A call that its caller withdrew is not
// shown as denied.
func displayStatus(inv action.Invocation) string {
	if inv.Status == action.StatusDenied && inv.DeniedReason == action.DeniedWithdrawn {
		return "withdrawn"
	}
	return string(inv.Status)
}

// nothingRan reports whether a failed call definitely did not run.
func nothingRan(inv action.Invocation) bool {
	if inv.Status != action.StatusFailed || inv.Error == nil {
		return false
	}
	return inv.Error.Code == action.FailedStale || inv.Error.Code == action.FailedInternal
}

// modeName returns the name of a mode, given as a string or an [action.Mode].
func modeName(mode any) string { return strings.ReplaceAll(fmt.Sprint(mode), "_", " ") }

// eventText returns the name of an event kind for people.
func eventText(kind string) string {
	switch kind {
	case action.LateOutcome:
		return "The execution finished after it had timed out"
	case action.ParamsRevealed:
		return "Full params viewed"
	case action.SourceAsked:
		return "The source requested input from the caller"
	}
	return kind
}

// personName returns a user by ID, also one who was removed.
func personName(id string, names map[string]string) decider {
	return decider{Text: cmp.Or(names[id], shortID(id)), Person: names[id] != ""}
}
