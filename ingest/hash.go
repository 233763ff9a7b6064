package ingest

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"sallyport/action"
)

// What rows have of payloads, so that the same is told from other ones, is
// hashed with a key: who reads rows could otherwise find out by trying what
// people are not shown.

// keyed returns a keyed hash that is used for one thing, of all parts in order.
func keyed(v action.Vault, what string, parts ...[]byte) string {
	plain := []byte("sallyport inbound " + what + "\x00")
	for _, part := range parts { // bodies are large, and this has the same length for all
		sum := sha256.Sum256(part)
		plain = append(plain, sum[:]...)
	}
	return v.Hash(plain)
}

func bodyHash(v action.Vault, body []byte) string { return keyed(v, "body", body) }

// repeatWindow is how long the same body is the same delivery where there is no
// id to tell.
const repeatWindow = 5 * time.Minute

// receiptKey is the same when a sender repeats itself: the hash of id and body.
// Without an id it is another one some minutes later, when the same body may
// mean that the same happened again.
func receiptKey(v action.Vault, id string, body []byte, now time.Time) string {
	if id != "" {
		return keyed(v, "delivery", []byte(id), body)
	}
	window := binary.BigEndian.AppendUint64(nil, uint64(now.Truncate(repeatWindow).Unix()))
	return keyed(v, "delivery", nil, body, window)
}
