package pagerduty

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// maxSignatures bounds the signatures checked per delivery. During rotation a
// webhook has two secrets.
const maxSignatures = 10

// verify accepts a delivery if any signature matches any of our secrets.
// PagerDuty signs with every secret of the webhook.
func verify(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	list, ok := event.Header(d.Header, "X-PagerDuty-Signature")
	signatures := strings.Split(list, ",")
	if !ok || len(signatures) > maxSignatures {
		return event.ErrSignature
	}
	for _, one := range signatures {
		if event.VerifyHex(strings.TrimSpace(one), "v1=", secrets, d.Body) == nil {
			return nil
		}
	}
	return event.ErrSignature
}

// delivery is the body of a webhook.
type delivery struct {
	Event struct {
		ID         string          `json:"id"`
		Type       string          `json:"event_type"` // incident.triggered
		OccurredAt string          `json:"occurred_at"`
		Agent      *reference      `json:"agent"`
		Data       json.RawMessage `json:"data"`
	} `json:"event"`
}

// parse reads a delivery. Test deliveries (pagey.ping) produce no events.
func parse(d *event.Delivery) (event.Parsed, error) {
	var in delivery
	if err := sources.ReadDelivery(d.Body, &in); err != nil {
		return event.Parsed{}, err
	}
	out := event.Parsed{ID: sources.ValidID(in.Event.ID), Signed: true}
	if out.ID == "" {
		return event.Parsed{}, errors.New("pagerduty: the delivery's event has no id that could be kept")
	}
	n, err := in.eventContext()
	if n != nil {
		e := n.event(in.Event.Type)
		e.Key, e.OccurredAt = out.ID, sources.EventTime(in.Event.OccurredAt)
		out.Events = []event.Event{e}
	}
	return out, err
}
