package pagerduty

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// news is the context of an event, in PagerDuty's words.
type news struct {
	Action   string     `json:"action"` // triggered
	Incident incident   `json:"incident"`
	Agent    *reference `json:"agent,omitempty"` // who did it
	// Text of a note, of an update, or of what responders are asked.
	Text      string     `json:"text,omitempty"`
	Responder *reference `json:"responder,omitempty"`
	// Fields are the custom ones that an incident has, as PagerDuty writes them.
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

// reference names something of PagerDuty's.
type reference struct {
	ID      string `json:"id"`
	Type    string `json:"type,omitempty"`
	Summary string `json:"summary,omitempty"` // its name
	URL     string `json:"html_url,omitempty"`
}

// called returns what filters may call it by.
func (r *reference) called() []string {
	if r == nil {
		return nil
	}
	return []string{r.ID, r.Summary}
}

// part is what belongs to an incident: a note, an update, a responder, the values
// of fields, a bridge for calls, a workflow.
type part struct {
	Incident *reference      `json:"incident"`
	Content  string          `json:"content"`
	Message  string          `json:"message"`
	User     *reference      `json:"user"`
	Fields   json.RawMessage `json:"custom_fields"`
}

// news returns what a delivery tells; nil: nothing that there is a trigger for.
func (d *delivery) news() (n *news, err error) {
	n = &news{Agent: d.Event.Agent}
	var of bool
	if n.Action, of = strings.CutPrefix(d.Event.Type, "incident."); !of {
		return nil, nil
	}
	switch n.Action {
	case "triggered", "acknowledged", "unacknowledged", "resolved", "escalated", "reassigned", "reopened", "delegated", "priority_updated", "service_updated", "incident_type.changed":
		err = sources.ReadDelivery(d.Event.Data, &n.Incident)
	case "annotated", "status_update_published", "responder.added", "responder.replied",
		"custom_field_values.updated", "conference_bridge.updated", "workflow.started", "workflow.completed":
		err = n.read(d.Event.Data)
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

// read takes what belongs to an incident, and which that is.
func (n *news) read(data json.RawMessage) error {
	var p part
	if err := sources.ReadDelivery(data, &p); err != nil {
		return err
	}
	if p.Incident != nil {
		n.Incident = incident{ID: p.Incident.ID, Title: p.Incident.Summary, URL: p.Incident.URL}
	}
	n.Text, n.Responder, n.Fields = p.Content+p.Message, p.User, p.Fields // a note has content, the others a message
	return nil
}

// titleLength bounds the title of an event, in characters.
const titleLength = 200

// event tells of it, natively so called.
func (n *news) event(native string) event.Event {
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
