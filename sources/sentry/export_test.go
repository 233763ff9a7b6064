package sentry

import (
	"encoding/json"

	"sallyport/ingest/event"
)

// Limited exports the rate limit detection.
var Limited = rateLimited

// Event compacts an event from the API.
func Event(body []byte) (json.RawMessage, error) {
	var event object
	if err := decode(body, &event); err != nil {
		return nil, err
	}
	s := &compactor{}
	return s.encode(s.fullEvent(event))
}

// Hydrated adds an event from the API to an issue event.
func Hydrated(e *event.Event, body []byte) bool {
	var known, latest object
	if decode(e.Context, &known) != nil || decode(body, &latest) != nil {
		return false
	}
	whole, err := addEvent(known, webhookForm(latest))
	e.Context = whole
	return err == nil
}
