package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

// auditData is the data of the audit page.
type auditData struct {
	action.Page[action.PolicyEvent]
	Rows          []eventRow
	Filters       filters
	Kinds, People []choice
	Subject       string            // trimmed
	Head          *action.AuditHead // nil if the user may not see it
	HeadJSON      string
	Decides       bool
	Names         map[string]string
}

// eventRow is a policy change, formatted.
type eventRow struct {
	action.PolicyEvent
	What    string // such as "Mode set"
	Subject string // with the names of sources
	Changes []fieldChange
	More    int // number of changes that are not shown
}

// fieldChange is the change of one field.
type fieldChange struct {
	Field         string
	Before, After []render.Segment // nil: it did not exist, or was removed
}

func (p *pageRequest) auditPage() error {
	q := p.readFilters("kind", "subject", "by", "from", "to")
	f := action.PolicyEventFilter{
		Organization: p.org, Kind: q.Get("kind"), Subject: strings.TrimSpace(q.Get("subject")), By: q.Get("by"),
		Limit: 50, Cursor: q.Get("cursor"),
	}
	d := auditData{Filters: q, Subject: f.Subject, Names: p.loadNames(), Decides: p.decides()}
	var err error
	if f.From, err = view.ParseTime("/from", q.Get("from")); err != nil {
		return err
	}
	if f.To, err = view.ParseTime("/to", q.Get("to")); err != nil {
		return err
	}
	if len(q.Get("to")) == len(time.DateOnly) { // a date includes its whole day
		f.To = f.To.AddDate(0, 0, 1)
	}
	all := p.loadConnectors()
	source, name := splitKey(f.Subject) // stored keys have the IDs of connectors
	if c := view.FindConnector(all, source); c != nil && name != "" {
		f.Subject = c.Source() + ":" + name
	} else if c := view.FindConnector(all, f.Subject); c != nil {
		f.Subject = c.Source()
	}
	d.Page = load(p, p.Policy.PolicyEvents, f)
	for _, e := range d.Items {
		d.Rows = append(d.Rows, formatEvent(e, all, d.Names))
	}
	d.choices(f)
	if d.Decides {
		if heads := load(p, p.Calls.AuditHeads, p.org); len(heads) > 0 {
			d.Head = &heads[0]
			raw, _ := json.Marshal(heads[0]) // plain values always encode
			d.HeadJSON = string(raw)
		}
	}
	return p.show("audit", "audit", "Audit log", d)
}

func (d *auditData) choices(f action.PolicyEventFilter) {
	d.Kinds = []choice{{Text: "all"}}
	for _, k := range eventKinds() {
		d.Kinds = append(d.Kinds, choice{Value: k.kind, Text: k.plural, On: k.kind == f.Kind})
	}
	d.People = []choice{{Text: "anyone"}}
	ids := make([]string, 0, len(d.Names))
	for id := range d.Names {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return strings.Compare(strings.ToLower(d.Names[a]), strings.ToLower(d.Names[b]))
	})
	for _, id := range ids {
		d.People = append(d.People, choice{Value: id, Text: render.Plain(d.Names[id]), On: id == f.By})
	}
}

// eventKind is a kind of event with its names for people.
type eventKind struct{ kind, one, plural string }

func eventKinds() []eventKind {
	return []eventKind{
		{action.EventMode, "Override", "overrides"},
		{action.EventCapability, "Group access", "group access"},
		{action.EventGate, "Gate approval", "gate approvals"},
		{action.EventGrant, "Grant", "grants"},
		{action.EventRequest, "Grant request", "grant requests"},
		{action.EventEnv, "Variable request", "variable requests"},
		{action.EventQuota, "Rate limit", "rate limits"},
		{action.EventSettings, "Settings", "settings"},
		{action.EventReview, "Tool review", "tool reviews"},
		{action.EventConnector, "Connector", "connectors"},
		{action.EventIntegration, "Integration", "integrations"},
		{action.EventApp, "App registration", "app registrations"},
		{action.EventBinding, "Automation integrations", "automation integrations"},
		{action.EventMasterKey, "Master key", "master keys"},
		{action.EventAutomation, "Automation", "automations"},
		{action.EventTrigger, "Trigger", "triggers"},
		{action.EventSchedule, "Schedule", "schedules"},
		{action.EventEndpoint, "Run endpoint", "run endpoint"},
		{action.EventRun, "Run", "runs"},
		{action.EventDelivery, "Delivery", "deliveries"},
		{action.EventPerson, "Person", "people"},
		{action.EventNotify, "Notifications", "notifications"},
		{action.EventWorkspace, "Workspace", "workspaces"},
		{action.EventRepository, "Repository", "repositories"},
		{action.EventVariable, "Variable", "variables"},
	}
}

// maxFields bounds the fields of an event.
const maxFields = 40

// formatEvent formats a policy event: its subject and each changed field.
func formatEvent(e action.PolicyEvent, all []action.Connector, names map[string]string) eventRow {
	row := eventRow{PolicyEvent: e, What: e.Kind, Subject: e.Subject}
	for _, k := range eventKinds() {
		if k.kind == e.Kind {
			row.What = k.one
		}
	}
	before, after := render.ParseFields(e.Before), render.ParseFields(e.After)
	switch {
	case len(before) == 0 && len(after) == 0:
	case len(before) == 0:
		row.What += " added"
	case len(after) == 0:
		row.What += " removed"
	case before["revoked_at"] == nil && after["revoked_at"] != nil:
		row.What += " revoked"
	default:
		row.What += " changed"
	}
	named := func(text string) string {
		for _, c := range all {
			text = strings.ReplaceAll(text, c.Source(), cmp.Or(c.Slug, c.Name))
		}
		return cmp.Or(names[text], text)
	}
	row.Subject = named(row.Subject)
	for _, field := range render.FieldNames(before, after) {
		was, is := before.Value(field, named), after.Value(field, named)
		if bytes.Equal(before[field], after[field]) || was == nil && is == nil {
			continue
		}
		if len(row.Changes) == maxFields {
			row.More++
			continue
		}
		words := cmp.Or(strings.NewReplacer("\x00", " › ", "_", " ").Replace(field), "value")
		row.Changes = append(row.Changes, fieldChange{words, was, is})
	}
	return row
}
