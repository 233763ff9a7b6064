package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"testing"
)

// Setup is a gateway with an upstream behind it, the connector "demo". It
// starts with the first session that needs it, and outlives that test if the
// package shares it.
type Setup struct {
	*Gateway
	Demo  *Upstream
	Flags []string // further ones of serve

	once sync.Once
	err  error
}

func (s *Setup) open() error {
	s.once.Do(func() {
		var dir string
		if dir, s.err = os.MkdirTemp("", "gateway-"); s.err != nil {
			return
		}
		if s.Gateway, s.err = NewGateway(dir, s.Flags...); s.err != nil {
			return
		}
		if s.err = s.Start(); s.err != nil {
			return
		}
		s.Demo = StartUpstream(DemoTools()...)
		s.err = s.Connect("demo", s.Demo)
	})
	return s.err
}

// Connect adds a server as a connector with that slug.
func (s *Setup) Connect(slug string, u *Upstream) error {
	return s.Send(context.Background(), "POST", "/api/v1/connectors", Args{"name": slug, "slug": slug, "url": u.URL, "profile": "strict"}, nil)
}

// End stops what was started.
func (s *Setup) End() error {
	if s.Gateway == nil || s.cmd == nil {
		return nil
	}
	err := s.Close()
	if s.Demo != nil {
		s.Demo.Close()
	}
	return err
}

// Session is a session of an agent at a gateway, and the test that has it.
type Session struct {
	*Setup
	T     *testing.T
	ID    string
	Token string
}

// Session creates a session; fields are further ones of the request.
func (s *Setup) Session(t *testing.T, fields Args) *Session {
	t.Helper()
	SkipShort(t)
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	before := len(s.Logged())
	t.Cleanup(func() {
		if log := s.Logged()[before:]; t.Failed() && len(log) > 0 {
			t.Logf("the end of the gateway's log:\n%s", log[max(0, len(log)-4000):])
		}
	})
	body := Args{"title": t.Name()}
	for k, v := range fields {
		body[k] = v
	}
	var created struct {
		ID    string `json:"session_id"`
		Token string `json:"token"`
	}
	s.Must(t, "POST", "/api/v1/sessions", body, &created)
	return &Session{Setup: s, T: t, ID: created.ID, Token: created.Token}
}

// Alone creates a session at a gateway of its own, with further flags of serve.
func Alone(t *testing.T, fields Args, flags ...string) *Session {
	t.Helper()
	s := &Setup{Flags: flags}
	t.Cleanup(func() {
		if err := s.End(); err != nil {
			t.Error(err)
		}
	})
	return s.Session(t, fields)
}

// Send sends a request to the gateway's API as its administrator; an answer
// that is not a success is an error. The answer is decoded into out, if not nil.
func (g *Gateway) Send(ctx context.Context, method, path string, body, out any) error {
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, g.URL+path, in)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+g.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, response.StatusCode, raw)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(raw, out)
	}
	return err
}

// Must sends a request that has to succeed.
func (g *Gateway) Must(t *testing.T, method, path string, body, out any) {
	t.Helper()
	if err := g.Send(t.Context(), method, path, body, out); err != nil {
		t.Fatal(err)
	}
}

// Invocation is an invocation in the API.
type Invocation struct {
	ID         string `json:"id"`
	Action     string `json:"action"`
	Status     string `json:"status"`
	Reason     string `json:"denied_reason"`
	ApprovedBy string `json:"approved_by"`
}

// Invocations lists those of the session, the newest first.
func (s *Session) Invocations() []Invocation {
	s.T.Helper()
	var list struct {
		Items []Invocation `json:"items"`
	}
	s.Must(s.T, "GET", "/api/v1/invocations?limit=100&session="+url.QueryEscape(s.ID), nil, &list)
	return list.Items
}

// Only returns the one invocation of the session.
func (s *Session) Only() Invocation {
	s.T.Helper()
	all := s.Invocations()
	if len(all) != 1 {
		s.T.Fatalf("the session has %d invocations, not one: %+v", len(all), all)
	}
	return all[0]
}

// Held waits until a call of the session is pending, and returns its ID.
func (s *Session) Held() (id string) {
	s.T.Helper()
	Await(s.T, "a pending call", func() bool {
		for _, i := range s.Invocations() {
			if i.Status == "pending" {
				id = i.ID
			}
		}
		return id != ""
	})
	return id
}

// Becomes waits until the invocation has the status.
func (s *Session) Becomes(id, status string) (i Invocation) {
	s.T.Helper()
	Await(s.T, id+" to be "+status, func() bool {
		s.Must(s.T, "GET", "/api/v1/invocations/"+id, nil, &i)
		return i.Status == status
	})
	return i
}

// Approve approves a pending call, as a person does.
func (s *Session) Approve(id string) {
	s.T.Helper()
	s.Must(s.T, "POST", "/api/v1/invocations/"+id+"/approve", Args{}, nil)
}

// Deny denies it, with a reason.
func (s *Session) Deny(id, reason string) {
	s.T.Helper()
	s.Must(s.T, "POST", "/api/v1/invocations/"+id+"/deny", Args{"reason": reason}, nil)
}
