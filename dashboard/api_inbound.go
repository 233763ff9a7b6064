package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

func (s *Server) inboundRoutes() {
	handle(s, api.ListInboundEvents, func(ctx context.Context, p *Principal, in *api.EventQuery) (api.List[api.InboundEvent], error) {
		return s.listEvents(ctx, p, in)
	})
	handle(s, api.GetInboundEvent, func(ctx context.Context, p *Principal, in *api.ByID) (api.InboundEvent, error) {
		r, err := s.Inbound.Event(ctx, p.Organization, in.ID)
		if err != nil {
			return api.InboundEvent{}, err
		}
		return s.viewEvent(ctx, r)
	})
	handle(s, api.GetInboundContext, func(ctx context.Context, p *Principal, in *api.ByID) (api.WholeContext, error) {
		whole, err := s.wholeContext(ctx, p, in.ID)
		return api.WholeContext{Context: whole}, err
	})
	handle(s, api.SkipInboundEvent, func(ctx context.Context, p *Principal, in *api.ByID) (api.InboundEvent, error) {
		r, err := s.Inbound.SkipEvent(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return api.InboundEvent{}, err
		}
		s.runChanged(&event.Run{ID: r.Run, Organization: r.Organization, Status: r.RunStatus})
		s.Log.InfoContext(ctx, "event skipped", "event", r.ID, "run", r.Run, "by", p.By())
		return s.viewEvent(ctx, r)
	})
	s.deliveryRoutes()
}

func (s *Server) deliveryRoutes() {
	handle(s, api.ListDeliveries, func(ctx context.Context, p *Principal, in *api.DeliveryQuery) (api.List[api.DeliveryView], error) {
		page, err := s.listReceipts(ctx, p, in)
		return pageOf(page, func(r event.Receipt) api.DeliveryView { return api.DeliveryView{Receipt: r} }), err
	})
	handle(s, api.GetDelivery, func(ctx context.Context, p *Principal, in *api.ByID) (api.DeliveryView, error) {
		r, err := s.Inbound.Receipt(ctx, p.Organization, in.ID)
		return viewDelivery(r), err
	})
	handle(s, api.RedriveDelivery, func(ctx context.Context, p *Principal, in *api.ByID) (api.DeliveryView, error) {
		r, err := s.Inbound.RedriveReceipt(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return api.DeliveryView{}, err
		}
		s.Log.InfoContext(ctx, "delivery queued anew", "delivery", r.ID, "by", p.By())
		return viewDelivery(r), nil
	})
}

func (s *Server) listReceipts(ctx context.Context, p *Principal, q *api.DeliveryQuery) (action.Page[event.Receipt], error) {
	return s.Inbound.ListReceipts(ctx, event.ReceiptFilter{Organization: p.Organization, Trigger: q.Trigger, Provider: q.Provider, Status: q.Status, Limit: q.Limit, Cursor: q.Cursor})
}

func (s *Server) listEvents(ctx context.Context, p *Principal, q *api.EventQuery) (api.List[api.InboundEvent], error) {
	f := event.RecordFilter{Organization: p.Organization, Trigger: q.Trigger, Receipt: q.Delivery, Provider: q.Provider, Status: q.Status, Limit: q.Limit, Cursor: q.Cursor}
	if skipped, err := strconv.ParseBool(q.Skipped); err == nil {
		f.Skipped = &skipped
	}
	var err error
	if f.Automation, err = s.automationID(ctx, p, q.Automation, "/automation"); err != nil {
		return api.List[api.InboundEvent]{}, err
	}
	page, err := s.Inbound.ListEvents(ctx, f)
	if err != nil {
		return api.List[api.InboundEvent]{}, err
	}
	names, err := s.Inbound.AutomationNames(ctx, p.Organization)
	return pageOf(page, func(r event.Record) api.InboundEvent {
		return api.InboundEvent{Record: r, Status: r.Status(), AutomationName: names[r.Automation]}
	}), err
}

func (s *Server) viewEvent(ctx context.Context, r event.Record) (api.InboundEvent, error) {
	names, err := s.Inbound.AutomationNames(ctx, r.Organization)
	return api.InboundEvent{Record: r, Status: r.Status(), AutomationName: names[r.Automation], Context: shownJSON(r.Shown)}, err
}

func viewDelivery(r event.Receipt) api.DeliveryView {
	return api.DeliveryView{Receipt: r, Payload: shownJSON(r.Shown)}
}

// shownJSON is what was kept for people, as JSON whatever it was.
func shownJSON(kept []byte) json.RawMessage {
	if len(kept) == 0 {
		return nil
	}
	return jsonOrText(kept)
}

// wholeContext opens the context of an event for a person, who is on record.
func (s *Server) wholeContext(ctx context.Context, p *Principal, id string) (json.RawMessage, error) {
	sealed, err := s.Inbound.EventContext(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	if sealed == nil {
		return nil, action.NewError("context_gone", id)
	}
	whole, err := s.openContext(p.Organization, id, sealed)
	if err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "whole context of an event read", "event", id, "by", p.By())
	return whole, nil
}

// openContext opens what was sealed for an event's row.
func (s *Server) openContext(organization, id string, sealed []byte) (json.RawMessage, error) {
	whole, err := s.Vault.Open(action.Ref{Organization: organization, Table: "events", Row: id, Column: "sealed"}, sealed)
	if err != nil {
		return nil, fmt.Errorf("opening the context of event %s: %w", id, err)
	}
	return jsonOrText(whole), nil
}
