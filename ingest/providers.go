package ingest

import (
	"errors"
	"fmt"

	"sallyport/ingest/event"
)

// registry are the providers by their ids.
type registry map[string]*event.Provider

// newRegistry takes what modules declare, and adds the provider of one's own
// senders, [Custom].
func newRegistry(modules []event.Provider) (registry, error) {
	r := registry{}
	for _, p := range append([]event.Provider{Custom()}, modules...) {
		switch {
		case p.ID == "" || p.ID == nangoProvider:
			return nil, fmt.Errorf("a provider may not have the id %q", p.ID)
		case r[p.ID] != nil:
			return nil, fmt.Errorf("two providers have the id %s", p.ID)
		case p.Webhook != nil && (p.Webhook.Verify == nil || p.Webhook.Parse == nil):
			return nil, errors.New(p.ID + ": a webhook needs Verify and Parse")
		}
		r[p.ID] = &p
	}
	return r, nil
}
