package connector_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSlowLevel has a server that takes its time to set a level: who calls
// meanwhile does not wait for that.
func TestSlowLevel(t *testing.T) {
	begun, second := make(chan struct{}), make(chan struct{})
	var late atomic.Bool
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		switch {
		case p.Method == "logging/setLevel":
			close(begun)
			select {
			case <-second:
			case <-r.Context().Done():
				late.Store(true)
			}
		case p.Params.Name == "second":
			close(second)
		}
		respond(w, p, `{"content":[]}`)
	})
	u.offer(offersAll)
	s := open(t, u.URL, nil)
	call := func(name string) {
		if _, err := s.Call(t.Context(), name, nil, &caller{level: "info"}); err != nil {
			t.Error(err)
		}
	}
	var group sync.WaitGroup
	group.Go(func() { call("first") })
	<-begun
	call("second")
	group.Wait()
	if late.Load() {
		t.Error("the second call waited until the level was set, or was given up")
	}
}

// TestLevelThatHangs costs the first call of the session a moment, and others
// nothing.
func TestLevelThatHangs(t *testing.T) {
	for name, set := range map[string]http.HandlerFunc{
		"hangs":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
				if p.Method == "logging/setLevel" {
					set(w, r)
					return
				}
				respond(w, p, `{"content":[]}`)
			})
			u.offer(offersAll)
			s := open(t, u.URL, nil)
			for _, level := range []string{"warning", "warning", "info", "debug"} {
				if _, err := s.Call(t.Context(), "tool", nil, &caller{level: level}); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(u.received("logging/setLevel")); n != 1 {
				t.Errorf("the level was set %d times", n)
			}
		})
	}
}

// TestLevelOutlivesItsCaller has the first caller leave while the level is
// set: that is no failure of the server.
func TestLevelOutlivesItsCaller(t *testing.T) {
	begun, left := make(chan struct{}, 10), make(chan struct{})
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		if p.Method == "logging/setLevel" {
			begun <- struct{}{}
			<-left
		}
		respond(w, p, `{"content":[]}`)
	})
	u.offer(offersAll)
	s := open(t, u.URL, nil)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-begun
		leave()
	}()
	_, _ = s.Call(ctx, "tool", nil, &caller{level: "warning"}) // it may be answered all the same
	close(left)
	for _, level := range []string{"warning", "info"} {
		if _, err := s.Call(t.Context(), "tool", nil, &caller{level: level}); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, "the level is set to warning and then to info", func() bool { return len(u.received("logging/setLevel")) == 2 })
}
