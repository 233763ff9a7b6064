package connector_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// TestAbandonedHandshake has an agent go away while hands are shaken for it:
// the session that nobody uses ends, as any that is idle.
func TestAbandonedHandshake(t *testing.T) {
	front, u, list := keeping(t, false)
	greeted, release := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, r := read(t, r)
		if strings.Contains(body, `"initialize"`) && len(u.received("initialize")) == 1 {
			close(greeted)
			<-release
		}
		front.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	s := open(t, slow.URL, func(c *connector.Config) { c.PerAgent, c.IdleAgent = true, time.Millisecond })
	if _, err := s.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			_, err := s.Call(ctx, "tool", nil, &caller{session: "a"})
			wantFault(t, err, action.ErrUnavailable, "interrupted")
		})
	}
	<-greeted
	leave()
	group.Wait()
	close(release)
	wait(t, "the session ends", func() bool { return slices.Equal(list.over(), []string{"session-2"}) })
}

// TestDroppedSessionEnds has the listener find that a session is of no use,
// which nobody else uses: the server is told.
func TestDroppedSessionEnds(t *testing.T) {
	front, u, list := keeping(t, false)
	u.offer(`{"tools":{"listChanged":true}}`)
	var streams atomic.Int64
	missing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && streams.Add(1) == 1 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		front.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(missing.Close)
	s := open(t, missing.URL, func(c *connector.Config) { c.Backoff = time.Millisecond })
	if err := s.Listen(t.Context(), func(sources.Notice) {}); err != nil {
		t.Fatal(err)
	}
	wait(t, "the first session ends, and it alone", func() bool { return slices.Equal(list.over(), []string{"session-1"}) })
}

// TestCallsAreListed where a stream of their own needs them, and not on the
// session that all share.
func TestCallsAreListed(t *testing.T) {
	for _, own := range []bool{false, true} {
		var s *connector.Source
		var during atomic.Int64
		u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
			if r.Method == http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			during.Store(int64(s.Listed()))
			respond(w, p, `{"content":[]}`)
		})
		s = open(t, u.URL, func(c *connector.Config) { c.PerAgent = own })
		if _, err := s.Call(t.Context(), "tool", nil, &caller{session: "a"}); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int64{true: 1}[own]; during.Load() != want || s.Listed() != 0 {
			t.Errorf("a session of its own: %t; %d calls were listed, want %d; %d are left", own, during.Load(), want, s.Listed())
		}
	}
}
