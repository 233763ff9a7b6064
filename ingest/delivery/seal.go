// Package delivery defines what is stored of a verified webhook delivery: its sealed
// headers, body and config, the key that detects repeats, and the envelope in which
// Nango forwards deliveries of services.
package delivery

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/ingest/match"
)

// StoredHeaders returns the headers that modules read and those in also. Headers
// that contain a secret are never stored.
func StoredHeaders(h http.Header, secrets [][]byte, also ...string) http.Header {
	out := http.Header{}
	for name, values := range h {
		if storedHeader(name, also) && !containsSecret(values, secrets) {
			out[name] = values
		}
	}
	return out
}

func storedHeader(name string, also []string) bool {
	switch name {
	case "Cookie", "Authorization", "Proxy-Authorization":
		return false
	case "Content-Type", "Request-Id":
		return true
	}
	for _, prefix := range []string{"X-", "Webhook-", "Linear-", "Sentry-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, one := range also {
		if strings.EqualFold(one, name) {
			return true
		}
	}
	return false
}

func containsSecret(values []string, secrets [][]byte) bool {
	for _, secret := range secrets {
		for _, value := range values {
			if len(secret) > 0 && strings.Contains(value, string(secret)) {
				return true
			}
		}
	}
	return false
}

// sealedFormat is the first byte of a sealed delivery. It is followed by the number of
// header values, each with its name; the length of the config plus one, or zero without a
// config; and the body. Strings are length-prefixed, numbers are varints.
const sealedFormat = 1

var errSealedDelivery = errors.New("the stored delivery cannot be read: another version wrote it")

// Seal seals a delivery into its receipt, with the config that verified it: the
// trigger may have another one when the delivery is processed.
func Seal(v action.Vault, r *event.Receipt, d *event.Delivery) error {
	count := 0
	for _, values := range d.Header {
		count += len(values)
	}
	plain := make([]byte, 0, 1024+len(d.Config)+len(d.Body))
	plain = binary.AppendUvarint(append(plain, sealedFormat), uint64(count))
	for name, values := range d.Header {
		for _, value := range values {
			plain = appendText(appendText(plain, name), value)
		}
	}
	if d.Config == nil {
		plain = append(plain, 0)
	} else {
		plain = append(binary.AppendUvarint(plain, uint64(len(d.Config))+1), d.Config...)
	}
	sealed, err := v.Seal(receiptRef(r), append(plain, d.Body...))
	if err != nil {
		return fmt.Errorf("sealing a delivery: %w", err)
	}
	r.Sealed = sealed
	return nil
}

// Open returns the delivery of a receipt.
func Open(v action.Vault, r event.Receipt) (*event.Delivery, error) {
	plain, err := v.Open(receiptRef(&r), r.Sealed)
	if err != nil {
		return nil, fmt.Errorf("opening a delivery: %w", err)
	}
	if len(plain) == 0 || plain[0] != sealedFormat {
		return nil, errSealedDelivery
	}
	in := reader{rest: plain[1:]}
	d := &event.Delivery{Header: http.Header{}}
	for count := in.number(); count > 0 && !in.failed; count-- {
		name, value := string(in.bytes(in.number())), string(in.bytes(in.number()))
		d.Header[name] = append(d.Header[name], value)
	}
	if n := in.number(); n > 0 {
		d.Config = json.RawMessage(in.bytes(n - 1))
	}
	if in.failed {
		return nil, errSealedDelivery
	}
	d.Body = in.rest
	return d, nil
}

func receiptRef(r *event.Receipt) action.Ref {
	return action.Ref{Organization: r.Organization, Table: "inbox", Row: r.ID, Column: "sealed"}
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// reader consumes the front of a buffer. After an error it returns nothing more.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest, r.failed = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.rest, r.failed = nil, true
		return nil
	}
	piece := r.rest[:n:n]
	r.rest = r.rest[n:]
	return piece
}

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
