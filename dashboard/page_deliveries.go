package dashboard

import (
	"net/http"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// deliveryData is all that the page of a delivery shows.
type deliveryData struct {
	api.DeliveryView
	Cause  cause
	Text   []Segment // the payload; nil: it is not kept
	Events []api.InboundEvent
	Causes map[string]cause
}

func receiptStatuses() []string { return []string{"queued", "processing", "completed", "failed"} }

func (p *pages) deliveriesPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	f := readFilters(r, "status", "provider", "trigger")
	if err := f.oneOf("status", receiptStatuses()...); err != nil {
		return err
	}
	page, err := p.Inbound.ListReceipts(ctx, event.ReceiptFilter{
		Organization: me.Organization, Status: event.ReceiptStatus(f.Get("status")), Provider: f.Get("provider"), Trigger: f.Get("trigger"), Limit: f.paging().Limit, Cursor: f.paging().Cursor,
	})
	if err != nil {
		return err
	}
	causes, err := p.causes(ctx, me.Organization)
	if err != nil {
		return err
	}
	return p.render(w, "deliveries", "layout", view{Page: "deliveries", Title: "Deliveries", Me: me, Data: struct {
		action.Page[event.Receipt]
		Filters   filters
		Statuses  []string
		Providers []api.EventProvider
		Causes    map[string]cause
	}{page, f, receiptStatuses(), p.EventProviders, causes}})
}

func (p *pages) deliveryPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	receipt, err := p.Inbound.Receipt(ctx, me.Organization, r.PathValue("id"))
	if err != nil {
		return err
	}
	d := deliveryData{DeliveryView: viewDelivery(receipt)}
	if d.Payload != nil {
		d.Text = pretty(d.Payload)
	}
	if d.Causes, err = p.causes(ctx, me.Organization); err != nil {
		return err
	}
	d.Cause = d.Causes[d.Trigger]
	events, err := p.listEvents(ctx, me, &api.EventQuery{Delivery: d.ID, Paging: api.Paging{Limit: 50}})
	if err != nil {
		return err
	}
	d.Events = events.Items
	return p.render(w, "delivery", "layout", view{Page: "deliveries", Title: "Delivery", Me: me, Data: d})
}

// again reports whether a delivery can be worked off once more: it failed, or
// reached nobody and kept its payload.
func again(r event.Receipt) bool {
	return r.Status == event.ReceiptFailed || r.Status == event.ReceiptCompleted && r.LastError != "" && !r.Doubled
}
