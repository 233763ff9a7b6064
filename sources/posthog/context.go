package posthog

import (
	"bytes"
	"encoding/json"
	"errors"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// eventContext is the context of an event.
type eventContext struct {
	Event      string      `json:"event"`
	UUID       looseString `json:"uuid,omitempty"`
	DistinctID looseString `json:"distinct_id,omitempty"`
	Timestamp  looseString `json:"timestamp,omitempty"`
	URL        looseString `json:"url,omitempty"`
	Person     *person     `json:"person,omitempty"`
	Properties looseObject `json:"properties,omitempty"`
}

type person struct {
	ID         looseString `json:"id,omitempty"`
	Name       looseString `json:"name,omitempty"`
	URL        looseString `json:"url,omitempty"`
	Properties looseObject `json:"properties,omitempty"`
}

// payload is an event as PostHog sends it.
type payload struct {
	Event      looseString `json:"event"`
	Name       looseString `json:"name"` // name of the event in older versions
	UUID       looseString `json:"uuid"`
	DistinctID looseString `json:"distinct_id"`
	Timestamp  looseString `json:"timestamp"`
	URL        looseString `json:"url"`
	Properties looseObject `json:"properties"`
}

// looseString accepts any JSON value, because users template the body: numbers
// keep their spelling, other non-strings become empty.
type looseString string

// UnmarshalJSON never fails.
func (t *looseString) UnmarshalJSON(raw []byte) error {
	if raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9' {
		*t = looseString(raw)
		return nil
	}
	var s string
	_ = json.Unmarshal(raw, &s)
	*t = looseString(s)
	return nil
}

// looseObject accepts any JSON value; non-objects become empty.
type looseObject map[string]json.RawMessage

// UnmarshalJSON decodes an object and ignores anything else.
func (m *looseObject) UnmarshalJSON(raw []byte) error {
	if raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, (*map[string]json.RawMessage)(m))
}

// parseBody reads a delivery. The event is either an object or a name with the
// other fields beside it.
func parseBody(body []byte) (*eventContext, error) {
	var in struct {
		Event  json.RawMessage `json:"event"`
		Person json.RawMessage `json:"person"`
	}
	if err := sources.ReadDelivery(body, &in); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(in.Event, []byte("{")) {
		body = in.Event
	}
	var h payload
	if err := json.Unmarshal(body, &h); err != nil {
		return nil, err
	}
	if h.Event == "" && bytes.HasPrefix(in.Event, []byte("{")) {
		h.Event = h.Name
	}
	if h.Event == "" {
		return nil, errors.New(`posthog: the delivery does not name its event; give the destination in PostHog the JSON body {"event": "{event}", "person": "{person}"}`)
	}
	return &eventContext{
		Event: string(h.Event), UUID: h.UUID, DistinctID: h.DistinctID, Timestamp: h.Timestamp, URL: h.URL,
		Person: parsePerson(in.Person), Properties: h.Properties,
	}, nil
}

// parsePerson returns the person of an event, or nil if there is none.
func parsePerson(raw json.RawMessage) *person {
	if !bytes.HasPrefix(raw, []byte("{")) {
		return nil
	}
	var p struct {
		person
		UUID looseString `json:"uuid"` // instead of the id, of older ones
	}
	if json.Unmarshal(raw, &p) != nil {
		return nil
	}
	if p.ID == "" {
		p.ID = p.UUID
	}
	return &p.person
}

// Limits of an event's text, in characters.
const (
	titleLength  = 200
	nativeLength = 100
)

// event converts the context to an event.
func (n *eventContext) event() event.Event {
	title := n.Event
	if n.Person != nil && n.Person.Name != "" {
		title += " by " + string(n.Person.Name)
	}
	return event.Event{
		Provider: "posthog", Type: capturedEvent, Native: sources.Printable(n.Event, nativeLength),
		OccurredAt: sources.EventTime(string(n.Timestamp)), Title: sources.Printable(title, titleLength), URL: sources.WebURL(string(n.URL)),
		Context: sources.EventContext(n),
	}
}
