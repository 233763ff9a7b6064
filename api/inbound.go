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
		Summary: "Read an event",
	}}
	GetInboundContext = Route[ByID, WholeContext]{Operation{
		Method: "GET", Path: "/api/v1/inbound-events/{id}/context", Who: Decider, Tag: "inbound events", Errors: []int{410},
		Summary: "Read the whole context of an event",
		Doc:     "The reading is logged.",
	}}
	SkipInboundEvent = Route[ByID, InboundEvent]{Operation{
		Method: "POST", Path: "/api/v1/inbound-events/{id}/skip", Who: Decider, Tag: "inbound events", Status: 200, Errors: []int{409},
		Summary: "Skip an event by hand",
		Doc:     "Its run, which nobody may have yet, is not done.",
	}}
	ListDeliveries = Route[DeliveryQuery, List[DeliveryView]]{Operation{
		Method: "GET", Path: "/api/v1/deliveries", Who: Decider, Tag: "deliveries",
		Summary: "List deliveries, newest first",
		Doc:     "What services posted and the gateway verified and kept. Deliveries to a URL of a whole provider are the operator's organization's.",
	}}
	GetDelivery = Route[ByID, DeliveryView]{Operation{
		Method: "GET", Path: "/api/v1/deliveries/{id}", Who: Decider, Tag: "deliveries",
		Summary: "Read a delivery",
	}}
	RedriveDelivery = Route[ByID, DeliveryView]{Operation{
		Method: "POST", Path: "/api/v1/deliveries/{id}/redrive", Who: Decider, Tag: "deliveries", Status: 200, Errors: []int{409, 410},
		Summary: "Work a failed delivery off again",
	}}
)

// InboundEvent is an event of a trigger or schedule.
type InboundEvent struct {
	event.Record
	Status         string          `json:"status" enum:"queued,processing,completed,failed,skipped" doc:"That of its run; skipped: it started none."`
	AutomationName string          `json:"automation_name,omitempty" example:"nightly-triage"`
	Context        json.RawMessage `json:"context,omitempty" doc:"Redacted, and cut where it is long; of an event that is read alone, until its retention is over."`
}

// WholeContext is all that is known of an event.
type WholeContext struct {
	Context json.RawMessage `json:"context" doc:"As the agent gets it, with nothing redacted."`
}

// DeliveryView is what a service posted.
type DeliveryView struct {
	event.Receipt
	Payload json.RawMessage `json:"payload,omitempty" doc:"Redacted, and cut where it is long; of a delivery that is read alone, once it was worked off and until its retention is over."`
}

// EventQuery is the query of a list of events.
type EventQuery struct {
	Paging
	Automation string `query:"automation" maxLength:"200" doc:"Id or name." kong:"placeholder='REF',help='Only for this automation.'"`
	Trigger    string `query:"trigger" maxLength:"80" doc:"Id of a trigger or schedule." kong:"placeholder='ID',help='Only for this trigger or schedule.'"`
	Delivery   string `query:"delivery" maxLength:"80" doc:"Id of the delivery that they came in." kong:"placeholder='ID',help='Only events of this delivery.'"`
	Provider   string `query:"provider" maxLength:"40" doc:"Id of a provider, or schedule." kong:"help='Only events of this provider, or of schedule.'"`
	Status     string `query:"status" enum:"queued,processing,completed,failed,skipped" kong:"enum='queued,processing,completed,failed,skipped,',default='',help='Filter by status: queued, processing, completed, failed or skipped.'"`
	Skipped    string `query:"skipped" enum:"true,false" doc:"Whether an event was skipped as it came, or by hand. Absent: both." kong:"-"`
}

// DeliveryQuery is the query of a list of deliveries.
type DeliveryQuery struct {
	Paging
	Trigger  string              `query:"trigger" maxLength:"80" doc:"Id of a trigger." kong:"placeholder='ID',help='Only deliveries to the URL of this trigger.'"`
	Provider string              `query:"provider" maxLength:"40" doc:"Id of a provider." kong:"help='Only deliveries of this provider.'"`
	Status   event.ReceiptStatus `query:"status" enum:"queued,processing,completed,failed" kong:"enum='queued,processing,completed,failed,',default='',help='Filter by status: queued, processing, completed or failed.'"`
}
