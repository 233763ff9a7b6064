package routes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

func (s *handlers) envRoutes() {
	dashboard.Handle(s.Server, api.ListSessionEnv, func(ctx context.Context, p *dashboard.Principal, in *api.ListSessionEnvInput) (api.List[action.EnvRequest], error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return api.List[action.EnvRequest]{}, err
		}
		page, err := s.Sessions.ListEnvRequests(ctx, action.EnvFilter{Organization: p.Organization, Session: in.Session, Limit: in.Limit, Cursor: in.Cursor})
		return view.PageOf(page, func(r action.EnvRequest) action.EnvRequest { return r }), err
	})
	dashboard.Handle(s.Server, api.PullEnv, func(ctx context.Context, p *dashboard.Principal, in *api.PullEnvInput) (api.EnvPulled, error) {
		return s.pullEnv(ctx, p, in.Key)
	})
	dashboard.Handle(s.Server, api.ListEnvRequests, func(ctx context.Context, p *dashboard.Principal, in *api.ListEnvRequestsInput) (api.List[action.EnvRequest], error) {
		page, err := s.Sessions.ListEnvRequests(ctx, action.EnvFilter{Organization: p.Organization, Session: in.Session, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor})
		return view.PageOf(page, func(r action.EnvRequest) action.EnvRequest { return r }), err
	})
	s.envRequestRoutes("/api/v1/env-requests/{id}")
}

func (s *handlers) envRequestRoutes(path string) {
	dashboard.Handle(s.Server, api.GetEnvRequest, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (action.EnvRequest, error) {
		return s.Sessions.EnvRequest(ctx, p.Organization, in.ID)
	})
	dashboard.Handle(s.Server, api.AnswerEnvRequest, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.EnvAnswer]) (action.EnvRequest, error) {
		return s.answerEnv(ctx, p, in.ID, in.Body.Values)
	})
	dashboard.Handle(s.Server, api.RefuseEnvRequest, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.EnvRefusal]) (action.EnvRequest, error) {
		v := action.EnvVerdict{Organization: p.Organization, ID: in.ID, By: p.By()}
		if in.Body != nil {
			v.Note = in.Body.Reason
		}
		return s.decideEnv(ctx, p, v, "variables refused")
	})
}

// envRef binds the sealed values to their request.
func envRef(organization, id string) action.Ref {
	return action.Ref{Organization: organization, Table: "env_requests", Row: id, Column: "sealed"}
}

func (s *handlers) answerEnv(ctx context.Context, p *dashboard.Principal, id string, values map[string]string) (action.EnvRequest, error) {
	r, err := s.Sessions.EnvRequest(ctx, p.Organization, id)
	if err != nil {
		return r, err
	}
	given := maps.Clone(values)
	maps.DeleteFunc(given, func(_, v string) bool { return v == "" }) // an empty form field
	if err := action.CheckEnvValues(r.Keys, given); err != nil {
		return r, err
	}
	plain, err := json.Marshal(given)
	if err != nil {
		return r, err
	}
	sealed, err := s.Vault.Seal(envRef(p.Organization, id), plain)
	if err != nil {
		return r, fmt.Errorf("sealing the values of request %s: %w", id, err)
	}
	return s.decideEnv(ctx, p, action.EnvVerdict{
		Organization: p.Organization, ID: id, By: p.By(), Sealed: sealed, Names: slices.Sorted(maps.Keys(given)),
	}, "variables given")
}

// decideEnv stores a verdict and notifies the waiting sandbox.
func (s *handlers) decideEnv(ctx context.Context, p *dashboard.Principal, v action.EnvVerdict, what string) (action.EnvRequest, error) {
	r, err := s.Sessions.DecideEnv(ctx, v)
	if err == nil {
		s.policyChanged(ctx, p, what, "request", r.ID)
	}
	return r, err
}

// pullEnv returns the answered variables, and which requests are open or refused.
func (s *handlers) pullEnv(ctx context.Context, p *dashboard.Principal, key string) (api.EnvPulled, error) {
	out := api.EnvPulled{Values: map[string]string{}, Pending: []string{}, Refused: []api.EnvRefused{}}
	sum := sha256.Sum256([]byte(cmp.Or(key, dashboard.NewID())))
	list, err := s.Sessions.TakeEnv(ctx, p.Organization, p.Session.ID, hex.EncodeToString(sum[:]))
	if err != nil {
		return out, err
	}
	for _, v := range list {
		plain, err := s.Vault.Open(envRef(p.Organization, v.ID), v.Sealed)
		if err != nil {
			return out, fmt.Errorf("opening the values of request %s: %w", v.ID, err)
		}
		if err := json.Unmarshal(plain, &out.Values); err != nil {
			return out, fmt.Errorf("reading the values of request %s failed", v.ID) // the cause could contain them
		}
	}
	page, err := s.Sessions.ListEnvRequests(ctx, action.EnvFilter{Organization: p.Organization, Session: p.Session.ID, Limit: maxLooked})
	if err != nil {
		return out, err
	}
	out.Pending, out.Refused = newVariables(page.Items, list, s.Now())
	return out, nil
}

// maxLooked is how many of a session's newest requests a pull reads. Only a few can
// be pending at once.
const maxLooked = 50

// newVariables returns the pending requests, and the refusals that the sandbox has
// not seen. A refusal is repeated until a later pull returned variables, or the
// same variables were requested again. Requests are newest first; handed is what
// this response returns.
func newVariables(requests []action.EnvRequest, handed []action.SealedEnv, now time.Time) (pending []string, refused []api.EnvRefused) {
	pending, refused = []string{}, []api.EnvRefused{}
	var told time.Time
	for _, r := range requests {
		before := !slices.ContainsFunc(handed, func(h action.SealedEnv) bool { return h.ID == r.ID })
		if r.TakenAt != nil && r.TakenAt.After(told) && before {
			told = *r.TakenAt
		}
	}
	again := map[string]bool{}
	for _, r := range requests {
		names := namesOf(r.Keys)
		switch {
		case r.Status == action.EnvPending && r.ExpiresAt.After(now):
			pending = append(pending, names...)
		case r.Status == action.EnvRefused && r.DecidedAt != nil && !r.DecidedAt.Before(told) && slices.ContainsFunc(names, func(n string) bool { return !again[n] }):
			refused = append(refused, api.EnvRefused{ID: r.ID, Keys: names, Reason: r.Note})
		}
		for _, n := range names {
			again[n] = true
		}
	}
	return pending, refused
}

func namesOf(keys []action.EnvKey) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Key
	}
	return names
}
