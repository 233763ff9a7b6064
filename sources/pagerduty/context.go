package pagerduty

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sallyport/ingest/event"
	"sallyport/sources"
)

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
		err = n.readPart(d.Event.Data)
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

// readPart reads the data and its reference to the incident.
func (n *eventContext) readPart(data json.RawMessage) error {
	var p incidentPart
	if err := sources.ReadDelivery(data, &p); err != nil {
		return err
	}
	if p.Incident != nil {
		n.Incident = incident{ID: p.Incident.ID, Title: p.Incident.Summary, URL: p.Incident.URL}
	}
	n.Text, n.Responder, n.Fields = p.Content+p.Message, p.User, p.Fields // a note has content, the others a message
	return nil
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
