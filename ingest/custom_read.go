package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sallyport/ingest/event"
	"sallyport/internal/jsonlex"
	"sallyport/internal/redact"
)

// maxCustom bounds the context of an event, in bytes.
const maxCustom = 64 << 10

// customParse reads a delivery, which is one event. Without an id of its own it
// has no key, and is told from others by its receipt: the same body may well mean
// something new.
func customParse(d *event.Delivery) (event.Parsed, error) {
	c := readCustom(d.Config)
	context, isJSON := customContext(d.Body)
	if !isJSON && c.needsJSON() {
		return event.Parsed{}, errors.New("custom: the delivery's body is not JSON, or nests too deeply, and the trigger looks into it (event_path, events, match); have the sender post JSON, or take these out of the trigger's config")
	}
	// Where nothing is signed, whoever captured a delivery can make any other: a
	// hash of its body would stop only senders that repeat themselves.
	p := event.Parsed{ID: c.id(d)}
	p.Signed = p.ID != "" && c.Verification.Scheme != "hmac"
	e := event.Event{Provider: customProvider, Type: customEvent, Key: p.ID, Context: context}
	doc := decodeJSON(context)
	e.Native = line(scalar(at(doc, c.EventPath)), keptLine)
	if e.Title = line(scalar(at(doc, c.TitlePath)), keptLine); strings.TrimSpace(e.Title) == "" {
		e.Title = strings.TrimSpace("Webhook received " + e.Native)
	}
	p.Events = []event.Event{e}
	return p, nil
}

// customContext returns a body as a JSON object, of bounded size.
func customContext(body []byte) (object json.RawMessage, isJSON bool) {
	whole := bytes.Trim(body, " \t\r\n")
	if jsonlex.Document(body) == nil && whole[0] != '{' {
		whole = fmt.Appendf(nil, `{"body":%s}`, whole)
	}
	isJSON = jsonlex.Document(whole) == nil // in the object it is a level deeper
	if !isJSON {
		whole = append(jsonlex.Quote([]byte(`{"text":`), string(body)), '}')
	}
	// Strings of JSON may hold what is no text, which rows refuse.
	return redact.JSON{}.Prune(bytes.ToValidUTF8(whole, []byte("\ufffd")), maxCustom), isJSON
}

// customMatches reports whether an event passes the filters. What cannot be read
// does not pass: a filter that was meant must not go missing.
func customMatches(e *event.Event, config json.RawMessage) bool {
	c := readCustom(config)
	doc, is := decodeJSON(e.Context).(map[string]any)
	if !is || c.Verification.Scheme == "unknown" {
		return false
	}
	if len(c.Events) > 0 && !customValues(c.Events).has(at(doc, c.EventPath)) {
		return false
	}
	for pointer, wanted := range c.Match {
		if !wanted.has(at(doc, pointer)) {
			return false
		}
	}
	return true
}

// customValues are texts, numbers and truths that may be at a pointer, as
// [scalar] has them.
type customValues []string

// UnmarshalJSON reads one value or a list of them.
func (v *customValues) UnmarshalJSON(raw []byte) error {
	doc := decodeJSON(raw)
	list, is := doc.([]any)
	if !is {
		list = []any{doc}
	}
	for _, one := range list {
		text := scalar(one)
		if text == "" && one != "" {
			return errors.New("a value to match is a text, a number, true or false")
		}
		*v = append(*v, text)
	}
	return nil
}

func (v customValues) has(value any) bool {
	text := scalar(value)
	for _, one := range v {
		if one == text && (text != "" || value == "") {
			return true
		}
	}
	return false
}
