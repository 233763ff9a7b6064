package dashboard

import (
	"net/http"

	"sallyport/api"
	"sallyport/ingest/event"
)

func eventStatuses() []string {
	return []string{"queued", "processing", "completed", "failed", "skipped"}
}

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

func (p *pages) eventsPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	f := readFilters(r, "status", "provider", "automation", "trigger", "delivery")
	if err := f.oneOf("status", eventStatuses()...); err != nil {
		return err
	}
	events, err := p.listEvents(ctx, me, &api.EventQuery{
		Paging: f.paging(), Status: f.Get("status"), Provider: f.Get("provider"), Automation: f.Get("automation"), Trigger: f.Get("trigger"), Delivery: f.Get("delivery"),
	})
	if err != nil {
		return err
	}
	d := struct {
		Events      api.List[api.InboundEvent]
		Filters     filters
		Statuses    []string
		Providers   []api.EventProvider
		Automations []event.Automation
		Causes      map[string]cause
		Decides     bool
	}{Events: events, Filters: f, Statuses: eventStatuses(), Providers: p.EventProviders, Decides: me.Role.Decides()}
	if d.Automations, err = p.Inbound.ListAutomations(ctx, me.Organization); err != nil {
		return err
	}
	if d.Causes, err = p.causes(ctx, me.Organization); err != nil {
		return err
	}
	return p.render(w, "events", "layout", view{Page: "events", Title: "Events", Me: me, Data: d})
}

func (p *pages) eventPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	record, err := p.Inbound.Event(ctx, me.Organization, r.PathValue("id"))
	if err != nil {
		return err
	}
	d := eventData{Decides: me.Role.Decides(), Kind: record.Type}
	if d.InboundEvent, err = p.viewEvent(ctx, record); err != nil {
		return err
	}
	if d.Context != nil {
		d.Text = pretty(d.Context)
	}
	if d.Causes, err = p.causes(ctx, me.Organization); err != nil {
		return err
	}
	d.Cause = d.Causes[d.Trigger]
	if provider, err := p.eventProvider(d.Provider, ""); err == nil {
		d.Kind = provider.Title + ": " + eventProviderTypeTitle(provider, d.Type)
	}
	if t, err := p.Inbound.Trigger(ctx, me.Organization, d.Trigger); err == nil {
		d.Filters = t.Config
	}
	if d.Receipt != "" {
		others, err := p.listEvents(ctx, me, &api.EventQuery{Delivery: d.Receipt, Paging: api.Paging{Limit: 50}})
		if err != nil {
			return err
		}
		d.Others = others.Items
	}
	return p.render(w, "event", "layout", view{Page: "events", Title: or(d.Title, "Event"), Me: me, Data: d})
}

// eventContext is all that is known of an event, for a person who asked to see
// it; the reading is logged.
func (p *pages) eventContext(w http.ResponseWriter, r *http.Request, me *Principal) error {
	whole, err := p.wholeContext(r.Context(), me, r.PathValue("id"))
	if err != nil {
		return err
	}
	return p.render(w, "event", "whole", view{Me: me, Data: pretty(whole)})
}

// unmatched says why an event started nothing.
func unmatched(why event.SkipReason) string {
	return map[event.SkipReason]string{
		event.SkipFilter:     "The trigger's filters did not let it pass.",
		event.SkipDisabled:   "The automation was disabled when it came.",
		event.SkipManual:     "A person skipped it.",
		event.SkipRunFailed:  "No run could be begun.",
		event.SkipUnverified: "A broker forwarded it without verifying who sent it.",
	}[why]
}
