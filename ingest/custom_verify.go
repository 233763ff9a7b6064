package ingest

import (
	"strconv"
	"strings"
	"time"

	"sallyport/ingest/event"
)

// customVerify goes by the scheme of the trigger and no other: a delivery that
// could choose would choose the weakest.
func customVerify(d *event.Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	c := readCustom(d.Config)
	switch c.Verification.Scheme {
	case "standard":
		return event.VerifyStandard(d.Header, d.Body, secrets, now, tolerance)
	case "hmac":
		return c.verifyHMAC(d, secrets, now, tolerance)
	case "header":
		return c.compareSecret(d, secrets)
	}
	return event.ErrSignature
}

// verifyHMAC takes hex over the body, or over time and body where the trigger
// has a header for the time.
func (c *customConfig) verifyHMAC(d *event.Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	signature, ok := event.Header(d.Header, c.Verification.Header)
	if !ok {
		return event.ErrSignature
	}
	signature = strings.TrimPrefix(signature, "sha256=")
	if c.Verification.TimestampHeader == "" {
		return event.VerifyHex(signature, "", secrets, d.Body)
	}
	sent, _ := event.Header(d.Header, c.Verification.TimestampHeader)
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil {
		return event.ErrSignature
	}
	if err := event.VerifyHex(signature, "", secrets, []byte(sent+"."), d.Body); err != nil {
		return err
	}
	return event.Within(time.Unix(seconds, 0), now, tolerance)
}

// compareSecret looks for the secret itself in the header.
func (c *customConfig) compareSecret(d *event.Delivery, secrets [][]byte) error {
	given, ok := event.Header(d.Header, c.Verification.Header)
	if ok && strings.EqualFold(c.Verification.Header, "Authorization") {
		given, ok = strings.CutPrefix(given, "Bearer ")
	}
	if !ok || !event.EqualSecret(given, secrets) {
		return event.ErrSignature
	}
	return nil
}
