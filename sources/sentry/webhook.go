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

// verify takes the signature from either of the two headers that Sentry has for
// it. The time of a delivery is not signed: one never gets too old.
func verify(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	given := slices.Concat(d.Header.Values("Sentry-Hook-Signature"), d.Header.Values("Sentry-App-Signature"))
	if len(given) != 1 {
		return event.ErrSignature
	}
	return event.VerifyHex(given[0], "", secrets, d.Body)
}

// parse reads a delivery. No header is signed: what the body is about has to be
// what the header says. The account is the installation's UUID, which the
// organization's id, that an integration has, does not follow from.
func parse(d *event.Delivery) (p event.Parsed, err error) {
	id, _ := event.Header(d.Header, "Request-ID")
	p.ID = sources.ValidID(id)
	if len(d.Body) == 0 { // signed all the same, and about nothing
		return p, nil
	}
	body, err := read(d.Body)
	if err != nil {
		return event.Parsed{}, err
	}
	p.Account = installation(body)
	resource, ok := event.Header(d.Header, "Sentry-Hook-Resource")
	if !ok {
		return event.Parsed{}, errors.New("sentry: the delivery needs one header Sentry-Hook-Resource")
	}
	if resource == "installation" {
		p.Lifecycle, err = lifecycle(body)
		return p, err
	}
	e, err := happened(resource, body)
	if e != nil {
		// What Sentry says of a change has no time in it, and may be said again.
		if p.Signed = e.Key != ""; !p.Signed {
			e.Key = p.ID
		}
		p.Events = []event.Event{*e}
	}
	return p, err
}

func read(body []byte) (o object, err error) {
	if err = jsonlex.Document(body); err == nil {
		err = decode(body, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("sentry: the delivery's body: %w", err)
	}
	return o, nil
}

// installation returns the id of the installation whose the delivery is; empty:
// it has none.
func installation(body object) string { return sources.ValidID(str(as(body["installation"])["uuid"])) }

// lifecycle tells what happened to an installation: the one whose the delivery
// is.
func lifecycle(body object) (event.Lifecycle, error) {
	if about := str(as(as(body["data"])["installation"])["uuid"]); about == "" || about != installation(body) {
		return "", errors.New("sentry: the delivery is not about its installation, as its header says")
	}
	return map[string]event.Lifecycle{"created": event.Installed, "deleted": event.Uninstalled}[str(body["action"])], nil
}
