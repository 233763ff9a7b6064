package dashboard_test

import (
	"context"
	"slices"

	"sallyport/action"
)

// desk is memory as the inbox reads it.
type desk struct{ *memory }

func (d desk) SessionsOf(_ context.Context, organization string, ids []string) (map[string]action.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[string]action.Session{}
	for _, s := range d.sessions {
		if s.Organization == organization && slices.Contains(ids, s.ID) {
			found[s.ID] = s
		}
	}
	return found, nil
}

func (d desk) Waiters(_ context.Context, organization string, ids []string) (map[string]action.Waiter, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[string]action.Waiter{}
	for _, inv := range d.invocations {
		if inv.Organization != organization || inv.Status != action.StatusPending || !slices.Contains(ids, inv.ID) {
			continue
		}
		if found[inv.ID] = d.waiters[inv.ID]; found[inv.ID].SeenAt.IsZero() {
			found[inv.ID] = action.Waiter{SeenAt: inv.CreatedAt, Answered: d.waiters[inv.ID].Answered}
		}
	}
	return found, nil
}

func (d desk) AutomationNames(_ context.Context, organization string) (map[string]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := map[string]string{}
	for _, a := range d.automations {
		if a.Organization == organization {
			names[a.ID] = a.Name
		}
	}
	return names, nil
}

func (d desk) CountWaiting(_ context.Context, organization string) (calls, requests int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, inv := range d.invocations {
		if inv.Organization == organization && inv.Status == action.StatusPending {
			calls++
		}
	}
	for _, r := range d.requests {
		if r.Organization == organization && r.Status == action.RequestPending {
			requests++
		}
	}
	return calls, requests, nil
}
