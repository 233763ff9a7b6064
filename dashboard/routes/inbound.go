package routes

import (
	"context"
	"errors"
	"fmt"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
	"sallyport/internal/guard"
)

func (s *handlers) inboundRoutes() {
	dashboard.Handle(s.Server, api.ListInboundEvents, func(ctx context.Context, p *dashboard.Principal, in *api.EventQuery) (api.List[api.InboundEvent], error) {
		return s.ListEvents(ctx, p, in)
	})
	dashboard.Handle(s.Server, api.GetInboundEvent, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.InboundEvent, error) {
		r, err := s.Inbound.Event(ctx, p.Organization, in.ID)
		if err != nil {
			return api.InboundEvent{}, err
		}
		return s.ViewEvent(ctx, r)
	})
	dashboard.Handle(s.Server, api.GetInboundContext, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.WholeContext, error) {
		whole, err := s.FullContext(ctx, p, in.ID)
		return api.WholeContext{Context: whole}, err
	})
	dashboard.Handle(s.Server, api.SkipInboundEvent, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.InboundEvent, error) {
		r, err := s.Inbound.SkipEvent(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return api.InboundEvent{}, err
		}
		s.runChanged(&event.Run{ID: r.Run, Organization: r.Organization, Status: r.RunStatus})
		s.Log.InfoContext(ctx, "event skipped", "event", r.ID, "run", r.Run, "by", p.By())
		return s.ViewEvent(ctx, r)
	})
	s.deliveryRoutes()
}

func (s *handlers) deliveryRoutes() {
	dashboard.Handle(s.Server, api.ListDeliveries, func(ctx context.Context, p *dashboard.Principal, in *api.DeliveryQuery) (api.List[api.DeliveryView], error) {
		page, err := s.ListReceipts(ctx, p, in)
		return view.PageOf(page, func(r event.Receipt) api.DeliveryView { return api.DeliveryView{Receipt: r} }), err
	})
	dashboard.Handle(s.Server, api.GetDelivery, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.DeliveryView, error) {
		r, err := s.Inbound.Receipt(ctx, p.Organization, in.ID)
		return view.ViewDelivery(r), err
	})
	dashboard.Handle(s.Server, api.RedriveDelivery, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.DeliveryView, error) {
		r, err := s.Inbound.RedriveReceipt(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return api.DeliveryView{}, err
		}
		s.Log.InfoContext(ctx, "delivery queued anew", "delivery", r.ID, "by", p.By())
		return view.ViewDelivery(r), nil
	})
}

func (s *handlers) outboxRoutes() {
	dashboard.Handle(s.Server, api.ListOutbox, func(ctx context.Context, p *dashboard.Principal, in *api.RunDeliveryQuery) (api.List[event.RunDelivery], error) {
		page, err := s.Inbound.ListRunDeliveries(ctx, event.RunDeliveryFilter{Organization: p.Organization, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor})
		return view.PageOf(page, identity), err
	})
	dashboard.Handle(s.Server, api.RedriveRunDelivery, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.RunView, error) {
		run, err := s.redriveDelivery(ctx, p, in.ID)
		return s.ViewRun(ctx, run, err)
	})
	s.endpointRoutes("/api/v1/run-endpoint")
}

func (s *handlers) endpointRoutes(path string) {
	dashboard.Handle(s.Server, api.GetRunEndpoint, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.EndpointView, error) {
		return s.RunEndpoint(ctx, p)
	})
	dashboard.Handle(s.Server, api.PutRunEndpoint, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewEndpoint]) (api.MintedEndpoint, error) {
		return s.setEndpoint(ctx, p, in.Body)
	})
	dashboard.HandleNone(s.Server, api.DeleteRunEndpoint, func(ctx context.Context, p *dashboard.Principal, _ *api.None) error {
		if err := s.Inbound.DeleteRunEndpoint(ctx, p.Organization, p.By()); err != nil {
			return view.ErrNoEndpoint(err)
		}
		s.policyChanged(ctx, p, "run endpoint removed")
		return nil
	})
	dashboard.Handle(s.Server, api.RotateRunEndpoint, func(ctx context.Context, p *dashboard.Principal, in *api.Body[*api.Rotation]) (api.MintedSecret, error) {
		if _, err := s.RunEndpoint(ctx, p); err != nil {
			return api.MintedSecret{}, err
		}
		return s.rotate(ctx, p, dashboard.EndpointSecrets, in.Body, true)
	})
}

func (s *handlers) redriveDelivery(ctx context.Context, p *dashboard.Principal, id string) (event.Run, error) {
	delivery, err := s.Inbound.RunDelivery(ctx, p.Organization, id)
	if err != nil {
		return event.Run{}, err
	}
	if delivery.Status != event.DeliveryDead {
		return event.Run{}, action.NewError("parcel_not_dead", delivery.Status)
	}
	return s.redriveRun(ctx, p, delivery.Run)
}

func (s *handlers) setEndpoint(ctx context.Context, p *dashboard.Principal, n api.NewEndpoint) (api.MintedEndpoint, error) {
	if err := s.checkEndpoint(ctx, n.URL); err != nil {
		return api.MintedEndpoint{}, err
	}
	old, err := s.Inbound.RunEndpoint(ctx, p.Organization)
	if err != nil && !errors.Is(err, action.ErrNotFound) {
		return api.MintedEndpoint{}, err
	}
	e := event.Endpoint{Organization: p.Organization, URL: n.URL, Enabled: true, UpdatedBy: p.By(), UpdatedAt: s.Now()}
	setIfGiven(&e.Enabled, n.Enabled)
	var secret *event.Secret
	shown := ""
	switch {
	case len(old.Secrets) == 0:
		var made event.Secret
		if made, shown, err = s.newSecret(p.Organization, n.Secret, true); err != nil {
			return api.MintedEndpoint{}, err
		}
		secret = &made
	case n.Secret != "":
		return api.MintedEndpoint{}, dashboard.Invalid("/secret", "The endpoint has a secret already; leave secret out, and replace it with POST /api/v1/run-endpoint/rotate.")
	}
	if e, err = s.Inbound.SetRunEndpoint(ctx, e, secret); err != nil {
		return api.MintedEndpoint{}, err
	}
	s.policyChanged(ctx, p, "run endpoint set", "url", e.URL, "enabled", e.Enabled)
	return api.MintedEndpoint{EndpointView: view.ViewEndpoint(e), Secret: shown}, nil
}

// checkEndpoint takes https, and http on this machine, of what may be reached.
func (s *handlers) checkEndpoint(ctx context.Context, text string) error {
	u, err := guard.CheckURL(text)
	switch {
	case err != nil:
		return err
	case u.Scheme != "https" && !guard.Loopback(u):
		return dashboard.Invalid("/url", fmt.Sprintf("url must be https, or http on this machine: what is delivered holds the token of a session, and %s would get it in the clear.", u.Hostname()))
	}
	return s.Guard.CheckReach(ctx, u)
}
