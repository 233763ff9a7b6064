package ingest

import (
	"context"
	"slices"

	"sallyport/action"
	"sallyport/ingest/event"
)

// lookup remembers for one batch what was asked of the rows, and waits while
// they are out of reach.
type lookup struct {
	w          *Worker
	locks      map[string]event.Trigger
	rules      map[[2]string][]event.Trigger
	accounts   map[[2]string][]action.Integration
	brokers    map[[2]string][]action.Integration
	unverified map[string]bool
}

func (w *Worker) newLookup() *lookup {
	return &lookup{
		w: w, locks: map[string]event.Trigger{}, rules: map[[2]string][]event.Trigger{},
		accounts: map[[2]string][]action.Integration{}, brokers: map[[2]string][]action.Integration{}, unverified: map[string]bool{},
	}
}

// trigger returns the trigger of an id, enabled or not; ErrNotFound.
func (l *lookup) trigger(ctx context.Context, id string) (event.Trigger, error) {
	return once(ctx, l.locks, id, func() (event.Trigger, error) {
		lock, err := l.w.Rows.TriggerLock(ctx, id)
		return lock.Trigger, err
	})
}

// active returns an organization's enabled triggers of a provider.
func (l *lookup) active(ctx context.Context, organization, provider string) ([]event.Trigger, error) {
	return once(ctx, l.rules, [2]string{organization, provider}, func() ([]event.Trigger, error) {
		return l.w.Rows.ActiveTriggers(ctx, organization, provider)
	})
}

// account returns the integrations of an account, of all organizations, that are
// vouched for; none where a delivery does not say whose it is.
func (l *lookup) account(ctx context.Context, provider, account string) ([]action.Integration, error) {
	if account == "" {
		return nil, nil
	}
	return once(ctx, l.accounts, [2]string{provider, account}, func() ([]action.Integration, error) {
		found, err := l.w.Integrations.IntegrationsByAccount(ctx, provider, account)
		return slices.DeleteFunc(found, func(in action.Integration) bool { return !l.w.vouched(in) }), err
	})
}

// broker returns the integrations that a broker's connection is kept by.
func (l *lookup) broker(ctx context.Context, connection, key string) ([]action.Integration, error) {
	if connection == "" {
		return nil, nil
	}
	return once(ctx, l.brokers, [2]string{connection, key}, func() ([]action.Integration, error) {
		return l.w.Integrations.IntegrationsByBroker(ctx, connection, key)
	})
}

// forget has integrations asked for anew.
func (l *lookup) forget() {
	clear(l.accounts)
	clear(l.brokers)
}

// trusting reports whether events that a broker did not verify start something.
func (l *lookup) trusting(ctx context.Context, organization string) (bool, error) {
	return once(ctx, l.unverified, organization, func() (bool, error) { return l.w.Rows.UnverifiedEvents(ctx, organization) })
}

func once[K comparable, V any](ctx context.Context, known map[K]V, key K, ask func() (V, error)) (v V, err error) {
	if v, ok := known[key]; ok {
		return v, nil
	}
	err = patient(ctx, func() error {
		v, err = ask()
		return err
	})
	if err == nil {
		known[key] = v
	}
	return v, err
}
