package match

import (
	"errors"
	"fmt"

	"sallyport/ingest/event"
)

// Registry are the providers by their ids.
type Registry map[string]*event.Provider

// NewRegistry takes what modules declare, and adds the provider of one's own
// senders, [Custom].
func NewRegistry(modules []event.Provider) (Registry, error) {
	r := Registry{}
	for _, p := range append([]event.Provider{Custom()}, modules...) {
		switch {
		case p.ID == "" || p.ID == NangoProvider:
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

// NangoProvider is the provider of receipts that came by way of Nango, and
// under which its signing key is configured. No module may have this id.
const NangoProvider = "nango"
