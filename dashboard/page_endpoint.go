package dashboard

import (
	"context"
	"errors"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// taker is who gets an organization's runs, as far as the person may know.
type taker struct {
	Endpoint *api.EndpointView // nil: there is none
	Keys     int               // for workers
	Parcels  action.Page[event.Parcel]
	Status   string // of the parcels that are shown
	Statuses []string
	Nobody   bool // neither an endpoint nor a key: nothing works on runs
}

// taker looks who works on runs. A member hears of keys alone.
func (p *pages) taker(ctx context.Context, me *Principal, f filters) (t taker, err error) {
	t.Statuses, t.Status = []string{"pending", "sending", "delivered", "dead", "void"}, f.Get("parcels")
	if err := f.oneOf("parcels", t.Statuses...); err != nil {
		return t, err
	}
	keys, err := p.People.ListAPIKeys(ctx, me.Organization)
	if err != nil {
		return t, err
	}
	for _, k := range keys {
		if k.Scope == action.ScopeRuns && k.RevokedAt == nil {
			t.Keys++
		}
	}
	if !me.Role.Decides() {
		return t, nil
	}
	e, err := p.runEndpoint(ctx, me)
	switch {
	case err == nil:
		t.Endpoint = &e
	case !errors.Is(err, action.ErrNotFound):
		return t, err
	}
	t.Nobody = t.Keys == 0 && (t.Endpoint == nil || !t.Endpoint.Enabled)
	t.Parcels, err = p.Inbound.ListParcels(ctx, event.ParcelFilter{Organization: me.Organization, Status: event.ParcelStatus(t.Status), Limit: 20})
	return t, err
}
