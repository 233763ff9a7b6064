// Package posthog implements PostHog triggers: events that an HTTP webhook
// destination forwards. It has no actions and no connection.
//
// Each trigger is configured with one verification scheme: a Standard Webhooks
// signature, or a shared secret in a header for PostHog versions that do not
// sign. Users can template the body, so parsing is lenient as long as the event
// is identifiable.
package posthog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

const capturedEvent = "event"

// Triggers returns the trigger provider of PostHog.
func Triggers() event.Provider {
	return event.Provider{
		ID:    "posthog",
		Title: "PostHog",
		Types: []event.Type{{
			ID: capturedEvent, Title: "Event captured",
			Description: "An HTTP webhook destination of PostHog forwarded an event. All filters that are set must fit. Leave the destination's JSON body as PostHog proposes it: `{\"event\": \"{event}\", \"person\": \"{person}\"}`.",
			Config: json.RawMessage(`{
				"type": "object",
				"additionalProperties": false,
				"properties": {
					"events": {"type": "array", "maxItems": 100, "title": "Events", "items": {"type": "string", "minLength": 1, "maxLength": 400}, "description": "Names, such as signed_up or $pageview; one of them is enough. None: any."},
					"properties": {
						"type": "object", "maxProperties": 50, "title": "Properties",
						"additionalProperties": {"anyOf": [
							{"type": ["string", "number", "boolean"]},
							{"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": ["string", "number", "boolean"]}}
						]},
						"description": "Properties that the event must have, each with this value or one of these: {\"plan\": [\"pro\", \"team\"], \"paid\": true}. Upper and lower case differ; 7 and \"7\" are the same."
					},
					"verification": {
						"type": "object", "additionalProperties": false, "title": "Verification",
						"properties": {
							"scheme": {"enum": ["standard", "header"], "default": "standard", "description": "standard: PostHog signs (the destination has a signing secret). header: it only sends the secret in a header, as a PostHog does that cannot sign."},
							"header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$", "default": "X-PostHog-Token", "description": "With the scheme header: which one. Authorization has the secret behind Bearer."}
						},
						"description": "How a delivery shows that it is PostHog's. Nothing else is accepted."
					}
				}
			}`),
			Matches: matches,
		}},
		Webhook: &event.Webhook{Verify: verify, Tolerance: defaultTolerance, Parse: parse, IDHeader: "Webhook-Id"},
		Secret:  "The secret is chosen here: paste it as **Signing secret** of an HTTP webhook destination in PostHog (**Data pipelines › Destinations**). Where yours has no such field, set the scheme `header` and give the destination a header `X-PostHog-Token` with the secret.",
	}
}

// filters is the config of a trigger, without verification.
type filters struct {
	Events     []string                  `json:"events"`
	Properties map[string]propertyValues `json:"properties"`
}

// matches reports whether an event passes the filters. Invalid configs or
// contexts never match, so a filter cannot be bypassed.
func matches(e *event.Event, config json.RawMessage) bool {
	var f filters
	var n eventContext
	if len(config) > 0 && json.Unmarshal(config, &f) != nil || json.Unmarshal(e.Context, &n) != nil {
		return false
	}
	for name, wanted := range f.Properties {
		if has := scalar(n.Properties[name]); has == "" || !slices.Contains(wanted, has) {
			return false
		}
	}
	return sources.MatchesFilter(f.Events, n.Event)
}

// propertyValues lists the accepted values of a property, in the form of
// [scalar].
type propertyValues []string

// UnmarshalJSON accepts one value or a list.
func (v *propertyValues) UnmarshalJSON(raw []byte) error {
	list := []json.RawMessage{raw}
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
	}
	for _, one := range list {
		*v = append(*v, scalar(one))
	}
	return nil
}

// scalar returns a string, number or boolean as text with the prefix =, which
// distinguishes the empty string from other types; those return "".
func scalar(raw json.RawMessage) string {
	var text string
	switch {
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n':
		return ""
	case raw[0] != '"':
		return "=" + string(raw)
	case json.Unmarshal(raw, &text) != nil:
		return ""
	}
	return "=" + text
}

// defaultTolerance is the clock skew that Standard Webhooks recommends.
const defaultTolerance = 5 * time.Minute

// verification configures how deliveries are authenticated.
type verification struct {
	Scheme string `json:"scheme"`
	Header string `json:"header"`
}

// parseVerification reads the trigger's config. The default is the signature;
// an invalid config selects a scheme that accepts nothing.
func parseVerification(config json.RawMessage) verification {
	var c struct {
		Verification verification `json:"verification"`
	}
	if len(config) > 0 && json.Unmarshal(config, &c) != nil {
		return verification{Scheme: "unknown"}
	}
	v := c.Verification
	return verification{cmp.Or(v.Scheme, "standard"), cmp.Or(v.Header, "X-PostHog-Token")}
}

// verify uses the configured scheme only. If the delivery could choose, an
// attacker would choose the weaker one.
func verify(d *event.Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	switch v := parseVerification(d.Config); v.Scheme {
	case "standard":
		return event.VerifyStandard(d.Header, d.Body, secrets, now, tolerance)
	case "header":
		given, ok := event.Header(d.Header, v.Header)
		if ok && strings.EqualFold(v.Header, "Authorization") {
			given, ok = strings.CutPrefix(given, "Bearer ")
		}
		if ok && event.EqualSecret(given, secrets) {
			return nil
		}
	}
	return event.ErrSignature
}

// parse reads a delivery. Its ID is the signed Webhook-Id, or else the event's
// UUID, which anyone with the secret can set.
func parse(d *event.Delivery) (event.Parsed, error) {
	n, err := parseBody(d.Body)
	if err != nil {
		return event.Parsed{}, err
	}
	var out event.Parsed
	if parseVerification(d.Config).Scheme == "standard" {
		id, _ := event.Header(d.Header, "Webhook-Id")
		out.ID = sources.ValidID(id)
		out.Signed = out.ID != ""
	}
	if out.ID == "" {
		out.ID = sources.ValidID(string(n.UUID))
	}
	e := n.event()
	e.Key = out.ID // empty without an ID: equal bodies may be distinct events
	out.Events = []event.Event{e}
	return out, nil
}

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
