package dashboard

import (
	"context"
	"errors"
	"fmt"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
	"sallyport/internal/guard"
)

func (s *Server) outboxRoutes() {
	handle(s, api.ListOutbox, func(ctx context.Context, p *Principal, in *api.ParcelQuery) (api.List[event.Parcel], error) {
		page, err := s.Inbound.ListParcels(ctx, event.ParcelFilter{Organization: p.Organization, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor})
		return pageOf(page, same), err
	})
	handle(s, api.RedriveParcel, func(ctx context.Context, p *Principal, in *api.ByID) (api.RunView, error) {
		run, err := s.redriveParcel(ctx, p, in.ID)
		return s.viewRun(ctx, run, err)
	})
	s.endpointRoutes("/api/v1/run-endpoint")
}

func (s *Server) endpointRoutes(path string) {
	handle(s, api.GetRunEndpoint, func(ctx context.Context, p *Principal, _ *api.None) (api.EndpointView, error) {
		return s.runEndpoint(ctx, p)
	})
	handle(s, api.PutRunEndpoint, func(ctx context.Context, p *Principal, in *api.Body[api.NewEndpoint]) (api.MintedEndpoint, error) {
		return s.setEndpoint(ctx, p, in.Body)
	})
	handleNone(s, api.DeleteRunEndpoint, func(ctx context.Context, p *Principal, _ *api.None) error {
		if err := s.Inbound.DeleteRunEndpoint(ctx, p.Organization, p.By()); err != nil {
			return noEndpoint(err)
		}
		s.changed(ctx, p, "run endpoint removed")
		return nil
	})
	handle(s, api.RotateRunEndpoint, func(ctx context.Context, p *Principal, in *api.Body[*api.Rotation]) (api.MintedSecret, error) {
		if _, err := s.runEndpoint(ctx, p); err != nil {
			return api.MintedSecret{}, err
		}
		return s.rotate(ctx, p, EndpointSecrets, in.Body, true)
	})
}

func (s *Server) redriveParcel(ctx context.Context, p *Principal, id string) (event.Run, error) {
	parcel, err := s.Inbound.Parcel(ctx, p.Organization, id)
	if err != nil {
		return event.Run{}, err
	}
	if parcel.Status != event.ParcelDead {
		return event.Run{}, action.NewError("parcel_not_dead", parcel.Status)
	}
	return s.redriveRun(ctx, p, parcel.Run)
}

func (s *Server) runEndpoint(ctx context.Context, p *Principal) (api.EndpointView, error) {
	e, err := s.Inbound.RunEndpoint(ctx, p.Organization)
	return viewEndpoint(e), noEndpoint(err)
}

func viewEndpoint(e event.Endpoint) api.EndpointView {
	return api.EndpointView{Organization: e.Organization, URL: e.URL, Enabled: e.Enabled, UpdatedBy: e.UpdatedBy, UpdatedAt: e.UpdatedAt, Secrets: signingSecrets(e.Secrets)}
}

// noEndpoint says what else becomes of runs.
func noEndpoint(err error) error {
	if !errors.Is(err, action.ErrNotFound) {
		return err
	}
	return action.NewError("no_run_endpoint")
}

func (s *Server) setEndpoint(ctx context.Context, p *Principal, n api.NewEndpoint) (api.MintedEndpoint, error) {
	if err := s.checkEndpoint(ctx, n.URL); err != nil {
		return api.MintedEndpoint{}, err
	}
	old, err := s.Inbound.RunEndpoint(ctx, p.Organization)
	if err != nil && !errors.Is(err, action.ErrNotFound) {
		return api.MintedEndpoint{}, err
	}
	e := event.Endpoint{Organization: p.Organization, URL: n.URL, Enabled: true, UpdatedBy: p.By(), UpdatedAt: s.now()}
	set(&e.Enabled, n.Enabled)
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
		return api.MintedEndpoint{}, invalid("/secret", "The endpoint has a secret already; leave secret out, and replace it with POST /api/v1/run-endpoint/rotate.")
	}
	if e, err = s.Inbound.SetRunEndpoint(ctx, e, secret); err != nil {
		return api.MintedEndpoint{}, err
	}
	s.changed(ctx, p, "run endpoint set", "url", e.URL, "enabled", e.Enabled)
	return api.MintedEndpoint{EndpointView: viewEndpoint(e), Secret: shown}, nil
}

// checkEndpoint takes https, and http on this machine, of what may be reached.
func (s *Server) checkEndpoint(ctx context.Context, text string) error {
	u, err := guard.CheckURL(text)
	switch {
	case err != nil:
		return err
	case u.Scheme != "https" && !guard.Loopback(u):
		return invalid("/url", fmt.Sprintf("url must be https, or http on this machine: what is delivered holds the token of a session, and %s would get it in the clear.", u.Hostname()))
	}
	return s.Guard.CheckReach(ctx, u)
}
