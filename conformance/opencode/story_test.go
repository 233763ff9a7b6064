package opencode_test

import (
	"context"
	"os"
	"sync"
	"testing"
)

// house is a gateway with an upstream behind it, the connector "demo". The
// shared one outlives each story; it starts with the first that needs it.
type house struct {
	once sync.Once
	err  error
	*gateway
	demo *upstream
}

var shared house

// open starts the gateway and connects the upstream.
func (h *house) open(dir string, flags ...string) error {
	h.once.Do(func() {
		if h.gateway, h.err = newGateway(dir, flags...); h.err != nil {
			return
		}
		if h.err = h.start(); h.err != nil {
			return
		}
		h.demo = startUpstream(demoTools()...)
		h.err = h.connects("demo", h.demo)
	})
	return h.err
}

// connects makes a server a connector, with that slug.
func (h *house) connects(slug string, u *upstream) error {
	return h.send(context.Background(), "POST", "/api/v1/connectors", args{"name": slug, "slug": slug, "url": u.URL}, nil)
}

func (h *house) close() error {
	if h.gateway == nil || h.cmd == nil {
		return nil // no story needed it
	}
	err := h.gateway.close()
	if h.demo != nil {
		h.demo.close()
	}
	return err
}

// story is a test with a session of its own in a house.
type story struct {
	t *testing.T
	*house
	session struct {
		ID    string `json:"session_id"`
		Token string `json:"token"`
	}
}

// begin begins a story in the house that all share.
func begin(t *testing.T) *story {
	t.Helper()
	return newStory(t, &shared, nil)
}

// beginAlone begins a story in a house of its own, with further flags of serve.
func beginAlone(t *testing.T, flags ...string) *story {
	t.Helper()
	return beginWith(t, nil, flags...)
}

// beginWith does so with further fields of the request for its session.
func beginWith(t *testing.T, fields args, flags ...string) *story {
	t.Helper()
	h := &house{}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	return newStory(t, h, fields, flags...)
}

// newStory mints the session; fields are further ones of its request.
func newStory(t *testing.T, h *house, fields args, flags ...string) *story {
	t.Helper()
	if testing.Short() {
		missing(t, "runs the gateway and OpenCode as processes")
	}
	program(t) // a story that cannot run starts nothing
	dir, err := os.MkdirTemp(scratch, "house-")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.open(dir, flags...); err != nil {
		t.Fatal(err)
	}
	before := len(h.logged())
	t.Cleanup(func() {
		if log := h.logged()[before:]; t.Failed() && len(log) > 0 {
			t.Logf("the end of the gateway's log:\n%s", log[max(0, len(log)-4000):])
		}
	})
	s := &story{t: t, house: h}
	body := args{"title": t.Name()}
	for k, v := range fields {
		body[k] = v
	}
	s.must(t, "POST", "/api/v1/sessions", body, &s.session)
	return s
}
