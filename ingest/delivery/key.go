package delivery

import (
	"encoding/binary"
	"time"

	"sallyport/action"
	"sallyport/ingest/match"
)

func BodyHash(v action.Vault, body []byte) string { return match.Hash(v, "body", body) }

// RepeatWindow is how long the same body is the same delivery where there is no
// id to tell.
const RepeatWindow = 5 * time.Minute

// Key is the same when a sender repeats itself: the hash of id and body.
// Without an id it is another one some minutes later, when the same body may
// mean that the same happened again.
func Key(v action.Vault, id string, body []byte, now time.Time) string {
	if id != "" {
		return match.Hash(v, "delivery", []byte(id), body)
	}
	window := binary.BigEndian.AppendUint64(nil, uint64(now.Truncate(RepeatWindow).Unix()))
	return match.Hash(v, "delivery", nil, body, window)
}
