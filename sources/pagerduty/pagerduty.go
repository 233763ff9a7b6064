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
	"errors"
	"fmt"
	"strings"
	"time"

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

// maxSignatures bounds the signatures checked per delivery. During rotation a
// webhook has two secrets.
const maxSignatures = 10

// verify accepts a delivery if any signature matches any of our secrets.
// PagerDuty signs with every secret of the webhook.
func verify(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	list, ok := event.Header(d.Header, "X-PagerDuty-Signature")
	signatures := strings.Split(list, ",")
	if !ok || len(signatures) > maxSignatures {
		return event.ErrSignature
	}
	for _, one := range signatures {
		if event.VerifyHex(strings.TrimSpace(one), "v1=", secrets, d.Body) == nil {
			return nil
		}
	}
	return event.ErrSignature
}

// delivery is the body of a webhook.
type delivery struct {
	Event struct {
		ID         string          `json:"id"`
		Type       string          `json:"event_type"` // incident.triggered
		OccurredAt string          `json:"occurred_at"`
		Agent      *reference      `json:"agent"`
		Data       json.RawMessage `json:"data"`
	} `json:"event"`
}

// parse reads a delivery. Test deliveries (pagey.ping) produce no events.
func parse(d *event.Delivery) (event.Parsed, error) {
	var in delivery
	if err := sources.ReadDelivery(d.Body, &in); err != nil {
		return event.Parsed{}, err
	}
	out := event.Parsed{ID: sources.ValidID(in.Event.ID), Signed: true}
	if out.ID == "" {
		return event.Parsed{}, errors.New("pagerduty: the delivery's event has no id that could be kept")
	}
	n, err := in.eventContext()
	if n != nil {
		e := n.event(in.Event.Type)
		e.Key, e.OccurredAt = out.ID, sources.EventTime(in.Event.OccurredAt)
		out.Events = []event.Event{e}
	}
	return out, err
}

// eventContext is the context of an event, with PagerDuty's field names.
type eventContext struct {
	Action   string     `json:"action"` // triggered
	Incident incident   `json:"incident"`
	Agent    *reference `json:"agent,omitempty"` // the actor
	// Text of a note, a status update or a responder request.
	Text      string     `json:"text,omitempty"`
	Responder *reference `json:"responder,omitempty"`
	// Fields are the incident's custom fields, as PagerDuty sends them.
	Fields json.RawMessage `json:"custom_fields,omitempty"`
}

type incident struct {
	ID               string      `json:"id"`
	Number           int64       `json:"number,omitempty"`
	Title            string      `json:"title"`
	Status           string      `json:"status,omitempty"`
	Urgency          string      `json:"urgency,omitempty"`
	Key              string      `json:"incident_key,omitempty"`
	URL              string      `json:"html_url,omitempty"`
	CreatedAt        string      `json:"created_at,omitempty"`
	Service          *reference  `json:"service,omitempty"`
	Priority         *reference  `json:"priority,omitempty"`
	EscalationPolicy *reference  `json:"escalation_policy,omitempty"`
	Assignees        []reference `json:"assignees,omitempty"`
	Teams            []reference `json:"teams,omitempty"`
}

// reference identifies a PagerDuty object.
type reference struct {
	ID      string `json:"id"`
	Type    string `json:"type,omitempty"`
	Summary string `json:"summary,omitempty"` // its name
	URL     string `json:"html_url,omitempty"`
}

// identifiers returns the values that filters match.
func (r *reference) identifiers() []string {
	if r == nil {
		return nil
	}
	return []string{r.ID, r.Summary}
}

// incidentPart is the data of an event about part of an incident: a note,
// status update, responder, custom fields, conference bridge or workflow.
type incidentPart struct {
	Incident *reference      `json:"incident"`
	Content  string          `json:"content"`
	Message  string          `json:"message"`
	User     *reference      `json:"user"`
	Fields   json.RawMessage `json:"custom_fields"`
}

// eventContext returns the context of a delivery, or nil if no trigger handles
// its type.
func (d *delivery) eventContext() (n *eventContext, err error) {
	n = &eventContext{Agent: d.Event.Agent}
	var of bool
	if n.Action, of = strings.CutPrefix(d.Event.Type, "incident."); !of {
		return nil, nil
	}
	switch n.Action {
	case "triggered", "acknowledged", "unacknowledged", "resolved", "escalated", "reassigned", "reopened", "delegated", "priority_updated", "service_updated", "incident_type.changed":
		err = sources.ReadDelivery(d.Event.Data, &n.Incident)
	case "annotated", "status_update_published", "responder.added", "responder.replied",
		"custom_field_values.updated", "conference_bridge.updated", "workflow.started", "workflow.completed":
		var p incidentPart
		err = sources.ReadDelivery(d.Event.Data, &p)
		if p.Incident != nil {
			n.Incident = incident{ID: p.Incident.ID, Title: p.Incident.Summary, URL: p.Incident.URL}
		}
		n.Text, n.Responder, n.Fields = p.Content+p.Message, p.User, p.Fields // a note has content, the others a message
	default:
		return nil, nil
	}
	if err == nil && n.Incident.ID == "" {
		err = errors.New("pagerduty: the delivery has no incident in event.data, as its type says")
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// titleLength bounds an event title, in characters.
const titleLength = 200

// event converts the context to an event of that native type.
func (n *eventContext) event(native string) event.Event {
	i := n.Incident
	title := "Incident " + n.Action + ": " + i.Title
	if i.Number != 0 {
		title = fmt.Sprintf("Incident #%d %s: %s", i.Number, n.Action, i.Title)
	}
	if i.Service != nil && i.Service.Summary != "" {
		title = i.Service.Summary + ": " + title
	}
	return event.Event{
		Provider: "pagerduty", Type: incidentEvent, Native: native,
		Title: sources.Printable(title, titleLength), URL: sources.WebURL(i.URL), Context: sources.EventContext(n),
	}
}
