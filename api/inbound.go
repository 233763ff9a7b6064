package api

import (
	"encoding/json"

	"sallyport/ingest/event"
)

// Routes.
var (
	ListInboundEvents = Route[EventQuery, List[InboundEvent]]{Operation{
		Method: "GET", Path: "/api/v1/inbound-events", Who: Member, Tag: "inbound events",
		Summary: "List events of triggers and schedules, newest first",
	}}
	GetInboundEvent = Route[ByID, InboundEvent]{Operation{
		Method: "GET", Path: "/api/v1/inbound-events/{id}", Who: Member, Tag: "inbound events",
		Summary: "Get an event",
	}}
	GetInboundContext = Route[ByID, WholeContext]{Operation{
		Method: "GET", Path: "/api/v1/inbound-events/{id}/context", Who: Decider, Tag: "inbound events", Errors: []int{410},
		Summary: "Get the full context of an event",
		Doc:     "Each read is logged.",
	}}
	SkipInboundEvent = Route[ByID, InboundEvent]{Operation{
		Method: "POST", Path: "/api/v1/inbound-events/{id}/skip", Who: Decider, Tag: "inbound events", Status: 200, Errors: []int{409},
		Summary: "Skip an event",
		Doc:     "Its run, which must still be queued, does not start.",
	}}
	ListDeliveries = Route[DeliveryQuery, List[DeliveryView]]{Operation{
		Method: "GET", Path: "/api/v1/deliveries", Who: Decider, Tag: "deliveries",
		Summary: "List deliveries, newest first",
		Doc:     "Verified and stored webhook requests. Deliveries to a provider-wide URL belong to the organization of the operator.",
	}}
	GetDelivery = Route[ByID, DeliveryView]{Operation{
		Method: "GET", Path: "/api/v1/deliveries/{id}", Who: Decider, Tag: "deliveries",
		Summary: "Get a delivery",
	}}
	RedriveDelivery = Route[ByID, DeliveryView]{Operation{
		Method: "POST", Path: "/api/v1/deliveries/{id}/redrive", Who: Decider, Tag: "deliveries", Status: 200, Errors: []int{409, 410},
		Summary: "Process a failed delivery again",
	}}
)

// InboundEvent is an event of a trigger or schedule.
type InboundEvent struct {
	event.Record
	Status         string          `json:"status" enum:"queued,processing,completed,failed,skipped" doc:"Status of its run; skipped: it started none."`
	AutomationName string          `json:"automation_name,omitempty" example:"nightly-triage"`
	Context        json.RawMessage `json:"context,omitempty" doc:"Redacted, and truncated if it is long; only when you get a single event, until its retention ends."`
}

// WholeContext is the full context of an event.
type WholeContext struct {
	Context json.RawMessage `json:"context" doc:"As the agent gets it, unredacted."`
}

// DeliveryView is a stored webhook request.
type DeliveryView struct {
	event.Receipt
	Payload json.RawMessage `json:"payload,omitempty" doc:"Redacted, and truncated if it is long; only when you get a single delivery, after it was processed and until its retention ends."`
}

// EventQuery is the query of a list of events.
type EventQuery struct {
	Paging
	Automation string `query:"automation" maxLength:"200" doc:"ID or name." kong:"placeholder='REF',help='Only for this automation.'"`
	Trigger    string `query:"trigger" maxLength:"80" doc:"ID of a trigger or schedule." kong:"placeholder='ID',help='Only for this trigger or schedule.'"`
	Delivery   string `query:"delivery" maxLength:"80" doc:"ID of the delivery of the events." kong:"placeholder='ID',help='Only events of this delivery.'"`
	Provider   string `query:"provider" maxLength:"40" doc:"ID of a provider, or schedule." kong:"help='Only events of this provider, or of schedule.'"`
	Status     string `query:"status" enum:"queued,processing,completed,failed,skipped" kong:"enum='queued,processing,completed,failed,skipped,',default='',help='Filter by status: queued, processing, completed, failed or skipped.'"`
	Skipped    string `query:"skipped" enum:"true,false" doc:"Whether an event was skipped, automatically or by a person. Missing: both." kong:"-"`
}

// DeliveryQuery is the query of a list of deliveries.
type DeliveryQuery struct {
	Paging
	Trigger  string              `query:"trigger" maxLength:"80" doc:"ID of a trigger." kong:"placeholder='ID',help='Only deliveries to the URL of this trigger.'"`
	Provider string              `query:"provider" maxLength:"40" doc:"ID of a provider." kong:"help='Only deliveries of this provider.'"`
	Status   event.ReceiptStatus `query:"status" enum:"queued,processing,completed,failed" kong:"enum='queued,processing,completed,failed,',default='',help='Filter by status: queued, processing, completed or failed.'"`
}
