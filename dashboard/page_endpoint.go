package dashboard

import (
	"errors"
	"reflect"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// taker is who gets an organization's runs, as far as the person may know.
type taker struct {
	Endpoint *api.EndpointView // nil: there is none
	Keys     int               // for workers
	Parcels  action.Page[event.Parcel]
	Nobody   bool // neither an endpoint nor a key: nothing works on runs
}

// taker looks who works on runs. A member hears of keys alone.
func (p *pageRequest) taker(f filters) taker {
	var t taker
	status, _ := reflect.TypeFor[api.ParcelQuery]().FieldByName("Status")
	f.oneOf(p, "parcels", enumOf(status))
	for _, k := range load(p, p.People.ListAPIKeys, p.org) {
		if k.Scope == action.ScopeRuns && k.RevokedAt == nil {
			t.Keys++
		}
	}
	if p.err != nil || !p.decides() {
		return t
	}
	e, err := p.runEndpoint(p.ctx(), p.me)
	switch {
	case err == nil:
		t.Endpoint = &e
	case !errors.Is(err, action.ErrNotFound):
		p.keep(err)
	}
	t.Nobody = t.Keys == 0 && (t.Endpoint == nil || !t.Endpoint.Enabled)
	t.Parcels = load(p, p.Inbound.ListParcels, event.ParcelFilter{Organization: p.org, Status: event.ParcelStatus(f.Get("parcels")), Limit: 20})
	return t
}
