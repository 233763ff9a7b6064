package dashboard

import (
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

func (p *pageRequest) deliveriesPage() error {
	var in api.DeliveryQuery
	f := readQuery(p, &in)
	return p.show("deliveries", "deliveries", "Deliveries", struct {
		action.Page[event.Receipt]
		Filters   filters
		Providers []api.EventProvider
		Causes    map[string]cause
	}{load2(p, p.listReceipts, p.me, &in), f, p.EventProviders, p.causes()})
}

func (p *pageRequest) deliveryPage() error {
	d := deliveryData{DeliveryView: viewDelivery(load2(p, p.Inbound.Receipt, p.org, p.r.PathValue("id"))), Causes: p.causes()}
	if d.Payload != nil {
		d.Text = pretty(d.Payload)
	}
	d.Cause = d.Causes[d.Trigger]
	d.Events = load2(p, p.listEvents, p.me, &api.EventQuery{Delivery: d.ID, Paging: api.Paging{Limit: 50}}).Items
	return p.show("delivery", "deliveries", "Delivery", d)
}

// again reports whether a delivery can be worked off once more: it failed, or
// reached nobody and kept its payload.
func again(r event.Receipt) bool {
	return r.Status == event.ReceiptFailed || r.Status == event.ReceiptCompleted && r.LastError != "" && !r.Doubled
}
