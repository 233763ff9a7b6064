package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/ingest/match"
)

// target is a set of an organization's triggers with the integration whose
// credential completes their events.
type target struct {
	organization string
	integration  string // empty: none
	triggers     []event.Trigger
	// unverified events start nothing in the organization.
	unverified bool
}

// readTriggerDelivery reads a delivery at a trigger's URL, which is for that trigger
// only.
func (w *Worker) readTriggerDelivery(ctx context.Context, look *lookup, rd *reading, d *event.Delivery) error {
	t, err := look.trigger(ctx, rd.receipt.Trigger)
	switch {
	case errors.Is(err, action.ErrNotFound) || err == nil && t.Provider != rd.receipt.Provider:
		rd.note = "The trigger of this URL no longer exists."
		return nil
	case err != nil:
		return err
	case !t.Enabled:
		rd.note = "The trigger of this URL is disabled."
		return nil
	}
	if _, err := w.parse(ctx, rd, t.Provider, d); err != nil {
		return err
	}
	rd.targets = []target{{organization: t.Organization, integration: t.Integration, triggers: []event.Trigger{t}}}
	return nil
}

// readProviderDelivery reads a delivery at a provider URL, which is for all
// organizations with an integration of the account.
func (w *Worker) readProviderDelivery(ctx context.Context, look *lookup, rd *reading, d *event.Delivery) error {
	parsed, err := w.parse(ctx, rd, rd.receipt.Provider, d)
	if err != nil || len(parsed.Events) == 0 && parsed.Lifecycle == "" {
		return err
	}
	found, err := look.account(ctx, rd.receipt.Provider, parsed.Account)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		rd.note = w.noAccountText(parsed.Account)
		return nil
	}
	rd.hideFromOthers(found)
	if err := w.applyLifecycle(ctx, look, found, parsed.Lifecycle); err != nil {
		return err
	}
	rd.targets, err = w.targets(ctx, look, rd, found)
	return err
}

// noAccountText explains why a delivery has no targets.
func (w *Worker) noAccountText(account string) string {
	if account == "" {
		return "The delivery does not name its account, so it was dropped. Configure the service to post to the trigger's own URL."
	}
	return fmt.Sprintf(noIntegrationText, w.match.Line(account, match.MaxLine))
}

const noIntegrationText = "No integration of the account %s was verified by the service, so the delivery was dropped. Connect the account by OAuth or as an app, for the whole organization, then process this delivery again."

// hideFromOthers removes the displayed payload if it belongs to other organizations
// than the owner of the row.
func (rd *reading) hideFromOthers(found []action.Integration) {
	if slices.ContainsFunc(found, func(in action.Integration) bool { return in.Organization != rd.receipt.Organization }) {
		rd.shown = nil
	}
}

// hasVerifiedAccount reports whether the service itself confirmed the account of an
// integration, because it was connected to the gateway's own app. Otherwise, anybody
// who runs a server with the service's API could claim the account of others and
// receive their events. The operator's organization is trusted.
func (w *Worker) hasVerifiedAccount(in action.Integration) bool {
	if in.Organization == w.Operator {
		return true
	}
	return in.BaseURL == "" && in.Owner() == "" && (in.Kind == action.KindOAuth2 || in.Kind == action.KindApp)
}

// targets returns the triggers for the events of an account, by its integrations.
func (w *Worker) targets(ctx context.Context, look *lookup, rd *reading, found []action.Integration) (all []target, err error) {
	if len(rd.events) == 0 {
		return nil, nil
	}
	for _, mine := range byOrganization(found) {
		triggers, err := look.active(ctx, mine[0].Organization, mine[0].Provider)
		if err != nil {
			return nil, err
		}
		all = append(all, groupTargets(mine[0].Organization, triggers, mine)...)
	}
	return all, nil
}

func byOrganization(found []action.Integration) (groups [][]action.Integration) {
	at := map[string]int{}
	for _, in := range found {
		i, known := at[in.Organization]
		if !known {
			i = len(groups)
			at[in.Organization], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], in)
	}
	return groups
}

func statusRank(in action.Integration) int {
	if in.Status == action.IntegrationActive {
		return 0
	}
	return 1
}

// groupTargets groups an organization's triggers by the integration that delivers
// their events, and drops triggers without one.
func groupTargets(organization string, triggers []event.Trigger, found []action.Integration) (all []target) {
	// Prefer active integrations for completing events.
	slices.SortStableFunc(found, func(a, b action.Integration) int { return cmp.Compare(statusRank(a), statusRank(b)) })
	for _, t := range triggers {
		i := slices.IndexFunc(found, func(in action.Integration) bool {
			// Triggers get no events of users' personal accounts, even if the account
			// was shared before, and none of revoked integrations.
			return in.Owner() == "" && in.Status != action.IntegrationRevoked && (in.ID == t.Integration || t.Integration == "")
		})
		if i < 0 || t.Kind != event.Webhooks {
			continue
		}
		by := found[i].ID
		if at := slices.IndexFunc(all, func(o target) bool { return o.integration == by }); at >= 0 {
			all[at].triggers = append(all[at].triggers, t)
			continue
		}
		all = append(all, target{organization: organization, integration: by, triggers: []event.Trigger{t}})
	}
	return all
}

// lookup caches queries for one batch and waits while the database is unreachable.
type lookup struct {
	w              *Worker
	triggers       map[string]event.Trigger
	activeTriggers map[[2]string][]event.Trigger
	accounts       map[[2]string][]action.Integration
	brokers        map[[2]string][]action.Integration
	unverified     map[string]bool
}

func (w *Worker) newLookup() *lookup {
	return &lookup{
		w: w, triggers: map[string]event.Trigger{}, activeTriggers: map[[2]string][]event.Trigger{},
		accounts: map[[2]string][]action.Integration{}, brokers: map[[2]string][]action.Integration{}, unverified: map[string]bool{},
	}
}

// trigger returns a trigger by id, enabled or not; ErrNotFound.
func (l *lookup) trigger(ctx context.Context, id string) (event.Trigger, error) {
	return cached(ctx, l.triggers, id, func() (event.Trigger, error) {
		lock, err := l.w.Rows.TriggerSecrets(ctx, id)
		return lock.Trigger, err
	})
}

// active returns an organization's enabled triggers of a provider.
func (l *lookup) active(ctx context.Context, organization, provider string) ([]event.Trigger, error) {
	return cached(ctx, l.activeTriggers, [2]string{organization, provider}, func() ([]event.Trigger, error) {
		return l.w.Rows.ActiveTriggers(ctx, organization, provider)
	})
}

// account returns the integrations with a verified account, of all organizations;
// none if the account is empty.
func (l *lookup) account(ctx context.Context, provider, account string) ([]action.Integration, error) {
	if account == "" {
		return nil, nil
	}
	return cached(ctx, l.accounts, [2]string{provider, account}, func() ([]action.Integration, error) {
		found, err := l.w.Integrations.IntegrationsByAccount(ctx, provider, account)
		return slices.DeleteFunc(found, func(in action.Integration) bool { return !l.w.hasVerifiedAccount(in) }), err
	})
}

// broker returns the integrations behind a broker's connection.
func (l *lookup) broker(ctx context.Context, connection, key string) ([]action.Integration, error) {
	if connection == "" {
		return nil, nil
	}
	return cached(ctx, l.brokers, [2]string{connection, key}, func() ([]action.Integration, error) {
		return l.w.Integrations.IntegrationsByBroker(ctx, connection, key)
	})
}

// forget drops cached integrations.
func (l *lookup) forget() {
	clear(l.accounts)
	clear(l.brokers)
}

// acceptsUnverified reports whether unverified events of a broker may start runs.
func (l *lookup) acceptsUnverified(ctx context.Context, organization string) (bool, error) {
	return cached(ctx, l.unverified, organization, func() (bool, error) { return l.w.Rows.UnverifiedEvents(ctx, organization) })
}

func cached[K comparable, V any](ctx context.Context, known map[K]V, key K, ask func() (V, error)) (v V, err error) {
	if v, ok := known[key]; ok {
		return v, nil
	}
	err = loop.RetryUnavailable(ctx, func() error {
		v, err = ask()
		return err
	})
	if err == nil {
		known[key] = v
	}
	return v, err
}
