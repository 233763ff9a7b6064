package credential_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

func TestATokenIsRenewedOnceForAll(t *testing.T) {
	h := newHouse(t)
	instances, c := []*credential.OAuth{h.instance(), h.instance()}, h.connector()
	h.signIn(instances[0], c)
	h.token(instances[1], c)
	h.pass(time.Hour + time.Second) // it has ended: all must wait for the new one
	h.service.with(func(s *service) { s.delay = 50 * time.Millisecond })
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if got, _, err := instances[i%2].Token(t.Context(), c); err != nil || got != "access-canary-2" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	all.Wait()
	if n := h.service.grants("refresh_token"); n != 1 {
		t.Errorf("%d renewals", n)
	}
	// The refresh token was replaced, and its successor is used.
	h.pass(time.Hour - 30*time.Second)
	if got := h.token(instances[1], c); got != "access-canary-3" {
		t.Errorf("before its end: %q", got)
	}
}

func TestATokenInUseSpansARenewal(t *testing.T) {
	h := newHouse(t)
	o, c := h.instance(), h.connector()
	h.signIn(o, c)
	h.pass(time.Hour - 30*time.Second)
	asked, answer := make(chan struct{}), make(chan struct{})
	h.service.with(func(s *service) {
		s.token = func(w http.ResponseWriter, _ *http.Request) { close(asked); <-answer; s.issue(w, false) }
	})
	var all sync.WaitGroup
	all.Go(func() {
		if got := h.token(o, c); got != "access-canary-2" {
			t.Errorf("the one who renews has %q", got)
		}
	})
	<-asked
	if got := h.token(o, c); got != "access-canary-1" {
		t.Errorf("another has %q meanwhile", got)
	}
	close(answer)
	all.Wait()
}

// A caller who leaves is gone at once, whoever renews, and must not take along a
// refresh token that is good once.
func TestARenewalOutlivesItsCaller(t *testing.T) {
	h := newHouse(t)
	o, c := h.instance(), h.connector()
	h.signIn(o, c)
	h.pass(2 * time.Hour)
	asked, answer := make(chan struct{}), make(chan struct{})
	h.service.with(func(s *service) {
		s.token = func(w http.ResponseWriter, _ *http.Request) { close(asked); <-answer; s.issue(w, false) }
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	for range 2 {
		go func() {
			_, _, err := o.Token(ctx, c)
			left <- err
		}()
	}
	<-asked
	leave()
	for range 2 {
		err := <-left
		told(t, err, sources.FaultTimeout)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("left by %v", err)
		}
	}
	closed := make(chan error)
	go func() { closed <- o.Close() }()
	select {
	case err := <-closed:
		t.Errorf("what is under way is not waited for (%v)", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(answer)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if got := h.token(h.instance(), c); got != "access-canary-2" || h.service.grants("refresh_token") != 1 {
		t.Errorf("stored is %q after %d renewals", got, h.service.grants("refresh_token"))
	}
	h.pass(2 * time.Hour)
	_, _, err := o.Token(t.Context(), c)
	told(t, err, sources.FaultCredential)
}

// A gateway that stops does not wait for its turn behind another.
func TestCloseWaitsForNoLock(t *testing.T) {
	h := newHouse(t)
	waits := make(chan struct{})
	o, c := h.instance(func(c *credential.Config) {
		c.Lock = func(ctx context.Context, _ string) (func(), error) { close(waits); <-ctx.Done(); return nil, ctx.Err() }
	}), h.connector()
	h.signIn(h.instance(), c)
	h.pass(2 * time.Hour)
	left := make(chan error)
	go func() {
		_, _, err := o.Token(t.Context(), c)
		left <- err
	}()
	<-waits
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	told(t, <-left, sources.FaultTimeout)
}

// However many need a token at a time, its row is read once.
func TestARowIsReadOnceForAll(t *testing.T) {
	h := newHouse(t)
	o, c := h.instance(), h.connector()
	h.signIn(o, c)
	h.pass(time.Minute)
	begun, end := make(chan struct{}, 100), make(chan struct{})
	h.reading = func() { begun <- struct{}{}; <-end }
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { // whose read it is
		_, _, err := o.Token(ctx, c)
		left <- err
	}()
	<-begun
	leave()
	if err := <-left; err == nil {
		t.Error("got a token that nobody read")
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := h.token(o, c); got != "access-canary-1" {
				t.Errorf("got %q", got)
			}
		})
	}
	time.Sleep(20 * time.Millisecond) // those who do not wait would read now
	close(end)
	all.Wait()
	h.token(o, c)
	if n := 1 + len(begun); n != 1 {
		t.Errorf("read %d times", n)
	}
	h.pass(time.Second)
	h.token(o, c)
	if n := len(begun); n != 1 {
		t.Errorf("read %d times in the next second", n)
	}
}

func TestRenewedTokensSurviveABadWrite(t *testing.T) {
	h := newHouse(t)
	o, c := h.instance(), h.connector()
	h.signIn(o, c)
	h.pass(2 * time.Hour)
	h.broken = 2
	if got := h.token(o, c); got != "access-canary-2" {
		t.Errorf("got %q", got)
	}
}

func TestASignInThatEnds(t *testing.T) {
	for _, code := range []string{"invalid_grant", "invalid_client", "bad_refresh_token", "no refresh token"} {
		t.Run(code, func(t *testing.T) {
			h := newHouse(t)
			o, c := h.instance(), h.connector()
			h.service.with(func(s *service) { s.noRefresh = code == "no refresh token" })
			h.signIn(o, c)
			h.service.with(func(s *service) {
				s.token = func(w http.ResponseWriter, _ *http.Request) { refuse(w, code) }
			})
			h.pass(time.Hour)
			says := code
			if code == "no refresh token" {
				says = "there is no refresh token"
			}
			for range 3 {
				_, _, err := o.Token(t.Context(), c)
				fails(t, err, action.ErrUnavailable, sources.FaultReconnect, says)
				fails(t, err, action.ErrUnavailable, sources.FaultReconnect, `must sign in to "Service" on`)
				h.pass(time.Minute)
			}
			if n := h.service.grants("refresh_token"); n > 1 {
				t.Errorf("a dead token was tried %d times", n)
			}
			if g := h.grant(); g.Status != action.OAuthReconnect || g.Reason == "" || g.ExpiresAt != nil {
				t.Errorf("the grant is %+v", g)
			}
			h.service.with(func(s *service) { s.token = nil })
			h.signIn(o, c)
			h.token(o, c)
			if g := h.grant(); g.Status != action.OAuthConnected || g.Reason != "" {
				t.Errorf("after a new sign-in it is %+v", g)
			}
			if registered := len(h.service.registered); (registered == 2) != (code == "invalid_client") {
				t.Errorf("the gateway was registered %d times", registered)
			}
		})
	}
}

func TestAnAuthorizationServerThatIsAway(t *testing.T) {
	for name, token := range map[string]http.HandlerFunc{
		"it fails":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"it is silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"it is busy":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"it says too much": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(append([]byte(`{"access_token":"`), make([]byte, 65<<10)...))
		},
		"it redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/revoke", http.StatusTemporaryRedirect)
		},
		"it says nothing of use": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"its token is no bearer token": func(w http.ResponseWriter, _ *http.Request) {
			document(w, map[string]any{"access_token": "x", "token_type": "DPoP"}, nil)
		},
		"its token breaks lines": func(w http.ResponseWriter, _ *http.Request) {
			document(w, map[string]any{"access_token": "x\r\ny", "token_type": "Bearer"}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			o, c := h.instance(func(c *credential.Config) { c.Timeout = 100 * time.Millisecond }), h.connector()
			h.signIn(o, c)
			h.service.with(func(s *service) { s.token = token })
			h.pass(time.Hour - 30*time.Second)
			for range 5 {
				if got := h.token(o, c); got != "access-canary-1" {
					t.Errorf("while the token is good: %q", got)
				}
			}
			if n := h.service.grants("refresh_token"); n != 1 {
				t.Errorf("the server was asked %d times in a moment", n)
			}
			h.pass(time.Minute)
			if _, _, err := o.Token(t.Context(), c); err == nil {
				t.Error("an ended token was given")
			}
			if g := h.grant(); g.Status != action.OAuthConnected || len(h.service.revoked) > 0 {
				t.Errorf("the grant is %+v; elsewhere %q was sent", g, h.service.revoked)
			}
			h.service.with(func(s *service) { s.token = nil })
			h.pass(time.Minute)
			if got := h.token(o, c); got != "access-canary-2" {
				t.Errorf("when the server is back: %q", got)
			}
		})
	}
}

func TestLivesOfTokens(t *testing.T) {
	for _, test := range []struct {
		life any
		good time.Duration // it is not renewed so long
		due  time.Duration // and is then; zero: never
	}{
		{3600, 3539 * time.Second, 3540 * time.Second},
		{"3600", 3539 * time.Second, 3540 * time.Second},
		{10, 4 * time.Second, 5 * time.Second},
		{nil, 100 * 24 * time.Hour, 0},
		{0, 100 * 24 * time.Hour, 0},
		{-5, 100 * 24 * time.Hour, 0},
		{"soon", 100 * 24 * time.Hour, 0},
		{1e300, 360 * 24 * time.Hour, 366 * 24 * time.Hour},
	} {
		h := newHouse(t)
		o, c := h.instance(), h.connector()
		h.service.with(func(s *service) { s.life = test.life })
		h.signIn(o, c)
		h.pass(test.good)
		if got := h.token(o, c); got != "access-canary-1" {
			t.Errorf("%v: after %s it is %q", test.life, test.good, got)
		}
		if test.due == 0 {
			continue
		}
		h.pass(test.due - test.good)
		if got := h.token(o, c); got != "access-canary-2" {
			t.Errorf("%v: after %s it is %q", test.life, test.due, got)
		}
	}
}

func TestATokenIsForItsConnectorAsItWas(t *testing.T) {
	for name, change := range map[string]func(c *action.Connector){
		"another host":   func(c *action.Connector) { c.URL = "https://elsewhere.example/mcp" },
		"another port":   func(c *action.Connector) { c.URL = "http://127.0.0.1:1/mcp" },
		"another path":   func(c *action.Connector) { c.URL = strings.Replace(c.URL, "/mcp", "/other", 1) },
		"a like path":    func(c *action.Connector) { c.URL += "2" },
		"a path below":   func(c *action.Connector) { c.URL += "/other" },
		"a way around":   func(c *action.Connector) { c.URL += "/../other" },
		"another scheme": func(c *action.Connector) { c.URL = strings.Replace(c.URL, "http:", "https:", 1) },
		"another client": func(c *action.Connector) { c.OAuth.ClientID = "mine" },
		"another issuer": func(c *action.Connector) { c.OAuth.Issuer = "https://elsewhere.example" },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			o, c := h.instance(), h.connector()
			h.signIn(o, c)
			change(&c)
			for range 2 { // before it ended, and after
				token, _, err := o.Token(t.Context(), c)
				fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "has changed")
				if token != "" {
					t.Errorf("got %q", token)
				}
				h.pass(2 * time.Hour)
			}
			if again, err := o.Refused(t.Context(), c, "access-canary-1", http.StatusUnauthorized, nil); again || err == nil {
				t.Errorf("%v, %v", again, err)
			}
			if n := h.service.grants("refresh_token"); n > 0 {
				t.Error("the refresh token was sent")
			}
		})
	}
}

// A token for a whole host, or for some of its paths, goes to all of these.
func TestATokenIsForAllOfItsResource(t *testing.T) {
	for resource, urls := range map[string]map[string]bool{
		"":     {"/mcp/?x=y": true, "/mcp#": true, "/other": true, "/": true, "": true},
		"/mcp": {"/mcp/": true, "/mcp?x=y": true, "/mcp/b": false, "/": false},
	} {
		h := newHouse(t)
		h.service.with(func(s *service) {
			s.resource["resource"], s.resourceAt = s.mcp.URL+resource, "/.well-known/oauth-protected-resource"+resource
			s.token = func(w http.ResponseWriter, _ *http.Request) { s.issue(w, false) }
		})
		o, c := h.instance(), h.connector()
		h.signIn(o, c)
		for url, want := range urls {
			c.URL = h.service.mcp.URL + url
			if _, _, err := o.Token(t.Context(), c); (err == nil) != want {
				t.Errorf("a token for %q, sent to %q: %v", resource, url, err)
			}
		}
	}
}

func TestWhatIsOfAResource(t *testing.T) {
	for server, want := range map[string]bool{
		"https://a.example/t/": true, "https://A.example:443/t/b": true, "https://a.example/t/b/../c": true, "https://a.example/t?x": true,
		"https://a.example/t/../b": false, "https://a.example/t/%2e%2e/b": false, "https://a.example/t/b%2F..%2F..%2Fc": false,
		"https://a.example/tb": false, "https://a.example/": false, "http://a.example/t": false, "https://a.example:8443/t": false, "https://b.example/t": false,
	} {
		if got := credential.Within(server, "https://a.example/t"); got != want {
			t.Errorf("%s: %t", server, got)
		}
	}
}

// Our own failures are no sign-in that ended.
func TestRowsAndLocksThatAreAway(t *testing.T) {
	h := newHouse(t)
	away := errors.New("canary: the database is away")
	o, c := h.instance(func(c *credential.Config) {
		c.Lock = func(context.Context, string) (func(), error) { return nil, away }
	}), h.connector()
	h.signIn(h.instance(), c)
	h.pass(time.Hour - 30*time.Second)
	if got := h.token(o, c); got != "access-canary-1" {
		t.Errorf("while the token is good: %q", got)
	}
	h.pass(time.Minute)
	_, _, err := o.Token(t.Context(), c)
	told(t, err, sources.FaultTimeout)

	h.gone = away
	_, _, err = h.instance().Token(t.Context(), c)
	told(t, err, sources.FaultCredential)
	if n := h.service.grants("refresh_token"); n > 0 {
		t.Errorf("%d renewals", n)
	}
}

// told checks an error of ours, whose cause is for the log.
func told(t *testing.T, err error, code string) {
	t.Helper()
	var e *action.Error
	if !errors.As(err, &e) || !errors.Is(err, action.ErrUnavailable) || e.Code != code || strings.Contains(e.Message, "canary") {
		t.Errorf("got %v; want %q", err, code)
	}
}
