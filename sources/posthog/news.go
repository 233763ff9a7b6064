package posthog

import (
	"bytes"
	"encoding/json"
	"errors"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// news is the context of an event.
type news struct {
	Event      string  `json:"event"`
	UUID       text    `json:"uuid,omitempty"`
	DistinctID text    `json:"distinct_id,omitempty"`
	Timestamp  text    `json:"timestamp,omitempty"`
	URL        text    `json:"url,omitempty"`
	Person     *person `json:"person,omitempty"`
	Properties members `json:"properties,omitempty"`
}

type person struct {
	ID         text    `json:"id,omitempty"`
	Name       text    `json:"name,omitempty"`
	URL        text    `json:"url,omitempty"`
	Properties members `json:"properties,omitempty"`
}

// happening is an event as PostHog has it.
type happening struct {
	Event      text    `json:"event"`
	Name       text    `json:"name"` // instead, of older ones
	UUID       text    `json:"uuid"`
	DistinctID text    `json:"distinct_id"`
	Timestamp  text    `json:"timestamp"`
	URL        text    `json:"url"`
	Properties members `json:"properties"`
}

// text is what a template may have made something else of: a number is taken as
// it is written, and what is neither as nothing.
type text string

// UnmarshalJSON never fails.
func (t *text) UnmarshalJSON(raw []byte) error {
	if raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9' {
		*t = text(raw)
		return nil
	}
	var s string
	_ = json.Unmarshal(raw, &s)
	*t = text(s)
	return nil
}

// members are those of an object; what is none has none.
type members map[string]json.RawMessage

// UnmarshalJSON takes an object.
func (m *members) UnmarshalJSON(raw []byte) error {
	if raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, (*map[string]json.RawMessage)(m))
}

// read takes the event as an object, or as a name beside which the rest stands.
func read(body []byte) (*news, error) {
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
	var h happening
	if err := json.Unmarshal(body, &h); err != nil {
		return nil, err
	}
	if h.Event == "" && bytes.HasPrefix(in.Event, []byte("{")) {
		h.Event = h.Name
	}
	if h.Event == "" {
		return nil, errors.New(`posthog: the delivery does not name its event; give the destination in PostHog the JSON body {"event": "{event}", "person": "{person}"}`)
	}
	return &news{
		Event: string(h.Event), UUID: h.UUID, DistinctID: h.DistinctID, Timestamp: h.Timestamp, URL: h.URL,
		Person: who(in.Person), Properties: h.Properties,
	}, nil
}

// who reads a person; nil: there is none.
func who(raw json.RawMessage) *person {
	if !bytes.HasPrefix(raw, []byte("{")) {
		return nil
	}
	var p struct {
		person
		UUID text `json:"uuid"` // instead of the id, of older ones
	}
	if json.Unmarshal(raw, &p) != nil {
		return nil
	}
	if p.ID == "" {
		p.ID = p.UUID
	}
	return &p.person
}

// Bounds of an event's words, in characters.
const (
	titleLength  = 200
	nativeLength = 100
)

// event tells of it.
func (n *news) event() event.Event {
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
