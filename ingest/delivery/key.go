package delivery

import (
	"encoding/binary"
	"time"

	"sallyport/action"
	"sallyport/ingest/match"
)

// BodyHash returns the keyed hash of a body.
func BodyHash(v action.Vault, body []byte) string { return match.Hash(v, "body", body) }

// RepeatWindow is how long the same body counts as the same delivery without an id.
const RepeatWindow = 5 * time.Minute

// Key is equal for repeats of a delivery: a hash of id and body. Without an id it
// changes with the time window, because the same body may later mean a new event.
func Key(v action.Vault, id string, body []byte, now time.Time) string {
	if id != "" {
		return match.Hash(v, "delivery", []byte(id), body)
	}
	window := binary.BigEndian.AppendUint64(nil, uint64(now.Truncate(RepeatWindow).Unix()))
	return match.Hash(v, "delivery", nil, body, window)
}
