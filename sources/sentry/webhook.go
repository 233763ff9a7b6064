package sentry

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sallyport/ingest/event"
	"sallyport/internal/jsonlex"
	"sallyport/sources"
)

// verify accepts the signature in either of Sentry's two headers. The timestamp
// is not signed, so deliveries never expire.
func verify(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	given := slices.Concat(d.Header.Values("Sentry-Hook-Signature"), d.Header.Values("Sentry-App-Signature"))
	if len(given) != 1 {
		return event.ErrSignature
	}
	return event.VerifyHex(given[0], "", secrets, d.Body)
}

// parse reads a delivery. Headers are not signed, so the body must match the
// resource in the header. The account is the UUID of the installation, which an
// integration does not know.
func parse(d *event.Delivery) (p event.Parsed, err error) {
	id, _ := event.Header(d.Header, "Request-ID")
	p.ID = sources.ValidID(id)
	if len(d.Body) == 0 { // valid signature, no content
		return p, nil
	}
	body, err := parseBody(d.Body)
	if err != nil {
		return event.Parsed{}, err
	}
	p.Account = installationID(body)
	resource, ok := event.Header(d.Header, "Sentry-Hook-Resource")
	if !ok {
		return event.Parsed{}, errors.New("sentry: the delivery needs one header Sentry-Hook-Resource")
	}
	if resource == "installation" {
		p.Lifecycle, err = lifecycle(body)
		return p, err
	}
	e, err := parseEvent(resource, body)
	if e != nil {
		// Updates of issues carry no time, so identical deliveries can be distinct.
		if p.Signed = e.Key != ""; !p.Signed {
			e.Key = p.ID
		}
		p.Events = []event.Event{*e}
	}
	return p, err
}

func parseBody(body []byte) (o object, err error) {
	if err = jsonlex.Document(body); err == nil {
		err = decode(body, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("sentry: the delivery's body: %w", err)
	}
	return o, nil
}

// installationID returns the UUID of the installation, or "".
func installationID(body object) string {
	return sources.ValidID(str(asObject(body["installation"])["uuid"]))
}

// lifecycle returns what happened to the installation that sent the delivery.
func lifecycle(body object) (event.Lifecycle, error) {
	if about := str(asObject(asObject(body["data"])["installation"])["uuid"]); about == "" || about != installationID(body) {
		return "", errors.New("sentry: the delivery is not about its installation, as its header says")
	}
	return map[string]event.Lifecycle{"created": event.Installed, "deleted": event.Uninstalled}[str(body["action"])], nil
}
