package inbox

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sallyport/action"
	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/ingest/match"
)

// sameBodyWindow is how long a body counts as the same delivery if its id is not signed,
// because a captured delivery could be replayed under another id.
const sameBodyWindow = 5 * time.Minute

// reading is a parsed delivery with its targets.
type reading struct {
	receipt event.Receipt
	shown   []byte // the payload for people
	body    string // keyed hash of the body, if the id is not signed
	events  []event.Event
	targets []target
	note    string               // why there are no targets
	recheck []action.Integration // integrations whose status may have changed
	// queue in which the events wait for hydration; empty: none is needed.
	queue string
}

// read parses a receipt. The reading is never nil: on an error it contains what is
// known.
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

// parse parses a delivery into rd with the module of a provider.
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
		case e.Key == "": // identified by its delivery only
			e.Key = rd.receipt.ID + ":" + strconv.Itoa(i)
		case !parsed.Signed: // a replayed body must not use up the key of another
			e.Key += ":" + body[:16]
		}
	}
	return parsed, nil
}

// readNango reads a delivery through Nango. It has no id, so the same body within a
// short time is the same delivery.
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
	return nil // other kinds are ignored
}

// readForward reads a service's delivery that Nango forwarded. The connection
// determines its targets; without an envelope, the account in the delivery does.
func (w *Worker) readForward(ctx context.Context, look *lookup, rd *reading, n delivery.Nango) error {
	found, err := look.broker(ctx, n.Connection, n.ProviderKey)
	if err != nil {
		return err
	}
	provider := n.Provider
	switch {
	case len(found) > 0:
		provider = found[0].Provider // the gateway's name, not Nango's
	case !n.Bare:
		rd.note = "No integration uses this Nango connection, so the event was dropped."
		return nil
	case w.match.Providers[provider] == nil:
		rd.note = "The delivery does not name its service, so it was dropped."
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
	verified := provider == "linear" && !n.Bare // Nango verifies the signature of few services
	return w.addTargets(ctx, look, rd, found, parsed, verified)
}

// addTargets adds the targets of each organization, as far as it trusts unverified
// deliveries.
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

// applyLifecycle applies what a service reports about an app's installation. Only
// deliveries verified for the whole provider may do so: the secret of a trigger
// covers only that trigger.
func (w *Worker) applyLifecycle(ctx context.Context, look *lookup, found []action.Integration, what event.Lifecycle) error {
	for _, in := range found {
		status, reason := lifecycleStatus(in.Status, what)
		if err := w.setIntegrationStatus(ctx, look, in, status, reason); err != nil {
			return err
		}
	}
	return nil
}

// lifecycleStatus returns the new status of an integration; empty if it does not
// change.
func lifecycleStatus(is action.IntegrationStatus, what event.Lifecycle) (action.IntegrationStatus, string) {
	switch {
	case what == event.Suspended && (is == action.IntegrationActive || is == action.IntegrationExpired):
		return action.IntegrationSuspended, "The service reports that the app installation was suspended."
	case what == event.Unsuspended && is == action.IntegrationSuspended:
		return action.IntegrationActive, ""
	case what == event.Uninstalled && is != action.IntegrationRevoked && is != action.IntegrationDeleted:
		return action.IntegrationRevoked, "The service reports that the app was uninstalled. Connect it again to use it."
	}
	return "", ""
}

// readAuth finds the integrations that Nango's message about a connection concerns.
// It is only a hint, because Nango also signs what strangers have it forward.
func (w *Worker) readAuth(ctx context.Context, look *lookup, rd *reading, n delivery.Nango) error {
	switch n.Operation {
	case "creation", "override", "refresh":
	default:
		return nil
	}
	found, err := look.broker(ctx, n.Connection, n.ProviderKey)
	if err != nil {
		return err
	}
	for _, in := range found {
		if !n.Success && in.Status == action.IntegrationActive || n.Success && in.Status == action.IntegrationExpired {
			rd.recheck = append(rd.recheck, in)
		}
	}
	return nil
}

// recheckIntegrations queries the status of integrations after a hint.
func (w *Worker) recheckIntegrations(ctx context.Context, rd *reading) error {
	for _, in := range rd.recheck {
		within, stop := context.WithTimeout(ctx, hydrateTimeout)
		err := w.Integrations.Recheck(within, in)
		stop()
		if err != nil {
			return fmt.Errorf("checking the status of integration %s: %w", in.ID, err)
		}
	}
	return nil
}

func (w *Worker) setIntegrationStatus(ctx context.Context, look *lookup, in action.Integration, status action.IntegrationStatus, reason string) error {
	if status == "" {
		return nil
	}
	look.forget() // the next delivery of the batch must see the change
	w.Log.InfoContext(ctx, "a delivery changed the status of an integration", "organization", in.Organization, "integration", in.ID, "status", status)
	return loop.RetryUnavailable(ctx, func() error { return w.Integrations.IntegrationStatus(ctx, in, status, reason) })
}
