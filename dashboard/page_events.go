package dashboard

import (
	"cmp"
	"sallyport/api"
	"sallyport/ingest/event"
)

// eventData is all that the page of an event shows.
type eventData struct {
	api.InboundEvent
	Cause   cause
	Kind    string    // its trigger's type, in words
	Text    []Segment // the context; nil: it is not kept here
	Filters []byte    // its trigger's config as it is now; nil: it is gone
	Others  []api.InboundEvent
	Causes  map[string]cause
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
		Causes      map[string]cause
		Decides     bool
	}{load2(p, p.listEvents, p.me, &in), f, p.EventProviders, p.loadAutomations(), p.causes(), p.decides()})
}

func (p *pageRequest) eventPage() error {
	record := load2(p, p.Inbound.Event, p.org, p.r.PathValue("id"))
	d := eventData{InboundEvent: load(p, p.viewEvent, record), Kind: record.Type, Causes: p.causes(), Decides: p.decides()}
	if p.err != nil {
		return p.err
	}
	if d.Context != nil {
		d.Text = pretty(d.Context)
	}
	d.Cause = d.Causes[d.Trigger]
	if provider, err := p.eventProvider(d.Provider, ""); err == nil {
		d.Kind = provider.Title + ": " + eventProviderTypeTitle(provider, d.Type)
	}
	if t, err := p.Inbound.Trigger(p.ctx(), p.org, d.Trigger); err == nil {
		d.Filters = t.Config
	}
	if d.Receipt != "" {
		d.Others = load2(p, p.listEvents, p.me, &api.EventQuery{Delivery: d.Receipt, Paging: api.Paging{Limit: 50}}).Items
	}
	return p.show("event", "events", cmp.Or(d.Title, "Event"), d)
}

// eventContext is all that is known of an event, for a person who asked to see
// it; the reading is logged.
func (p *pageRequest) eventContext() error {
	return p.showPart("event", "whole", layoutData{Me: p.me, Data: pretty(load2(p, p.wholeContext, p.me, p.r.PathValue("id")))})
}

// unmatched says why an event started nothing.
func unmatched(why event.SkipReason) string {
	return map[event.SkipReason]string{
		event.SkipFilter:     "The event does not match the filters of the trigger.",
		event.SkipDisabled:   "The automation was disabled when the event was received.",
		event.SkipManual:     "Skipped manually.",
		event.SkipRunFailed:  "The run could not be started.",
		event.SkipUnverified: "The event was forwarded by a broker without sender verification.",
	}[why]
}
