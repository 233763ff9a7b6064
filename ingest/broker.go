package ingest

import (
	"context"

	"sallyport/action"
	"sallyport/ingest/event"
)

// brokered reads what came by way of Nango. Nothing of it has an id, so that the
// same body a moment later is the same delivery.
func (w *Worker) brokered(ctx context.Context, look *lookup, rd *reading, d *event.Delivery) error {
	rd.body = bodyHash(w.Vault, d.Body)
	n, err := Unwrap(d)
	if err != nil {
		w.Count("unreadable", nangoProvider)
		return w.match.unreadable(err)
	}
	switch n.Kind {
	case NangoAuth:
		return w.renewed(ctx, look, rd, n)
	case NangoForward:
		return w.forwarded(ctx, look, rd, n)
	}
	return nil // nothing here depends on it
}

// forwarded reads a service's own delivery that Nango passed on. Whose it is
// follows from the connection; without an envelope, from what it says itself.
func (w *Worker) forwarded(ctx context.Context, look *lookup, rd *reading, n Nango) error {
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
	case w.match.providers[provider] == nil:
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
	return w.passedOn(ctx, look, rd, found, parsed, checkedByNango(provider, n))
}

// checkedByNango reports whether Nango itself verified what it passes on: of most
// services it checks nothing.
func checkedByNango(provider string, n Nango) bool { return provider == "linear" && !n.Bare }

// passedOn tells each organization as far as it trusts what was not verified.
func (w *Worker) passedOn(ctx context.Context, look *lookup, rd *reading, found []action.Integration, parsed event.Parsed, verified bool) error {
	if len(found) == 0 {
		rd.note = nobodysAccount
	}
	rd.foreign(found)
	for _, mine := range byOrganization(found) {
		trusted := verified
		if !trusted {
			var err error
			if trusted, err = look.trusting(ctx, mine[0].Organization); err != nil {
				return err
			}
		}
		if trusted {
			if err := w.installed(ctx, look, mine, parsed.Lifecycle); err != nil {
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
