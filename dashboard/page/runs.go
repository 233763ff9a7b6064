package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

// runCause is a trigger or schedule in a list of runs.
type runCause struct{ Name, Path string }

// runCauses returns all existing triggers and schedules by ID.
func (p *pageRequest) runCauses() map[string]runCause {
	all := map[string]runCause{}
	for _, t := range load2(p, p.Inbound.ListTriggers, p.org, "") {
		all[t.ID] = runCause{t.Name, "/triggers/" + t.ID}
	}
	for _, s := range load2(p, p.Inbound.ListSchedules, p.org, "") {
		all[s.ID] = runCause{s.Name, "/schedules#" + s.ID}
	}
	return all
}

func (p *pageRequest) runsPage() error {
	var in api.RunQuery
	f := readQuery(p, &in, "parcels")
	return p.show("runs", "runs", "Runs", struct {
		Runs        api.List[api.RunView]
		Filters     filters
		Automations []event.Automation
		Causes      map[string]runCause
		Taker       runDelivery
		Decides     bool
	}{load2(p, p.ListRuns, p.me, &in), f, p.loadAutomations(), p.runCauses(), p.runDelivery(f), p.decides()})
}

// runData is the data of a run's page.
type runData struct {
	api.RunView
	Event    event.Record
	Cause    runCause
	Worker   decider
	Timeline []timelineEntry
	Calls    action.Page[action.Invocation]
	Held     []action.Invocation
	Names    map[string]string
	Decides  bool
}

func (p *pageRequest) runPage() error {
	run, err := p.Inbound.Run(p.ctx(), p.org, p.r.PathValue("id"))
	v, err := p.ViewRun(p.ctx(), run, err)
	if err != nil {
		return err
	}
	d := runData{
		RunView: v, Decides: p.decides(), Names: p.loadNames(),
		Event: load2(p, p.Inbound.Event, p.org, run.Event),
		Cause: p.runCauses()[run.Trigger],
		Calls: load(p, p.Calls.ListInvocations, action.InvocationFilter{Organization: p.org, Run: run.ID, Limit: 50}),
	}
	d.Worker = p.workerOf(&run)
	for _, inv := range d.Calls.Items {
		if inv.Status == action.StatusPending {
			d.Held = append(d.Held, inv)
		}
	}
	d.Timeline = p.timeline(&d)
	return p.show("run", "runs", cmp.Or(run.Title, "Run"), d)
}

// workerOf names the current or last worker of a run.
func (p *pageRequest) workerOf(run *event.Run) decider {
	key, is := strings.CutPrefix(run.ClaimedBy, "key:")
	switch {
	case run.ClaimedBy == "endpoint":
		return decider{Text: "endpoint"}
	case !is && run.ClaimedBy == "":
		return decider{Text: "none"}
	case !is:
		return personName(run.ClaimedBy, p.loadNames())
	}
	for _, k := range load(p, p.People.ListAPIKeys, p.org) {
		if k.ID == key {
			return decider{Text: k.Name, Person: true}
		}
	}
	return decider{Text: "deleted key"}
}

// timelineEntry is an entry in the history of a run.
type timelineEntry struct {
	At   time.Time
	What string
	By   string // empty if no person did it
}

// timeline returns the history of a run in chronological order.
func (p *pageRequest) timeline(d *runData) (all []timelineEntry) {
	add := func(at *time.Time, what string) {
		if at != nil && !at.IsZero() {
			all = append(all, timelineEntry{At: *at, What: what})
		}
	}
	add(d.Event.OccurredAt, "Event occurred")
	add(&d.Event.CreatedAt, "Event matched, run queued")
	add(d.StartedAt, "Run started")
	if d.Session != "" {
		if s, err := p.Session(p.ctx(), p.org, d.Session); err == nil { // it may be deleted
			add(&s.CreatedAt, fmt.Sprintf("Claimed by %s (attempt %d)", d.Worker.Text, d.Attempt))
		}
	}
	for _, inv := range d.Calls.Items {
		add(&inv.CreatedAt, fmt.Sprintf("Agent called %s › %s", render.Plain(inv.SourceName), render.Plain(inv.Action)))
	}
	acted := time.Time{}
	for _, e := range load(p, p.Policy.PolicyEvents, action.PolicyEventFilter{Organization: p.org, Kind: action.EventRun, Subject: d.ID, Limit: 100}).Items {
		all = append(all, timelineEntry{At: e.At, What: runActionText(e), By: e.By})
		if e.At.After(acted) {
			acted = e.At
		}
	}
	if d.EndedAt != nil && d.EndedAt.After(acted) { // otherwise a person ended it
		add(d.EndedAt, "Run ended: "+string(d.Status))
	}
	slices.SortStableFunc(all, func(a, b timelineEntry) int { return a.At.Compare(b.At) })
	return all
}

// runActionText describes what a person did to a run.
func runActionText(e action.PolicyEvent) string {
	var before, after struct {
		Status string `json:"status"`
		Code   string `json:"code"`
	}
	if json.Unmarshal(e.Before, &before) != nil || json.Unmarshal(e.After, &after) != nil {
		return "Changed manually"
	}
	switch {
	case after.Status == "queued":
		return "Queued again, previously " + cmp.Or(before.Status, "none")
	case after.Code == "cancelled":
		return "Cancelled"
	case before.Status == "needs_human":
		return "Resolved: " + after.Status
	case after.Status == "skipped":
		return "Event skipped"
	}
	return "Changed: " + after.Status
}

// eventData is the data of an event's page.
type eventData struct {
	api.InboundEvent
	Cause   runCause
	Kind    string           // title of its trigger's type
	Text    []render.Segment // the context; nil if it is not stored
	Filters []byte           // current config of its trigger; nil if the trigger was removed
	Others  []api.InboundEvent
	Causes  map[string]runCause
	Decides bool
}

func (p *pageRequest) eventsPage() error {
	var in api.EventQuery
	f := readQuery(p, &in)
	return p.show("events", "events", "Events", struct {
		Events      api.List[api.InboundEvent]
		Filters     filters
		Providers   []api.EventProvider
		Automations []event.Automation
		Causes      map[string]runCause
		Decides     bool
	}{load2(p, p.ListEvents, p.me, &in), f, p.EventProviders, p.loadAutomations(), p.runCauses(), p.decides()})
}

func (p *pageRequest) eventPage() error {
	record := load2(p, p.Inbound.Event, p.org, p.r.PathValue("id"))
	d := eventData{InboundEvent: load(p, p.ViewEvent, record), Kind: record.Type, Causes: p.runCauses(), Decides: p.decides()}
	if p.err != nil {
		return p.err
	}
	if d.Context != nil {
		d.Text = render.JSON(d.Context)
	}
	d.Cause = d.Causes[d.Trigger]
	if provider, err := p.EventProvider(d.Provider, ""); err == nil {
		d.Kind = provider.Title + ": " + eventTypeTitle(provider, d.Type)
	}
	if t, err := p.Inbound.Trigger(p.ctx(), p.org, d.Trigger); err == nil {
		d.Filters = t.Config
	}
	if d.Receipt != "" {
		d.Others = load2(p, p.ListEvents, p.me, &api.EventQuery{Delivery: d.Receipt, Paging: api.Paging{Limit: 50}}).Items
	}
	return p.show("event", "events", cmp.Or(d.Title, "Event"), d)
}

// eventContext shows the whole context of an event on request. The access is
// logged.
func (p *pageRequest) eventContext() error {
	return p.showPart("event", "whole", layoutData{Me: p.me, Data: render.JSON(load2(p, p.FullContext, p.me, p.r.PathValue("id")))})
}

// unmatchedReason explains why an event started nothing.
func unmatchedReason(why event.SkipReason) string {
	return map[event.SkipReason]string{
		event.SkipFilter:     "The event does not match the filters of the trigger.",
		event.SkipDisabled:   "The automation was disabled when the event was received.",
		event.SkipManual:     "Skipped manually.",
		event.SkipRunFailed:  "The run could not be started.",
		event.SkipUnverified: "The event was forwarded by a broker without sender verification.",
	}[why]
}

// deliveryData is the data of a delivery's page.
type deliveryData struct {
	api.DeliveryView
	Cause  runCause
	Text   []render.Segment // the payload; nil if it is not stored
	Events []api.InboundEvent
	Causes map[string]runCause
}

func (p *pageRequest) deliveriesPage() error {
	var in api.DeliveryQuery
	f := readQuery(p, &in)
	return p.show("deliveries", "deliveries", "Deliveries", struct {
		action.Page[event.Receipt]
		Filters   filters
		Providers []api.EventProvider
		Causes    map[string]runCause
	}{load2(p, p.ListReceipts, p.me, &in), f, p.EventProviders, p.runCauses()})
}

func (p *pageRequest) deliveryPage() error {
	d := deliveryData{DeliveryView: view.ViewDelivery(load2(p, p.Inbound.Receipt, p.org, p.r.PathValue("id"))), Causes: p.runCauses()}
	if d.Payload != nil {
		d.Text = render.JSON(d.Payload)
	}
	d.Cause = d.Causes[d.Trigger]
	d.Events = load2(p, p.ListEvents, p.me, &api.EventQuery{Delivery: d.ID, Paging: api.Paging{Limit: 50}}).Items
	return p.show("delivery", "deliveries", "Delivery", d)
}

// canRedrive reports whether a delivery can be processed again: it failed, or
// matched nothing and kept its payload.
func canRedrive(r event.Receipt) bool {
	return r.Status == event.ReceiptFailed || r.Status == event.ReceiptCompleted && r.LastError != "" && !r.Duplicate
}

// runDelivery describes who receives an organization's runs, as far as the user
// may know.
type runDelivery struct {
	Endpoint   *api.EndpointView // nil if there is none
	Keys       int               // number of worker keys
	Deliveries action.Page[event.RunDelivery]
	Nobody     bool // neither an endpoint nor a worker key
}

// runDelivery loads who receives runs. A member sees only keys.
func (p *pageRequest) runDelivery(f filters) runDelivery {
	var t runDelivery
	status, _ := reflect.TypeFor[api.RunDeliveryQuery]().FieldByName("Status")
	f.oneOf(p, "parcels", enumOf(status))
	for _, k := range load(p, p.People.ListAPIKeys, p.org) {
		if k.Scope == action.ScopeRuns && k.RevokedAt == nil {
			t.Keys++
		}
	}
	if p.err != nil || !p.decides() {
		return t
	}
	e, err := p.RunEndpoint(p.ctx(), p.me)
	switch {
	case err == nil:
		t.Endpoint = &e
	case !errors.Is(err, action.ErrNotFound):
		p.setError(err)
	}
	t.Nobody = t.Keys == 0 && (t.Endpoint == nil || !t.Endpoint.Enabled)
	t.Deliveries = load(p, p.Inbound.ListRunDeliveries, event.RunDeliveryFilter{Organization: p.org, Status: event.RunDeliveryStatus(f.Get("parcels")), Limit: 20})
	return t
}
