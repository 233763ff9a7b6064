package ingest

import (
	"encoding/json"
	"time"

	"sallyport/ingest/event"
)

// customProvider is the provider of senders that have no module: anything that
// can post, and prove who it is.
const (
	customProvider = "custom"
	customEvent    = "event"
)

// customTolerance is how far a signed time may be from ours.
const customTolerance = 5 * time.Minute

// Custom returns the provider of one's own senders. A delivery is one event, for
// the one trigger to whose URL it came, whose config says how it is verified and
// what in it is what.
func Custom() event.Provider {
	return event.Provider{
		ID:    customProvider,
		Title: "Custom webhook",
		Types: []event.Type{{
			ID: customEvent, Title: "Webhook received",
			Description: "Something was posted to the trigger's URL. All filters that are set must fit. Filters and instructions see the body where it is a JSON object, {\"body\": …} for other JSON and {\"text\": \"…\"} for anything else; beyond 64 KiB it is cut and says so (_truncated).",
			Config:      json.RawMessage(customSchema),
			Matches:     customMatches,
		}},
		Webhook: &event.Webhook{Verify: customVerify, Tolerance: customTolerance, Parse: customParse},
		Secret:  "The secret is chosen here. Have the sender sign with it as [Standard Webhooks](https://www.standardwebhooks.com) says, or choose another `verification`.",
	}
}

const customSchema = `{
	"type": "object",
	"additionalProperties": false,
	"properties": {
		"verification": {
			"type": "object", "additionalProperties": false, "title": "Verification",
			"properties": {
				"scheme": {"enum": ["standard", "hmac", "header"], "default": "standard", "description": "standard: signed as Standard Webhooks says. hmac: a header has the HMAC-SHA256 of the raw body in hex, with or without sha256= in front. header: a header has the secret itself, for senders that cannot sign."},
				"header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$", "description": "Which header, with hmac (default X-Webhook-Signature) and header (default X-Webhook-Token; Authorization has the secret behind Bearer). Senders often call it X-Signature, X-Hub-Signature-256 or X-Signature-256."},
				"timestamp_header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$", "description": "With hmac: the header with the time of signing in seconds since 1970. The HMAC is then over that text, a full stop and the body, and deliveries more than five minutes old are refused. Without it, one who captures a delivery can send it again."}
			},
			"description": "How a delivery shows that it is genuine. Nothing else is accepted."
		},
		"id_header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$", "title": "Id header", "description": "With hmac and header: the header with an id that the sender repeats when it tries again; Standard Webhooks have one. Without ids, the same body is the same delivery for five minutes."},
		"event_path": {"type": "string", "pattern": "^(/([^~/]|~0|~1)*)+$", "maxLength": 400, "title": "Where the event is named", "description": "JSON Pointer to the event's name, such as /type. Bodies that are not JSON then fail."},
		"events": {"type": "array", "maxItems": 100, "title": "Events", "items": {"type": "string", "minLength": 1, "maxLength": 400}, "description": "Names to be found at event_path (default /event); one of them is enough. None: any."},
		"match": {
			"type": "object", "maxProperties": 50, "title": "Values", "propertyNames": {"pattern": "^(/([^~/]|~0|~1)*)+$", "maxLength": 400},
			"additionalProperties": {"anyOf": [
				{"type": ["string", "number", "boolean"]},
				{"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": ["string", "number", "boolean"]}}
			]},
			"description": "JSON Pointers, each with the value that must be there, or a list of which one must: {\"/data/status\": [\"failed\", \"lost\"], \"/live\": true}. Upper and lower case differ; 7 and \"7\" are the same. Bodies that are not JSON then fail."
		},
		"title_path": {"type": "string", "pattern": "^(/([^~/]|~0|~1)*)+$", "maxLength": 400, "title": "Where the title is", "description": "JSON Pointer to a text that says in a line what happened. None: the event's name."}
	}
}`

// customConfig is the config of a custom trigger.
type customConfig struct {
	Verification struct {
		Scheme          string `json:"scheme"`
		Header          string `json:"header"`
		TimestampHeader string `json:"timestamp_header"`
	} `json:"verification"`
	IDHeader  string                  `json:"id_header"`
	EventPath string                  `json:"event_path"`
	Events    []string                `json:"events"`
	Match     map[string]customValues `json:"match"`
	TitlePath string                  `json:"title_path"`
}

// readCustom reads a config. One that cannot be read has a scheme that nobody
// knows, so that nothing is good enough for it.
func readCustom(raw json.RawMessage) (c customConfig) {
	if len(raw) > 0 && json.Unmarshal(raw, &c) != nil {
		c = customConfig{}
		c.Verification.Scheme = "unknown"
	}
	v := &c.Verification
	if v.Scheme == "" {
		v.Scheme = "standard"
	}
	switch {
	case v.Scheme == "standard":
		c.IDHeader = "Webhook-Id"
	case v.Scheme == "hmac" && v.Header == "":
		v.Header = "X-Webhook-Signature"
	case v.Scheme == "header" && v.Header == "":
		v.Header = "X-Webhook-Token"
	}
	if c.EventPath == "" && len(c.Events) > 0 {
		c.EventPath = "/event"
	}
	return c
}

// needsJSON reports whether the trigger looks into the body.
func (c *customConfig) needsJSON() bool { return c.EventPath != "" || len(c.Match) > 0 }

// id returns the delivery's own id; empty: it has none that can be kept.
func (c *customConfig) id(d *event.Delivery) string {
	if c.IDHeader == "" {
		return ""
	}
	id, _ := event.Header(d.Header, c.IDHeader)
	return plainID(id)
}
