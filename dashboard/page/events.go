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

// eventData is all that the page of an event shows.
type eventData struct {
	api.InboundEvent
	Cause   runCause
	Kind    string           // its trigger's type, in words
	Text    []render.Segment // the context; nil: it is not kept here
	Filters []byte           // its trigger's config as it is now; nil: it is gone
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
		d.Kind = provider.Title + ": " + eventProviderTypeTitle(provider, d.Type)
	}
	if t, err := p.Inbound.Trigger(p.ctx(), p.org, d.Trigger); err == nil {
		d.Filters = t.Config
	}
	if d.Receipt != "" {
		d.Others = load2(p, p.ListEvents, p.me, &api.EventQuery{Delivery: d.Receipt, Paging: api.Paging{Limit: 50}}).Items
	}
	return p.show("event", "events", cmp.Or(d.Title, "Event"), d)
}

// eventContext is all that is known of an event, for a person who asked to see
// it; the reading is logged.
func (p *pageRequest) eventContext() error {
	return p.showPart("event", "whole", layoutData{Me: p.me, Data: render.JSON(load2(p, p.FullContext, p.me, p.r.PathValue("id")))})
}

// unmatchedReason says why an event started nothing.
func unmatchedReason(why event.SkipReason) string {
	return map[event.SkipReason]string{
		event.SkipFilter:     "The event does not match the filters of the trigger.",
		event.SkipDisabled:   "The automation was disabled when the event was received.",
		event.SkipManual:     "Skipped manually.",
		event.SkipRunFailed:  "The run could not be started.",
		event.SkipUnverified: "The event was forwarded by a broker without sender verification.",
	}[why]
}

// deliveryData is all that the page of a delivery shows.
type deliveryData struct {
	api.DeliveryView
	Cause  runCause
	Text   []render.Segment // the payload; nil: it is not kept
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

// again reports whether a delivery can be worked off once more: it failed, or
// reached nobody and kept its payload.
func again(r event.Receipt) bool {
	return r.Status == event.ReceiptFailed || r.Status == event.ReceiptCompleted && r.LastError != "" && !r.Duplicate
}

// runDelivery is who gets an organization's runs, as far as the person may know.
type runDelivery struct {
	Endpoint *api.EndpointView // nil: there is none
	Keys     int               // for workers
	Parcels  action.Page[event.Parcel]
	Nobody   bool // neither an endpoint nor a key: nothing works on runs
}

// runDelivery looks who works on runs. A member hears of keys alone.
func (p *pageRequest) runDelivery(f filters) runDelivery {
	var t runDelivery
	status, _ := reflect.TypeFor[api.ParcelQuery]().FieldByName("Status")
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
	t.Parcels = load(p, p.Inbound.ListParcels, event.ParcelFilter{Organization: p.org, Status: event.ParcelStatus(f.Get("parcels")), Limit: 20})
	return t
}
