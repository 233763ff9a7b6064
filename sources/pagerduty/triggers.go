// Package pagerduty implements PagerDuty triggers: incident events of V3
// webhooks. It has no actions and no connection.
//
// Only signed data is used: the event ID is in the body. PagerDuty does not
// sign a timestamp, so deliveries never expire, and deliveries do not identify
// the account, so the secret that verifies does. Events about notes, status
// updates, responders and other parts of an incident carry its ID, but not its
// service or urgency.
package pagerduty

import (
	"encoding/json"

	"sallyport/ingest/event"
	"sallyport/sources"
)

const incidentEvent = "incident"

// Triggers returns the trigger provider of PagerDuty.
func Triggers() event.Provider {
	return event.Provider{
		ID:    "pagerduty",
		Title: "PagerDuty",
		Types: []event.Type{{
			ID: incidentEvent, Title: "Incident",
			Description: "An incident was triggered, acknowledged, resolved or otherwise changed. All filters that are set must fit; a filter fits when one of its entries does. What PagerDuty tells of services, tasks, roles and actions makes no event: leave these out of the webhook.",
			Config: json.RawMessage(`{
				"type": "object",
				"additionalProperties": false,
				"properties": {
					"actions": {"type": "array", "maxItems": 50, "uniqueItems": true, "title": "Actions", "items": {"enum": ["triggered", "acknowledged", "unacknowledged", "resolved", "escalated", "reassigned", "reopened", "delegated", "priority_updated", "service_updated", "annotated", "status_update_published", "responder.added", "responder.replied", "incident_type.changed", "custom_field_values.updated", "conference_bridge.updated", "workflow.started", "workflow.completed"]}, "description": "What happened to it, in PagerDuty's words. None: any."},
					"services": {"type": "array", "maxItems": 100, "title": "Services", "items": {"type": "string", "minLength": 1, "maxLength": 200}, "description": "Names or ids, such as PF9KMXH. None: any, and what PagerDuty tells without one: annotated, status_update_published, responder.*, custom_field_values.updated, conference_bridge.updated and workflow.*."},
					"urgencies": {"type": "array", "uniqueItems": true, "title": "Urgencies", "items": {"enum": ["high", "low"]}, "description": "None: any, and what PagerDuty tells without one."},
					"priorities": {"type": "array", "maxItems": 100, "title": "Priorities", "items": {"type": "string", "minLength": 1, "maxLength": 100}, "description": "Names such as P1, or ids. None: any, and incidents without one."}
				}
			}`),
			Matches: matches,
		}},
		Webhook:      &event.Webhook{Verify: verify, Parse: parse},
		Secret:       "PagerDuty makes the secret, and shows it once, when the webhook is created (**Integrations › Generic Webhooks (v3)**, with this URL): enter it here.",
		IssuesSecret: true,
	}
}

// filters is the config of a trigger.
type filters struct {
	Actions    []string `json:"actions"`
	Services   []string `json:"services"`
	Urgencies  []string `json:"urgencies"`
	Priorities []string `json:"priorities"`
}

// matches reports whether an event passes the filters. Invalid configs or
// contexts never match, so a filter cannot be bypassed.
func matches(e *event.Event, config json.RawMessage) bool {
	var f filters
	var n eventContext
	if len(config) > 0 && json.Unmarshal(config, &f) != nil || json.Unmarshal(e.Context, &n) != nil {
		return false
	}
	return sources.MatchesFilter(f.Actions, n.Action) && sources.MatchesFilter(f.Urgencies, n.Incident.Urgency) &&
		sources.MatchesFilter(f.Services, n.Incident.Service.identifiers()...) && sources.MatchesFilter(f.Priorities, n.Incident.Priority.identifiers()...)
}
