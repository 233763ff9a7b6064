// Package posthog has the inbound half of PostHog: the events that an HTTP
// webhook destination forwards. There are no actions, and nothing to connect.
//
// It promises that one scheme says whether a delivery is PostHog's, the one that
// the trigger is set up with: the signature of Standard Webhooks, or a header with
// the secret for a PostHog that does not sign. What people make of the body by
// their own template is read as far as it says which event it is.
package posthog

import (
	"encoding/json"
	"slices"

	"sallyport/ingest/event"
	"sallyport/sources"
)

const capturedEvent = "event"

// Triggers returns what PostHog can tell of.
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
		Webhook: &event.Webhook{Verify: verify, Tolerance: advised, Parse: parse, IDHeader: "Webhook-Id"},
		Secret:  "The secret is chosen here: paste it as **Signing secret** of an HTTP webhook destination in PostHog (**Data pipelines › Destinations**). Where yours has no such field, set the scheme `header` and give the destination a header `X-PostHog-Token` with the secret.",
	}
}

// filters are the config of a trigger, but for how it is verified.
type filters struct {
	Events     []string          `json:"events"`
	Properties map[string]values `json:"properties"`
}

// matches reports whether an event passes the filters. What cannot be read does
// not pass: a filter that was meant must not go missing.
func matches(e *event.Event, config json.RawMessage) bool {
	var f filters
	var n news
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

// values are those that a property may have, as [scalar] has them.
type values []string

// UnmarshalJSON takes one value, or a list.
func (v *values) UnmarshalJSON(raw []byte) error {
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

// scalar returns a string, a number or a boolean as text behind a mark, so that
// an empty string is something, and nothing for all else.
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
