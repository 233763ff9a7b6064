package credential_test

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

func TestSignIn(t *testing.T) {
	h := newHouse(t)
	h.service.with(func(s *service) { s.challenge = `scope="read write"` })
	o, c := h.instance(), h.connector()
	_, _, err := o.Token(t.Context(), c)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "has no sign-in yet")

	authorize, _, err := o.Begin(t.Context(), c, "ann")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(authorize)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "client-1", "redirect_uri": callback, "code_challenge_method": "S256",
		"resource": h.service.url(), "scope": "read write",
	} {
		if got := q.Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if len(q.Get("state")) < 40 || len(q.Get("code_challenge")) != 43 {
		t.Errorf("state %q, challenge %q", q.Get("state"), q.Get("code_challenge"))
	}
	// Another instance may be the one to which the person comes back.
	if id, err := finish(t, h.instance(), "ann", h.visit(authorize)); err != nil || id != "c1" {
		t.Fatal(id, err)
	}
	h.pass(time.Second)
	token, host, err := o.Token(t.Context(), c)
	if at, _ := url.Parse(h.service.url()); err != nil || token != "access-canary-1" || host != at.Host {
		t.Errorf("got %q for %q: %v", token, host, err)
	}
	g := h.grant()
	if g.Status != action.OAuthConnected || g.By != "ann" || g.Issuer != h.service.issuer() || g.ClientID != "client-1" || g.Scope != "read write" || g.ExpiresAt == nil {
		t.Errorf("the grant is %+v", g)
	}
	if got := h.service.proofs; len(got) != 1 || got[0] != "basic client-1 registered-canary" {
		t.Errorf("the client proved itself by %q", got)
	}
}

func TestSignInsThatAreRefused(t *testing.T) {
	other, slash, none := "https://elsewhere.example", "/", ""
	for name, test := range map[string]struct {
		before func(s *service)
		change func(h *house, q url.Values)
		org    string
		by     string
		kind   error
		says   string
	}{
		"another state":        {change: func(_ *house, q url.Values) { q.Set("state", "guessed") }, kind: action.ErrInvalid, says: "Start again"},
		"no state":             {change: func(_ *house, q url.Values) { q.Del("state") }, kind: action.ErrInvalid, says: "Start again"},
		"another person":       {by: "bob", kind: action.ErrForbidden, says: "Another person"},
		"another organization": {org: "org2", kind: action.ErrForbidden, says: "Another person"},
		"too late":             {change: func(h *house, _ url.Values) { h.pass(10 * time.Minute) }, kind: action.ErrInvalid, says: "has expired"},
		"another issuer":       {before: func(s *service) { s.iss = &other }, kind: action.ErrInvalid, says: "not from the expected authorization server"},
		"no issuer":            {before: func(s *service) { s.iss = &none }, kind: action.ErrInvalid, says: "not from the expected authorization server"},
		"an issuer that was not promised": {before: func(s *service) {
			s.iss, s.meta["authorization_response_iss_parameter_supported"] = &other, nil
		}, kind: action.ErrInvalid, says: "not from the expected authorization server"},
		"almost the issuer":    {before: func(s *service) { slash = s.issuer() + "/"; s.iss = &slash }, kind: action.ErrInvalid, says: "not from the expected authorization server"},
		"a refusal":            {before: func(s *service) { s.problem = "access_denied" }, kind: action.ErrInvalid, says: "access_denied"},
		"a refusal of another": {before: func(s *service) { s.problem, s.iss = "access_denied", &other }, kind: action.ErrInvalid, says: "not from the expected authorization server"},
		"an odd refusal":       {before: func(s *service) { s.problem = "<b>canary" }, kind: action.ErrInvalid, says: "an unknown error"},
		"no code":              {change: func(_ *house, q url.Values) { q.Del("code") }, kind: action.ErrInvalid, says: "no code"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			o := h.instance()
			if test.before != nil {
				h.service.with(test.before)
			}
			authorize, _, err := o.Begin(t.Context(), h.connector(), "ann")
			if err != nil {
				t.Fatal(err)
			}
			q := h.visit(authorize)
			again := url.Values{}
			for name := range q {
				again.Set(name, q.Get(name))
			}
			if test.change != nil {
				test.change(h, q)
			}
			org, by := "org", "ann"
			if test.org != "" {
				org = test.org
			}
			if test.by != "" {
				by = test.by
			}
			_, err = o.Finish(t.Context(), org, by, q.Get("state"), q.Get("code"), q.Get("iss"), q.Get("error"))
			code := "oauth_flow"
			if name == "another state" || name == "no state" || name == "too late" {
				code = "no_such_sign_in"
			}
			fails(t, err, test.kind, code, test.says)
			if n := h.service.grants("authorization_code"); n > 0 {
				t.Error("the code was sent")
			}
			if len(h.grants) > 0 {
				t.Error("there are tokens")
			}
			// Whatever was wrong, the sign-in is over once its state was seen.
			if q.Get("state") == again.Get("state") {
				_, err = finish(t, o, "ann", again)
				fails(t, err, action.ErrInvalid, "no_such_sign_in", "Start again")
			}
		})
	}
}

func TestACodeIsRedeemedOnce(t *testing.T) {
	h := newHouse(t)
	instances := []*credential.OAuth{h.instance(), h.instance()}
	authorize, _, err := instances[0].Begin(t.Context(), h.connector(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	q := h.visit(authorize)
	var won atomic.Int32
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			_, err := finish(t, instances[i%2], "ann", q)
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, action.ErrInvalid) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || h.service.grants("authorization_code") != 1 {
		t.Errorf("%d won, %d codes were sent", won.Load(), h.service.grants("authorization_code"))
	}
}

// The server may not trust us with what it echoes.
func TestNothingOfAnAnswerIsTold(t *testing.T) {
	h := newHouse(t)
	o := h.instance()
	h.service.with(func(s *service) {
		s.token = echo
	})
	authorize, _, err := o.Begin(t.Context(), h.connector(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	q := h.visit(authorize)
	_, err = finish(t, o, "ann", q)
	fails(t, err, action.ErrUnavailable, sources.FaultAuth, "an unknown error")
	verifier := h.service.asked[0].Get("code_verifier")
	for _, secret := range []string{verifier, q.Get("code"), q.Get("state")} {
		if secret == "" || strings.Contains(err.Error(), secret) || strings.Contains(h.log.String(), secret) {
			t.Errorf("%q is told", secret)
		}
	}
}
