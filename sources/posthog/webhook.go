package posthog

import (
	"encoding/json"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// advised is how far a delivery's time may be from ours, as Standard Webhooks has
// it.
const advised = 5 * time.Minute

// verification is how a delivery shows that it is PostHog's.
type verification struct {
	Scheme string `json:"scheme"`
	Header string `json:"header"`
}

// verificationOf reads the config of the trigger. Without one, deliveries are
// signed; with one that cannot be read, nothing is good enough.
func verificationOf(config json.RawMessage) verification {
	var c struct {
		Verification verification `json:"verification"`
	}
	if len(config) > 0 && json.Unmarshal(config, &c) != nil {
		return verification{Scheme: "unknown"}
	}
	v := c.Verification
	if v.Scheme == "" {
		v.Scheme = "standard"
	}
	if v.Header == "" {
		v.Header = "X-PostHog-Token"
	}
	return v
}

// verify goes by the scheme of the trigger and no other: a delivery that could
// choose would choose the weaker one.
func verify(d *event.Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	switch v := verificationOf(d.Config); v.Scheme {
	case "standard":
		return event.VerifyStandard(d.Header, d.Body, secrets, now, tolerance)
	case "header":
		return v.compare(d, secrets)
	}
	return event.ErrSignature
}

// compare looks for the secret itself in the header.
func (v verification) compare(d *event.Delivery, secrets [][]byte) error {
	given, ok := event.Header(d.Header, v.Header)
	if ok && strings.EqualFold(v.Header, "Authorization") {
		given, ok = strings.CutPrefix(given, "Bearer ")
	}
	if !ok || !event.EqualSecret(given, secrets) {
		return event.ErrSignature
	}
	return nil
}

// parse reads a delivery. Its id is PostHog's own where it is signed, and
// otherwise that of the event, which whoever knows the secret may choose.
func parse(d *event.Delivery) (event.Parsed, error) {
	n, err := read(d.Body)
	if err != nil {
		return event.Parsed{}, err
	}
	var out event.Parsed
	if verificationOf(d.Config).Scheme == "standard" {
		id, _ := event.Header(d.Header, "Webhook-Id")
		out.ID = sources.ValidID(id)
		out.Signed = out.ID != ""
	}
	if out.ID == "" {
		out.ID = sources.ValidID(string(n.UUID))
	}
	e := n.event()
	e.Key = out.ID // without one, the same body may be another event of the kind
	out.Events = []event.Event{e}
	return out, nil
}
