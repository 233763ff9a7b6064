package credential_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

func TestARefusedTokenIsRenewedOnce(t *testing.T) {
	h := newHouse(t)
	instances, c := []*credential.OAuth{h.instance(), h.instance()}, h.connector()
	h.signIn(instances[0], c)
	h.pass(time.Minute)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			o := instances[i%2]
			again, err := o.Refused(t.Context(), c, "access-canary-1", http.StatusUnauthorized, []string{`Bearer error="invalid_token"`})
			if err != nil || !again {
				t.Errorf("%v, %v", again, err)
			}
			if got := h.token(o, c); got != "access-canary-2" {
				t.Errorf("got %q", got)
			}
		})
	}
	all.Wait()
	if n := h.service.grants("refresh_token"); n != 1 {
		t.Errorf("%d renewals", n)
	}
	// One that has just been given would be followed by one that is no better.
	again, err := instances[0].Refused(t.Context(), c, "access-canary-2", http.StatusUnauthorized, nil)
	fails(t, err, action.ErrUnavailable, sources.FaultAuth, "has just issued")
	if n := h.service.grants("refresh_token"); again || n != 1 {
		t.Errorf("again: %v, %d renewals", again, n)
	}
}

func TestARefusedTokenThatCannotBeRenewed(t *testing.T) {
	h := newHouse(t)
	h.service.with(func(s *service) { s.noRefresh = true })
	o, c := h.instance(), h.connector()
	h.signIn(o, c)
	h.pass(time.Minute)
	again, err := o.Refused(t.Context(), c, "access-canary-1", http.StatusUnauthorized, nil)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, `must sign in to "Service" on`)
	if g := h.grant(); again || g.Status != action.OAuthReconnect {
		t.Errorf("again: %v, grant %+v", again, g)
	}
}

func TestScopesThatAreMissing(t *testing.T) {
	h := newHouse(t)
	h.service.with(func(s *service) { s.challenge = `scope="read"` })
	o, c := h.instance(), h.connector()
	h.signIn(o, c)
	challenges := []string{`Bearer error="insufficient_scope", scope="write admin"`}
	for range 2 {
		again, err := o.Refused(t.Context(), c, "access-canary-1", http.StatusForbidden, challenges)
		fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "write admin")
		if again {
			t.Error("it would be tried again")
		}
	}
	g := h.grant()
	if g.Status != action.OAuthReconnect || g.Reason == "" || g.Version != 2 {
		t.Errorf("the grant is %+v", g)
	}
	// What the token is good for goes on, and it is renewed.
	if got := h.token(o, c); got != "access-canary-1" {
		t.Errorf("got %q", got)
	}
	h.pass(time.Hour)
	if got := h.token(o, c); got != "access-canary-2" {
		t.Errorf("got %q", got)
	}
	if g := h.grant(); g.Status != action.OAuthReconnect || g.Reason == "" {
		t.Errorf("after its renewal the grant is %+v", g)
	}
	h.signIn(o, c)
	if got := h.service.authorized[1].Get("scope"); got != "write admin read" {
		t.Errorf("asked for %q", got)
	}
	if g := h.grant(); g.Status != action.OAuthConnected || g.Scope != "write admin read" {
		t.Errorf("after a new sign-in the grant is %+v", g)
	}
}

func TestRefusalsThatAreNotAboutTheToken(t *testing.T) {
	h := newHouse(t)
	o, c := h.instance(), h.connector()
	h.signIn(o, c)
	h.pass(time.Minute)
	for _, test := range []struct {
		status     int
		challenges []string
	}{
		{http.StatusForbidden, nil},
		{http.StatusForbidden, []string{`Bearer error="access_denied"`, `"`}},
		{http.StatusNotFound, []string{`Bearer error="insufficient_scope", scope="x"`}},
	} {
		if again, err := o.Refused(t.Context(), c, "access-canary-1", test.status, test.challenges); again || err != nil {
			t.Errorf("%+v: %v, %v", test, again, err)
		}
	}
	if again, err := o.Refused(t.Context(), c, "an older one", http.StatusUnauthorized, nil); !again || err != nil {
		t.Errorf("another token: %v, %v", again, err)
	}
	if g := h.grant(); g.Version != 1 || h.service.grants("refresh_token") > 0 {
		t.Errorf("the grant is %+v", g)
	}
}
