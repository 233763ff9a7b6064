package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"sallyport/action"
	"sallyport/ingest/event"
)

// InboundEvent is an event of a trigger or schedule.
type InboundEvent struct {
	event.Record
	Status         string `json:"status" enum:"queued,processing,completed,failed,skipped" doc:"That of its run; skipped: it started none."`
	AutomationName string `json:"automation_name,omitempty" example:"nightly-triage"`
	Context        raw    `json:"context,omitempty" doc:"Redacted, and cut where it is long; of an event that is read alone, until its retention is over."`
}

// WholeContext is all that is known of an event.
type WholeContext struct {
	Context raw `json:"context" doc:"As the agent gets it, with nothing redacted."`
}

// DeliveryView is what a service posted.
type DeliveryView struct {
	event.Receipt
	Payload raw `json:"payload,omitempty" doc:"Redacted, and cut where it is long; of a delivery that is read alone, once it was worked off and until its retention is over."`
}

// EventQuery is the query of a list of events.
type EventQuery struct {
	Paging
	Automation string `query:"automation" maxLength:"200" doc:"Id or name."`
	Trigger    string `query:"trigger" maxLength:"80" doc:"Id of a trigger or schedule."`
	Delivery   string `query:"delivery" maxLength:"80" doc:"Id of the delivery that they came in."`
	Provider   string `query:"provider" maxLength:"40" doc:"Id of a provider, or schedule."`
	Status     string `query:"status" enum:"queued,processing,completed,failed,skipped"`
	Skipped    string `query:"skipped" enum:"true,false" doc:"Whether an event was skipped as it came, or by hand. Absent: both."`
}

// DeliveryQuery is the query of a list of deliveries.
type DeliveryQuery struct {
	Paging
	Trigger  string              `query:"trigger" maxLength:"80" doc:"Id of a trigger."`
	Provider string              `query:"provider" maxLength:"40" doc:"Id of a provider."`
	Status   event.ReceiptStatus `query:"status" enum:"queued,processing,completed,failed"`
}

func (s *Server) inboundRoutes() {
	const path = "/api/v1/inbound-events"
	register(s, route{
		method: "GET", path: path, tag: "inbound events", summary: "List events of triggers and schedules, newest first",
	}, func(ctx context.Context, p *Principal, in *EventQuery) (*body[List[InboundEvent]], error) {
		return s.listEvents(ctx, p, in)
	})
	register(s, route{
		method: "GET", path: path + "/{id}", tag: "inbound events", summary: "Read an event",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[InboundEvent], error) {
		r, err := s.Deliveries.Event(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.viewEvent(ctx, r)
		return bodyOf(v), err
	})
	register(s, route{
		method: "GET", path: path + "/{id}/context", tag: "inbound events", summary: "Read the whole context of an event",
		doc: "The reading is logged.", errors: []int{http.StatusGone},
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[WholeContext], error) {
		whole, err := s.wholeContext(ctx, p, in.ID)
		return bodyOf(WholeContext{whole}), err
	})
	register(s, route{
		method: "POST", path: path + "/{id}/skip", tag: "inbound events", summary: "Skip an event by hand", status: http.StatusOK,
		doc: "Its run, which nobody may have yet, is not done.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[InboundEvent], error) {
		r, err := s.Deliveries.SkipEvent(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return nil, err
		}
		s.runChanged(&event.Run{ID: r.Run, Organization: r.Organization, Status: r.RunStatus})
		s.log.InfoContext(ctx, "event skipped", "event", r.ID, "run", r.Run, "by", p.By())
		v, err := s.viewEvent(ctx, r)
		return bodyOf(v), err
	})
	s.deliveryRoutes()
}

func (s *Server) deliveryRoutes() {
	const path = "/api/v1/deliveries"
	register(s, route{
		method: "GET", path: path, tag: "deliveries", summary: "List deliveries, newest first",
		doc: "What services posted and the gateway verified and kept. Deliveries to a URL of a whole provider are the operator's organization's.",
	}, func(ctx context.Context, p *Principal, in *DeliveryQuery) (*body[List[DeliveryView]], error) {
		page, err := s.Deliveries.ListReceipts(ctx, event.ReceiptFilter{Organization: p.Organization, Trigger: in.Trigger, Provider: in.Provider, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor})
		return pageOf(page, func(r event.Receipt) DeliveryView { return DeliveryView{Receipt: r} }), err
	})
	register(s, route{
		method: "GET", path: path + "/{id}", tag: "deliveries", summary: "Read a delivery",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[DeliveryView], error) {
		r, err := s.Deliveries.Receipt(ctx, p.Organization, in.ID)
		return bodyOf(viewDelivery(r)), err
	})
	register(s, route{
		method: "POST", path: path + "/{id}/redrive", tag: "deliveries", summary: "Work a failed delivery off again", status: http.StatusOK,
		errors: []int{http.StatusConflict, http.StatusGone},
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[DeliveryView], error) {
		r, err := s.Deliveries.RedriveReceipt(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return nil, err
		}
		s.log.InfoContext(ctx, "delivery queued anew", "delivery", r.ID, "by", p.By())
		return bodyOf(viewDelivery(r)), nil
	})
}

func (s *Server) listEvents(ctx context.Context, p *Principal, q *EventQuery) (*body[List[InboundEvent]], error) {
	f := event.RecordFilter{Organization: p.Organization, Trigger: q.Trigger, Receipt: q.Delivery, Provider: q.Provider, Status: q.Status, Limit: q.Limit, Cursor: q.Cursor}
	if skipped, err := strconv.ParseBool(q.Skipped); err == nil {
		f.Skipped = &skipped
	}
	var err error
	if f.Automation, err = s.automationID(ctx, p, q.Automation, "/automation"); err != nil {
		return nil, err
	}
	page, err := s.Deliveries.ListEvents(ctx, f)
	if err != nil {
		return nil, err
	}
	names, err := s.Automations.AutomationNames(ctx, p.Organization)
	return pageOf(page, func(r event.Record) InboundEvent {
		return InboundEvent{Record: r, Status: r.Status(), AutomationName: names[r.Automation]}
	}), err
}

func (s *Server) viewEvent(ctx context.Context, r event.Record) (InboundEvent, error) {
	names, err := s.Automations.AutomationNames(ctx, r.Organization)
	return InboundEvent{Record: r, Status: r.Status(), AutomationName: names[r.Automation], Context: shownJSON(r.Shown)}, err
}

func viewDelivery(r event.Receipt) DeliveryView {
	return DeliveryView{Receipt: r, Payload: shownJSON(r.Shown)}
}

// shownJSON is what was kept for people, as JSON whatever it was.
func shownJSON(kept []byte) raw {
	if len(kept) == 0 {
		return nil
	}
	return jsonOrText(kept)
}

// wholeContext opens the context of an event for a person, who is on record.
func (s *Server) wholeContext(ctx context.Context, p *Principal, id string) (raw, error) {
	sealed, err := s.Deliveries.EventContext(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	if sealed == nil {
		return nil, action.Errorf(action.ErrGone, "context_gone", "The whole context is not kept: the event started nothing, or its retention is over. GET /api/v1/inbound-events/%s has what is left.", id)
	}
	whole, err := s.openContext(p.Organization, id, sealed)
	if err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "whole context of an event read", "event", id, "by", p.By())
	return whole, nil
}

// openContext opens what was sealed for an event's row.
func (s *Server) openContext(organization, id string, sealed []byte) (raw, error) {
	whole, err := s.Vault.Open(action.Ref{Organization: organization, Table: "events", Row: id, Column: "sealed"}, sealed)
	if err != nil {
		return nil, fmt.Errorf("opening the context of event %s: %w", id, err)
	}
	return jsonOrText(whole), nil
}
