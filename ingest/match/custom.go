package match

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/internal/jsonlex"
	"sallyport/internal/redact"
)

// CustomProvider is the provider of senders without a module.
const (
	CustomProvider = "custom"
	customEvent    = "event"
)

// customTolerance is the largest accepted difference of a signed time from the clock.
const customTolerance = 5 * time.Minute

// Custom returns the provider of custom webhooks. A delivery is one event for the
// trigger whose URL received it; the trigger's config says how to verify and read
// it.
func Custom() event.Provider {
	return event.Provider{
		ID:    CustomProvider,
		Title: "Custom webhook",
		Types: []event.Type{{
			ID: customEvent, Title: "Webhook received",
			Description: "Something was posted to the trigger's URL. All filters that are set must fit. Filters and instructions see the body where it is a JSON object, {\"body\": …} for other JSON and {\"text\": \"…\"} for anything else; beyond 64 KiB it is cut and says so (_truncated).",
			Config:      json.RawMessage(customSchema),
			Matches:     matchesCustom,
		}},
		Webhook: &event.Webhook{Verify: verifyCustom, Tolerance: customTolerance, Parse: parseCustom},
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

// parseCustomConfig parses a config. A config that cannot be parsed gets an unknown
// scheme, so that no delivery is accepted.
func parseCustomConfig(raw json.RawMessage) (c customConfig) {
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

// CustomIDHeader returns the header that holds the id of a delivery; empty: none.
func CustomIDHeader(config json.RawMessage) string { return parseCustomConfig(config).IDHeader }

// id returns the delivery's own id; empty if it has none that is safe in keys and
// rows.
func (c *customConfig) id(d *event.Delivery) string {
	if c.IDHeader == "" {
		return ""
	}
	id, _ := event.Header(d.Header, c.IDHeader)
	if len(id) > MaxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}

// maxCustomContext is the largest context of an event, in bytes.
const maxCustomContext = 64 << 10

// parseCustom parses a delivery into one event. Without an id the event has no key
// and is identified by its receipt, because the same body may mean a new event.
func parseCustom(d *event.Delivery) (event.Parsed, error) {
	c := parseCustomConfig(d.Config)
	context, isJSON := contextOf(d.Body)
	if !isJSON && (c.EventPath != "" || len(c.Match) > 0) { // the trigger reads the body
		return event.Parsed{}, errors.New("custom: the body is not JSON, or is nested too deeply, and the trigger reads it (event_path, events, match); send JSON, or remove these from the trigger's config")
	}
	// Without a signed id, a captured delivery can be replayed under another id, and a
	// hash of its body would only stop honest senders.
	p := event.Parsed{ID: c.id(d)}
	p.Signed = p.ID != "" && c.Verification.Scheme != "hmac"
	e := event.Event{Provider: CustomProvider, Type: customEvent, Key: p.ID, Context: context}
	doc := decodeJSON(context)
	e.Native = Line(scalar(pointerValue(doc, c.EventPath)), MaxLine)
	if e.Title = Line(scalar(pointerValue(doc, c.TitlePath)), MaxLine); strings.TrimSpace(e.Title) == "" {
		e.Title = strings.TrimSpace("Webhook received " + e.Native)
	}
	p.Events = []event.Event{e}
	return p, nil
}

// contextOf returns a body as a JSON object of bounded size.
func contextOf(body []byte) (object json.RawMessage, isJSON bool) {
	whole := bytes.Trim(body, " \t\r\n")
	if jsonlex.Document(body) == nil && whole[0] != '{' {
		whole = fmt.Appendf(nil, `{"body":%s}`, whole)
	}
	isJSON = jsonlex.Document(whole) == nil // the object adds a level of nesting
	if !isJSON {
		whole = append(jsonlex.Quote([]byte(`{"text":`), string(body)), '}')
	}
	// JSON strings may contain invalid UTF-8, which the database refuses.
	return redact.JSON{}.Prune(bytes.ToValidUTF8(whole, []byte("\ufffd")), maxCustomContext), isJSON
}

// matchesCustom reports whether an event passes the filters. A config that cannot be
// parsed matches nothing, so that no filter is dropped silently.
func matchesCustom(e *event.Event, config json.RawMessage) bool {
	c := parseCustomConfig(config)
	doc, is := decodeJSON(e.Context).(map[string]any)
	if !is || c.Verification.Scheme == "unknown" {
		return false
	}
	if len(c.Events) > 0 && !customValues(c.Events).contains(pointerValue(doc, c.EventPath)) {
		return false
	}
	for pointer, wanted := range c.Match {
		if !wanted.contains(pointerValue(doc, pointer)) {
			return false
		}
	}
	return true
}

// customValues are the strings, numbers and booleans that a filter accepts, as
// [scalar] returns them.
type customValues []string

// UnmarshalJSON accepts one value or a list.
func (v *customValues) UnmarshalJSON(raw []byte) error {
	doc := decodeJSON(raw)
	list, is := doc.([]any)
	if !is {
		list = []any{doc}
	}
	for _, one := range list {
		text := scalar(one)
		if text == "" && one != "" {
			return errors.New("a value to match must be a string, a number, true or false")
		}
		*v = append(*v, text)
	}
	return nil
}

func (v customValues) contains(value any) bool {
	text := scalar(value)
	for _, one := range v {
		if one == text && (text != "" || value == "") {
			return true
		}
	}
	return false
}

// verifyCustom uses only the scheme of the trigger: a sender that could choose would
// choose the weakest.
func verifyCustom(d *event.Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	c := parseCustomConfig(d.Config)
	switch c.Verification.Scheme {
	case "standard":
		return event.VerifyStandard(d.Header, d.Body, secrets, now, tolerance)
	case "hmac":
		return c.verifyHMAC(d, secrets, now, tolerance)
	case "header":
		return c.compareSecret(d, secrets)
	}
	return event.ErrSignature
}

// verifyHMAC verifies a hex HMAC of the body, or of time and body if the trigger has
// a timestamp header.
func (c *customConfig) verifyHMAC(d *event.Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	signature, ok := event.Header(d.Header, c.Verification.Header)
	if !ok {
		return event.ErrSignature
	}
	signature = strings.TrimPrefix(signature, "sha256=")
	if c.Verification.TimestampHeader == "" {
		return event.VerifyHex(signature, "", secrets, d.Body)
	}
	sent, _ := event.Header(d.Header, c.Verification.TimestampHeader)
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil {
		return event.ErrSignature
	}
	if err := event.VerifyHex(signature, "", secrets, []byte(sent+"."), d.Body); err != nil {
		return err
	}
	return event.CheckTimestamp(time.Unix(seconds, 0), now, tolerance)
}

// compareSecret compares a header with the secret.
func (c *customConfig) compareSecret(d *event.Delivery, secrets [][]byte) error {
	given, ok := event.Header(d.Header, c.Verification.Header)
	if ok && strings.EqualFold(c.Verification.Header, "Authorization") {
		given, ok = strings.CutPrefix(given, "Bearer ")
	}
	if !ok || !event.EqualSecret(given, secrets) {
		return event.ErrSignature
	}
	return nil
}

// decodeJSON decodes JSON of bounded nesting with number lexemes kept; nil if it is
// not JSON.
func decodeJSON(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// pointerValue returns the value at a JSON Pointer (RFC 6901), or nil. The empty
// pointer returns nil.
func pointerValue(v any, pointer string) any {
	if !strings.HasPrefix(pointer, "/") {
		return nil
	}
	for _, step := range strings.Split(pointer[1:], "/") {
		switch of := v.(type) {
		case map[string]any:
			v = of[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		case []any:
			i, err := strconv.ParseUint(step, 10, 31)
			if err != nil || i >= uint64(len(of)) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

// scalar returns a string, number or boolean as text, and an empty string for
// others.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}
