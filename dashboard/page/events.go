package page

import (
	"cmp"
	"errors"
	"reflect"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

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
