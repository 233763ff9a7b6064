package posthog

import (
	"encoding/json"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// defaultTolerance is the clock skew that Standard Webhooks recommends.
const defaultTolerance = 5 * time.Minute

// verification configures how deliveries are authenticated.
type verification struct {
	Scheme string `json:"scheme"`
	Header string `json:"header"`
}

// parseVerification reads the trigger's config. The default is the signature;
// an invalid config selects a scheme that accepts nothing.
func parseVerification(config json.RawMessage) verification {
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

// verify uses the configured scheme only. If the delivery could choose, an
// attacker would choose the weaker one.
func verify(d *event.Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	switch v := parseVerification(d.Config); v.Scheme {
	case "standard":
		return event.VerifyStandard(d.Header, d.Body, secrets, now, tolerance)
	case "header":
		return v.verifyHeader(d, secrets)
	}
	return event.ErrSignature
}

// verifyHeader compares the secret in the header.
func (v verification) verifyHeader(d *event.Delivery, secrets [][]byte) error {
	given, ok := event.Header(d.Header, v.Header)
	if ok && strings.EqualFold(v.Header, "Authorization") {
		given, ok = strings.CutPrefix(given, "Bearer ")
	}
	if !ok || !event.EqualSecret(given, secrets) {
		return event.ErrSignature
	}
	return nil
}

// parse reads a delivery. Its ID is the signed Webhook-Id, or else the event's
// UUID, which anyone with the secret can set.
func parse(d *event.Delivery) (event.Parsed, error) {
	n, err := parseBody(d.Body)
	if err != nil {
		return event.Parsed{}, err
	}
	var out event.Parsed
	if parseVerification(d.Config).Scheme == "standard" {
		id, _ := event.Header(d.Header, "Webhook-Id")
		out.ID = sources.ValidID(id)
		out.Signed = out.ID != ""
	}
	if out.ID == "" {
		out.ID = sources.ValidID(string(n.UUID))
	}
	e := n.event()
	e.Key = out.ID // empty without an ID: equal bodies may be distinct events
	out.Events = []event.Event{e}
	return out, nil
}
