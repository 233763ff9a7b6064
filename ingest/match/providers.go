package match

import (
	"errors"
	"fmt"

	"sallyport/ingest/event"
)

// Registry maps ids to providers.
type Registry map[string]*event.Provider

// NewRegistry returns the providers of modules and the provider of custom webhooks,
// [Custom].
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

// NangoProvider is the provider of deliveries through Nango and the id of its signing key
// in the configuration. No module may have this id.
const NangoProvider = "nango"
