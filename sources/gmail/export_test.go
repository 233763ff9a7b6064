package gmail

import (
	"encoding/json"

	"sallyport/ingest/event"
)

// Told is the event of a mail as Gmail's API has it.
func Told(body []byte) (e event.Event, is bool) {
	var m message
	if json.Unmarshal(body, &m) != nil {
		return e, false
	}
	return m.event()
}
