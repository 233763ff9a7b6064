package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/ingest/event"
)

// ListReceipts lists inbound deliveries.
func (s *Reader) ListReceipts(ctx context.Context, p *dashboard.Principal, q *api.DeliveryQuery) (action.Page[event.Receipt], error) {
	return s.Inbound.ListReceipts(ctx, event.ReceiptFilter{Organization: p.Organization, Trigger: q.Trigger, Provider: q.Provider, Status: q.Status, Limit: q.Limit, Cursor: q.Cursor})
}

// ListEvents lists inbound events with the names of their automations.
func (s *Reader) ListEvents(ctx context.Context, p *dashboard.Principal, q *api.EventQuery) (api.List[api.InboundEvent], error) {
	f := event.RecordFilter{Organization: p.Organization, Trigger: q.Trigger, Receipt: q.Delivery, Provider: q.Provider, Status: q.Status, Limit: q.Limit, Cursor: q.Cursor}
	if skipped, err := strconv.ParseBool(q.Skipped); err == nil {
		f.Skipped = &skipped
	}
	var err error
	if f.Automation, err = s.AutomationID(ctx, p, q.Automation, "/automation"); err != nil {
		return api.List[api.InboundEvent]{}, err
	}
	page, err := s.Inbound.ListEvents(ctx, f)
	if err != nil {
		return api.List[api.InboundEvent]{}, err
	}
	names, err := s.Inbound.AutomationNames(ctx, p.Organization)
	return PageOf(page, func(r event.Record) api.InboundEvent {
		return api.InboundEvent{Record: r, Status: r.Status(), AutomationName: names[r.Automation]}
	}), err
}

// ViewEvent returns the view of one event, with its redacted context.
func (s *Reader) ViewEvent(ctx context.Context, r event.Record) (api.InboundEvent, error) {
	names, err := s.Inbound.AutomationNames(ctx, r.Organization)
	return api.InboundEvent{Record: r, Status: r.Status(), AutomationName: names[r.Automation], Context: storedJSON(r.Redacted)}, err
}

// ViewDelivery returns the view of one delivery, with its redacted payload.
func ViewDelivery(r event.Receipt) api.DeliveryView {
	return api.DeliveryView{Receipt: r, Payload: storedJSON(r.Redacted)}
}

// storedJSON returns a stored redacted payload as JSON.
func storedJSON(kept []byte) json.RawMessage {
	if len(kept) == 0 {
		return nil
	}
	return jsonOrText(kept)
}

// FullContext returns the unredacted context of an event, and logs who read it.
func (s *Reader) FullContext(ctx context.Context, p *dashboard.Principal, id string) (json.RawMessage, error) {
	sealed, err := s.Inbound.EventContext(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	if sealed == nil {
		return nil, action.NewError("context_gone", id)
	}
	whole, err := s.OpenContext(p.Organization, id, sealed)
	if err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "context of an event viewed", "event", id, "by", p.By())
	return whole, nil
}

// OpenContext unseals the context of an event.
func (s *Reader) OpenContext(organization, id string, sealed []byte) (json.RawMessage, error) {
	whole, err := s.Vault.Open(action.Ref{Organization: organization, Table: "events", Row: id, Column: "sealed"}, sealed)
	if err != nil {
		return nil, fmt.Errorf("opening the context of event %s: %w", id, err)
	}
	return jsonOrText(whole), nil
}

// RunEndpoint returns the endpoint that runs are delivered to.
func (s *Reader) RunEndpoint(ctx context.Context, p *dashboard.Principal) (api.EndpointView, error) {
	e, err := s.Inbound.RunEndpoint(ctx, p.Organization)
	return ViewEndpoint(e), ErrNoEndpoint(err)
}

// ViewEndpoint returns the view of the run endpoint.
func ViewEndpoint(e event.Endpoint) api.EndpointView {
	return api.EndpointView{Organization: e.Organization, URL: e.URL, Enabled: e.Enabled, UpdatedBy: e.UpdatedBy, UpdatedAt: e.UpdatedAt, Secrets: SigningSecrets(e.Secrets)}
}

// ErrNoEndpoint maps the error of a missing run endpoint to one that says so.
func ErrNoEndpoint(err error) error {
	if !errors.Is(err, action.ErrNotFound) {
		return err
	}
	return action.NewError("no_run_endpoint")
}

// ListRuns lists runs with the names of their automations.
func (s *Reader) ListRuns(ctx context.Context, p *dashboard.Principal, q *api.RunQuery) (api.List[api.RunView], error) {
	automation, err := s.AutomationID(ctx, p, q.Automation, "/automation")
	if err != nil {
		return api.List[api.RunView]{}, err
	}
	page, err := s.Inbound.ListRuns(ctx, event.RunFilter{Organization: p.Organization, Automation: automation, Trigger: q.Trigger, Event: q.Event, Status: q.Status, Attention: q.Attention, Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return api.List[api.RunView]{}, err
	}
	names, err := s.Inbound.AutomationNames(ctx, p.Organization)
	return PageOf(page, func(r event.Run) api.RunView { return api.RunView{Run: r, AutomationName: names[r.Automation]} }), err
}

// ViewRun returns the view of a run, or the error of reading it.
func (s *Reader) ViewRun(ctx context.Context, run event.Run, err error) (api.RunView, error) {
	if err != nil {
		return api.RunView{}, err
	}
	names, err := s.Inbound.AutomationNames(ctx, run.Organization)
	return api.RunView{Run: run, AutomationName: names[run.Automation]}, err
}

// jsonOrText returns valid JSON unchanged and anything else as a JSON string.
func jsonOrText(text []byte) json.RawMessage {
	if json.Valid(text) {
		return text
	}
	quoted, _ := json.Marshal(string(text)) // a string: cannot fail
	return quoted
}
