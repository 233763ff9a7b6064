package sentry

import (
	"encoding/json"

	"sallyport/ingest/event"
)

// Limited is what the module tells the client of outbound requests of limits.
var Limited = limited

// Event compacts the body of an answer.
func Event(body []byte) (json.RawMessage, error) {
	var event object
	if err := decode(body, &event); err != nil {
		return nil, err
	}
	s := &shortened{}
	return s.json(s.wholeEvent(event))
}

// Hydrated puts the body of an answer into an event.
func Hydrated(e *event.Event, body []byte) bool {
	var known, latest object
	if decode(e.Context, &known) != nil || decode(body, &latest) != nil {
		return false
	}
	whole, err := enriched(known, posted(latest))
	e.Context = whole
	return err == nil
}
