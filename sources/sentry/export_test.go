package sentry

import "encoding/json"

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
