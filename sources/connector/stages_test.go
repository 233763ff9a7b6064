package connector_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// TestStreamCutAtEachStage cuts the connection; only an answer that was there
// before counts.
func TestStreamCutAtEachStage(t *testing.T) {
	progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`
	for _, test := range []struct {
		name string
		tell func(w http.ResponseWriter, p *post)
		ok   bool
	}{
		{"before the headers", func(http.ResponseWriter, *post) {}, false},
		{"before the first byte", func(w http.ResponseWriter, _ *post) { stream(w) }, false},
		{"in an event", func(w http.ResponseWriter, _ *post) {
			stream(w)
			fmt.Fprint(w, `data: {"jsonrpc":"2.0","meth`)
			w.(http.Flusher).Flush()
		}, false},
		{"between events", func(w http.ResponseWriter, p *post) {
			stream(w)
			say(w, fmt.Sprintf(progress, p.Params.Meta.Token))
		}, false},
		{"in the answer", func(w http.ResponseWriter, p *post) {
			stream(w)
			fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[]`, p.ID)
			w.(http.Flusher).Flush()
		}, false},
		{"after the answer, within its end", func(w http.ResponseWriter, p *post) {
			stream(w)
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", p.ID)
			w.(http.Flusher).Flush()
		}, true},
	} {
		for _, era := range eras {
			t.Run(test.name+", "+era.name, func(t *testing.T) {
				u := newUpstream(t, era.stateless, func(w http.ResponseWriter, _ *http.Request, p *post) {
					if p.Params.Name == "next" {
						respond(w, p, `{"content":[]}`)
						return
					}
					test.tell(w, p)
					panic(http.ErrAbortHandler)
				})
				s := open(t, u.URL, nil)
				res, err := s.Call(t.Context(), "tool", nil, nobody())
				if test.ok {
					if err != nil || string(res.Body) != `{"content":[]}` {
						t.Errorf("got %s, %v", res.Body, err)
					}
				} else {
					wantFault(t, err, action.ErrOutcomeUnknown, sources.FaultProtocol)
				}
				if n := len(u.received("tools/call")); n != 1 {
					t.Errorf("the call was sent %d times", n)
				}
				if _, err := s.Call(t.Context(), "next", nil, nobody()); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		}
	}
}

// TestRestartDuringCall has the server go away with a call in it, and come
// back: that call's outcome is unknown, it is not sent again, and other calls
// on the session are as good as they were.
func TestRestartDuringCall(t *testing.T) {
	arrived := make(chan struct{})
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		if p.Params.Name != "write" {
			respond(w, p, `{"content":[]}`)
			return
		}
		stream(w)
		close(arrived)
		<-r.Context().Done()
	})
	front := httptest.NewServer(u.Config.Handler)
	t.Cleanup(front.Close)
	s := open(t, front.URL, nil)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Call(t.Context(), "write", nil, nobody())
		ended <- err
	}()
	<-arrived
	front.CloseClientConnections()
	wantFault(t, <-ended, action.ErrOutcomeUnknown, sources.FaultProtocol)
	if _, err := s.Call(t.Context(), "other", nil, nobody()); err != nil {
		t.Error(err)
	}
	sent := 0
	for _, p := range u.received("tools/call") {
		if p.Params.Name == "write" {
			sent++
		}
	}
	if sent != 1 {
		t.Errorf("the call was sent %d times", sent)
	}
}

// TestHundredThousandTools are cut to those that are allowed, with a warning,
// on one page or on many.
func TestHundredThousandTools(t *testing.T) {
	const total = 100_000
	for _, page := range []int{total, 500} {
		tools := `{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"x","inputSchema":{"type":"object"}},`, page), ",") + `],"nextCursor":"`
		u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
			respond(w, p, tools+string(p.ID)+`"}`)
		})
		l, err := open(t, u.URL, nil).List(t.Context())
		if err != nil || len(l.Tools) != 2000 || len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "2000 tools") {
			t.Errorf("%d a page: got %d tools, warnings %q, %v", page, len(l.Tools), l.Warnings, err)
		}
		if n := len(u.received("tools/list")); n > 5 {
			t.Errorf("%d a page: asked for %d pages", page, n)
		}
	}
}

// TestStepsOfFailure end with what failed.
func TestStepsOfFailure(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	for _, test := range []struct{ url, last string }{
		{"http://nowhere.invalid/mcp", "dns"}, {gone.URL, "connect"}, {secure.URL, "tls"}, {page.URL, "handshake"},
	} {
		s := open(t, test.url, nil)
		if _, err := s.List(t.Context()); !errors.Is(err, action.ErrUnavailable) {
			t.Errorf("%s: %v", test.url, err)
		}
		steps := s.Steps()
		if last := steps[len(steps)-1]; last.Name != test.last || last.Took <= 0 || !last.Failed {
			t.Errorf("%s: the steps are %+v", test.url, steps)
		}
	}
}

// TestStepsOfAgents are nobody else's.
func TestStepsOfAgents(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		respond(w, p, `{"content":[],"tools":[]}`)
	})
	s := open(t, u.URL, func(c *connector.Config) { c.PerAgent = true })
	if _, err := s.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := s.Steps()
	if _, err := s.Call(t.Context(), "tool", nil, &caller{session: "a"}); err != nil {
		t.Fatal(err)
	}
	if n := len(u.received("initialize")); n != 2 {
		t.Errorf("%d handshakes", n)
	}
	if diff := cmp.Diff(want, s.Steps()); diff != "" {
		t.Error(diff)
	}
}

// TestStepOfAFailedList is the list's, and not the handshake that went well.
func TestStepOfAFailedList(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		respond(w, p, `{"tools":"none"}`)
	})
	s := open(t, u.URL, nil)
	if _, err := s.List(t.Context()); !errors.Is(err, action.ErrUnavailable) {
		t.Fatal(err)
	}
	for _, step := range s.Steps() {
		if step.Failed != (step.Name == "tools") {
			t.Errorf("the steps are %+v", s.Steps())
		}
	}
	if n := len(s.Steps()); n != 5 {
		t.Errorf("there are %d steps", n)
	}
}
