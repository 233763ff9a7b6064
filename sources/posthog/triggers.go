// Package posthog implements PostHog triggers: events that an HTTP webhook
// destination forwards. It has no actions and no connection.
//
// Each trigger is configured with one verification scheme: a Standard Webhooks
// signature, or a shared secret in a header for PostHog versions that do not
// sign. Users can template the body, so parsing is lenient as long as the event
// is identifiable.
package posthog

import (
	"encoding/json"
	"slices"

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
