package inbox

import (
	"context"
	"strconv"
	"time"

	"sallyport/action"
	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
	"sallyport/ingest/match"
)

// sameBodyWindow is how long a body counts as the same delivery, where the id is not
// signed and whoever captured it could send it under another one.
const sameBodyWindow = 5 * time.Minute

// reading is what a receipt says, and to whom.
type reading struct {
	receipt event.Receipt
	shown   []byte // the payload for people
	body    string // keyed hash of the signed body, where the id is not signed
	events  []event.Event
	targets []target
	note    string               // why there is nobody to tell
	recheck []action.Integration // a broker hints that they are not what they were
	// lane in which the events wait for being completed; empty: they do not.
	queue string
}

// read reads a receipt. The reading is never nil: of what cannot be read it
// holds what is known.
func (w *Worker) read(ctx context.Context, look *lookup, r event.Receipt) (*reading, error) {
	rd := &reading{receipt: r}
	err := w.match.Recovering(ctx, "reading delivery "+r.ID, func() error {
		d, err := delivery.Open(w.Vault, r)
		if err != nil {
			return err
		}
		rd.shown = w.match.Payload(d.Body)
		switch {
		case r.Provider == match.NangoProvider:
			return w.readNango(ctx, look, rd, d)
		case r.Trigger != "":
			return w.readTriggerDelivery(ctx, look, rd, d)
		}
		return w.readProviderDelivery(ctx, look, rd, d)
	})
	if err == nil {
		rd.queue = w.queueName(rd)
	}
	return rd, err
}

// parse reads a delivery with the module of a provider into rd.
func (w *Worker) parse(ctx context.Context, rd *reading, provider string, d *event.Delivery) (event.Parsed, error) {
	p := w.match.Providers[provider]
	if p == nil || p.Webhook == nil {
		return event.Parsed{}, action.NewError("no_provider", w.match.Line(provider, match.MaxLine))
	}
	var parsed event.Parsed
	err := w.match.Recovering(ctx, "reading a delivery of "+p.ID, func() (err error) {
		parsed, err = p.Webhook.Parse(d)
		return err
	})
	if err != nil {
		w.Count("unreadable", p.ID)
		return parsed, w.match.Unreadable(err)
	}
	body := delivery.BodyHash(w.Vault, d.Body)
	if !parsed.Signed && rd.body == "" {
		rd.body = body
	}
	rd.events = parsed.Events
	for i := range rd.events {
		e := &rd.events[i]
		e.Provider = p.ID
		switch {
		case e.Key == "": // nothing tells it from others but its delivery
			e.Key = rd.receipt.ID + ":" + strconv.Itoa(i)
		case !parsed.Signed: // whoever captured a body could use up the key of another
			e.Key += ":" + body[:16]
		}
	}
	return parsed, nil
}

// readNango reads what came by way of Nango. Nothing of it has an id, so that the
// same body a moment later is the same delivery.
func (w *Worker) readNango(ctx context.Context, look *lookup, rd *reading, d *event.Delivery) error {
	rd.body = delivery.BodyHash(w.Vault, d.Body)
	n, err := delivery.Unwrap(d)
	if err != nil {
		w.Count("unreadable", match.NangoProvider)
		return w.match.Unreadable(err)
	}
	switch n.Kind {
	case delivery.NangoAuth:
		return w.readAuth(ctx, look, rd, n)
	case delivery.NangoForward:
		return w.readForward(ctx, look, rd, n)
	}
	return nil // nothing here depends on it
}

// readForward reads a service's own delivery that Nango passed on. Whose it is
// follows from the connection; without an envelope, from what it says itself.
func (w *Worker) readForward(ctx context.Context, look *lookup, rd *reading, n delivery.Nango) error {
	found, err := look.broker(ctx, n.Connection, n.ProviderKey)
	if err != nil {
		return err
	}
	provider := n.Provider
	switch {
	case len(found) > 0:
		provider = found[0].Provider // as the gateway calls it
	case !n.Bare:
		rd.note = "There is no integration of this connection of Nango's, so nobody was told."
		return nil
	case w.match.Providers[provider] == nil:
		rd.note = "It does not say of which service it is, so nobody was told."
		return nil
	}
	parsed, err := w.parse(ctx, rd, provider, n.Delivery)
	if err != nil {
		return err
	}
	if n.Bare {
		if found, err = look.account(ctx, provider, parsed.Account); err != nil {
			return err
		}
	}
	return w.addTargets(ctx, look, rd, found, parsed, verifiedByNango(provider, n))
}

// verifiedByNango reports whether Nango itself verified what it passes on: of most
// services it checks nothing.
func verifiedByNango(provider string, n delivery.Nango) bool { return provider == "linear" && !n.Bare }

// addTargets tells each organization as far as it trusts what was not verified.
func (w *Worker) addTargets(ctx context.Context, look *lookup, rd *reading, found []action.Integration, parsed event.Parsed, verified bool) error {
	if len(found) == 0 {
		rd.note = noIntegrationText
	}
	rd.hideFromOthers(found)
	for _, mine := range byOrganization(found) {
		trusted := verified
		if !trusted {
			var err error
			if trusted, err = look.acceptsUnverified(ctx, mine[0].Organization); err != nil {
				return err
			}
		}
		if trusted {
			if err := w.applyLifecycle(ctx, look, mine, parsed.Lifecycle); err != nil {
				return err
			}
		}
		list, err := w.targets(ctx, look, rd, mine)
		if err != nil {
			return err
		}
		for _, t := range list {
			t.unverified = !trusted
			rd.targets = append(rd.targets, t)
		}
	}
	return nil
}
