package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"sallyport/action"
)

const (
	envPath = "/api/v1/sessions/{session}/env"
	pullDoc = "Hands out, once, what people gave to the session since it was asked last. The same Idempotency-Key gets the same values again for five minutes, in case an answer was lost; then they are gone for good."
)

// EnvAnswer is what a person enters.
type EnvAnswer struct {
	Values map[string]string `json:"values" doc:"By the name of the variable. The agent can read them."`
}

// EnvRefusal is why a person enters nothing.
type EnvRefusal struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"The agent reads it." example:"Use the test account; its key is in the vault."`
}

// EnvPulled is what a sandbox gets.
type EnvPulled struct {
	Values  map[string]string `json:"values" nullable:"false"`
	Pending []string          `json:"pending" nullable:"false" doc:"Variables that a person was asked for and did not answer yet."`
	Refused []EnvRefused      `json:"refused" nullable:"false" doc:"Requests that people refused since the sandbox took something last; not of what was asked for again."`
}

// EnvRefused is a request that a person refused.
type EnvRefused struct {
	ID     string   `json:"id"`
	Keys   []string `json:"keys" nullable:"false"`
	Reason string   `json:"reason,omitempty"`
}

func (s *Server) envRoutes() {
	register(s, route{
		method: "GET", path: envPath, tag: "env", summary: "List what variables the session asked for, newest first",
	}, func(ctx context.Context, p *Principal, in *struct {
		InSession
		Paging
	},
	) (*body[List[action.EnvRequest]], error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return nil, err
		}
		page, err := s.Env.ListEnvRequests(ctx, action.EnvFilter{Organization: p.Organization, Session: in.Session, Limit: in.Limit, Cursor: in.Cursor})
		return pageOf(page, func(r action.EnvRequest) action.EnvRequest { return r }), err
	})
	register(s, route{
		method: "POST", path: envPath + "/pull", tag: "env", summary: "Take the variables that people gave", status: http.StatusOK, doc: pullDoc,
	}, func(ctx context.Context, p *Principal, in *struct {
		InSession
		Key string `header:"Idempotency-Key" maxLength:"255" doc:"Of this attempt to take them; without it a lost answer is lost."`
	},
	) (*body[EnvPulled], error) {
		got, err := s.pullEnv(ctx, p, in.Key)
		return bodyOf(got), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/env-requests", tag: "env", summary: "List agents' requests for environment variables, newest first",
	}, func(ctx context.Context, p *Principal, in *struct {
		Paging
		Status  action.EnvStatus `query:"status" enum:"pending,answered,taken,refused,expired"`
		Session string           `query:"session"`
	},
	) (*body[List[action.EnvRequest]], error) {
		page, err := s.Env.ListEnvRequests(ctx, action.EnvFilter{Organization: p.Organization, Session: in.Session, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor})
		return pageOf(page, func(r action.EnvRequest) action.EnvRequest { return r }), err
	})
	s.envRequestRoutes("/api/v1/env-requests/{id}")
}

func (s *Server) envRequestRoutes(path string) {
	late := []int{http.StatusConflict, http.StatusGone}
	register(s, route{
		method: "GET", path: path, tag: "env", summary: "Read a request for environment variables",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[action.EnvRequest], error) {
		r, err := s.Env.EnvRequest(ctx, p.Organization, in.ID)
		return bodyOf(r), err
	})
	register(s, route{
		method: "POST", path: path + "/answer", tag: "env", summary: "Give an agent the variables that it asked for", status: http.StatusOK, errors: late,
		doc: "The values are sealed, handed to the session's sandbox once, and never shown. The agent can read them.",
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body EnvAnswer
	},
	) (*body[action.EnvRequest], error) {
		r, err := s.answerEnv(ctx, p, in.ID, in.Body.Values)
		return bodyOf(r), err
	})
	register(s, route{
		method: "POST", path: path + "/refuse", tag: "env", summary: "Refuse a request for environment variables", status: http.StatusOK, errors: late,
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body *EnvRefusal
	},
	) (*body[action.EnvRequest], error) {
		v := action.EnvVerdict{Organization: p.Organization, ID: in.ID, By: p.By()}
		if in.Body != nil {
			v.Note = in.Body.Reason
		}
		r, err := s.decideEnv(ctx, p, v, "variables refused")
		return bodyOf(r), err
	})
}

// envRef is what the values of a request are sealed for.
func envRef(organization, id string) action.Ref {
	return action.Ref{Organization: organization, Table: "env_requests", Row: id, Column: "sealed"}
}

func (s *Server) answerEnv(ctx context.Context, p *Principal, id string, values map[string]string) (action.EnvRequest, error) {
	r, err := s.Env.EnvRequest(ctx, p.Organization, id)
	if err != nil {
		return r, err
	}
	given := maps.Clone(values)
	maps.DeleteFunc(given, func(_, v string) bool { return v == "" }) // a field that was left empty
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

// decideEnv writes a verdict down, and tells whoever waits.
func (s *Server) decideEnv(ctx context.Context, p *Principal, v action.EnvVerdict, what string) (action.EnvRequest, error) {
	r, err := s.Env.DecideEnv(ctx, v)
	if err == nil {
		s.changed(ctx, p, what, "request", r.ID)
	}
	return r, err
}

// pullEnv hands out what was answered, and says what was not.
func (s *Server) pullEnv(ctx context.Context, p *Principal, key string) (EnvPulled, error) {
	out := EnvPulled{Values: map[string]string{}, Pending: []string{}, Refused: []EnvRefused{}}
	sum := sha256.Sum256([]byte(or(key, newID())))
	list, err := s.Env.TakeEnv(ctx, p.Organization, p.Session.ID, hex.EncodeToString(sum[:]))
	if err != nil {
		return out, err
	}
	for _, v := range list {
		plain, err := s.Vault.Open(envRef(p.Organization, v.ID), v.Sealed)
		if err != nil {
			return out, fmt.Errorf("opening the values of request %s: %w", v.ID, err)
		}
		if err := json.Unmarshal(plain, &out.Values); err != nil {
			return out, fmt.Errorf("reading the values of request %s failed", v.ID) // the cause could show them
		}
	}
	page, err := s.Env.ListEnvRequests(ctx, action.EnvFilter{Organization: p.Organization, Session: p.Session.ID, Limit: maxLooked})
	if err != nil {
		return out, err
	}
	out.Pending, out.Refused = envNews(page.Items, list, s.now())
	return out, nil
}

// maxLooked is how many of a session's requests a pull looks at, from the newest
// one. Few of them can wait at once.
const maxLooked = 50

// envNews are what waits for a person, and the refusals that the sandbox does not
// know yet: one is told until something was taken after it, or what was refused
// was asked for again. Requests are newest first; handed are those of this answer.
func envNews(requests []action.EnvRequest, handed []action.SealedEnv, now time.Time) (pending []string, refused []EnvRefused) {
	pending, refused = []string{}, []EnvRefused{}
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
			refused = append(refused, EnvRefused{ID: r.ID, Keys: names, Reason: r.Note})
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
