package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/guard"
)

// NewEndpoint is where runs are to be delivered.
type NewEndpoint struct {
	URL     string `json:"url" minLength:"1" maxLength:"2048" doc:"https, or http on this machine." example:"https://agents.example.com/runs"`
	Enabled *bool  `json:"enabled,omitempty" nullable:"false" doc:"Default true. While it is disabled, runs wait to be claimed."`
	Secret  string `json:"secret,omitempty" minLength:"16" maxLength:"512" writeOnly:"true" doc:"The first one, that deliveries are signed with; absent: one is made and answered. Of an endpoint that is there, it is rotated."`
}

// EndpointView is where runs are delivered.
type EndpointView struct {
	Organization string          `json:"organization_id"`
	URL          string          `json:"url" example:"https://agents.example.com/runs"`
	Enabled      bool            `json:"enabled"`
	UpdatedBy    string          `json:"updated_by"`
	UpdatedAt    time.Time       `json:"updated_at"`
	Secrets      []SigningSecret `json:"secrets" nullable:"false" doc:"Those that are good, the newest first, without their values."`
}

// MintedEndpoint is where runs are delivered, with its first secret.
type MintedEndpoint struct {
	EndpointView
	Secret string `json:"secret,omitempty" doc:"Shown once, where it is new." example:"whsec_…"`
}

// ParcelQuery is the query of a list of parcels.
type ParcelQuery struct {
	Paging
	Status event.ParcelStatus `query:"status" enum:"pending,sending,delivered,dead,void" doc:"dead: the endpoint did not take it in time."`
}

func (s *Server) outboxRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/outbox", tag: "outbox", summary: "List deliveries of runs, newest first",
	}, func(ctx context.Context, p *Principal, in *ParcelQuery) (*body[List[event.Parcel]], error) {
		page, err := s.Runs.ListParcels(ctx, event.ParcelFilter{Organization: p.Organization, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor})
		return pageOf(page, same), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/outbox/{id}/redrive", tag: "outbox", summary: "Deliver a run again that its endpoint did not take", status: http.StatusOK,
		doc: "Its run is queued anew.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[RunView], error) {
		run, err := s.redriveParcel(ctx, p, in.ID)
		return s.viewRun(ctx, run, err)
	})
	s.endpointRoutes("/api/v1/run-endpoint")
}

func (s *Server) endpointRoutes(path string) {
	register(s, route{
		method: "GET", path: path, tag: "outbox", summary: "Say where runs are delivered", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, p *Principal, _ *none) (*body[EndpointView], error) {
		e, err := s.runEndpoint(ctx, p)
		return bodyOf(e), err
	})
	register(s, route{
		method: "PUT", path: path, tag: "outbox", summary: "Have runs delivered", status: http.StatusOK,
		doc: "Each is posted as it is queued, signed by Standard Webhooks, with retries for a day; whoever takes it has claimed it.",
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewEndpoint }) (*body[MintedEndpoint], error) {
		e, err := s.setEndpoint(ctx, p, in.Body)
		return bodyOf(e), err
	})
	register(s, route{
		method: "DELETE", path: path, tag: "outbox", summary: "Have runs claimed alone", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, p *Principal, _ *none) (*empty, error) {
		if err := s.Runs.DeleteRunEndpoint(ctx, p.Organization, p.By()); err != nil {
			return nil, noEndpoint(err)
		}
		s.changed(ctx, p, "run endpoint removed")
		return nil, nil
	})
	register(s, route{
		method: "POST", path: path + "/rotate", tag: "outbox", summary: "Replace the secret that deliveries of runs are signed with", status: http.StatusOK,
		doc: "Deliveries are signed with those before, too, as long as they are kept.", errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct{ Body *Rotation }) (*body[MintedSecret], error) {
		if _, err := s.runEndpoint(ctx, p); err != nil {
			return nil, err
		}
		secret, err := s.rotate(ctx, p, EndpointSecrets, in.Body, true)
		return bodyOf(secret), err
	})
}

func (s *Server) redriveParcel(ctx context.Context, p *Principal, id string) (event.Run, error) {
	parcel, err := s.Runs.Parcel(ctx, p.Organization, id)
	if err != nil {
		return event.Run{}, err
	}
	if parcel.Status != event.ParcelDead {
		return event.Run{}, action.Errorf(action.ErrConflict, "parcel_not_dead", "Only what an endpoint did not take is delivered again, and this is %s; redrive its run where that failed.", parcel.Status)
	}
	return s.redriveRun(ctx, p, parcel.Run)
}

func (s *Server) runEndpoint(ctx context.Context, p *Principal) (EndpointView, error) {
	e, err := s.Runs.RunEndpoint(ctx, p.Organization)
	return viewEndpoint(e), noEndpoint(err)
}

func viewEndpoint(e event.Endpoint) EndpointView {
	return EndpointView{e.Organization, e.URL, e.Enabled, e.UpdatedBy, e.UpdatedAt, signingSecrets(e.Secrets)}
}

// noEndpoint says what else becomes of runs.
func noEndpoint(err error) error {
	if !errors.Is(err, action.ErrNotFound) {
		return err
	}
	return action.Errorf(action.ErrNotFound, "no_run_endpoint", "Runs are delivered nowhere, they wait to be claimed; set an endpoint with PUT /api/v1/run-endpoint.")
}

func (s *Server) setEndpoint(ctx context.Context, p *Principal, n NewEndpoint) (MintedEndpoint, error) {
	if err := s.checkEndpoint(ctx, n.URL); err != nil {
		return MintedEndpoint{}, err
	}
	old, err := s.Runs.RunEndpoint(ctx, p.Organization)
	if err != nil && !errors.Is(err, action.ErrNotFound) {
		return MintedEndpoint{}, err
	}
	e := event.Endpoint{Organization: p.Organization, URL: n.URL, Enabled: true, UpdatedBy: p.By(), UpdatedAt: s.now()}
	set(&e.Enabled, n.Enabled)
	var secret *event.Secret
	shown := ""
	switch {
	case len(old.Secrets) == 0:
		var made event.Secret
		if made, shown, err = s.newSecret(p.Organization, n.Secret, true); err != nil {
			return MintedEndpoint{}, err
		}
		secret = &made
	case n.Secret != "":
		return MintedEndpoint{}, invalid("/secret", "The endpoint has a secret already; leave secret out, and replace it with POST /api/v1/run-endpoint/rotate.")
	}
	if e, err = s.Runs.SetRunEndpoint(ctx, e, secret); err != nil {
		return MintedEndpoint{}, err
	}
	s.changed(ctx, p, "run endpoint set", "url", e.URL, "enabled", e.Enabled)
	return MintedEndpoint{EndpointView: viewEndpoint(e), Secret: shown}, nil
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
