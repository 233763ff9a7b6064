package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources/connector"
)

// sessions notes which sessions of a server were used and ended.
type sessions struct {
	mu          sync.Mutex
	used, ended []string
}

func (s *sessions) note(list *[]string, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, id)
}

func (s *sessions) over() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ended)
}

// keeping serves calls and notes their sessions.
func keeping(t *testing.T, stateless bool) (*httptest.Server, *upstream, *sessions) {
	t.Helper()
	list := &sessions{}
	u := newUpstream(t, stateless, func(w http.ResponseWriter, r *http.Request, p *post) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		list.note(&list.used, r.Header.Get("Mcp-Session-Id"))
		respond(w, p, `{"content":[],"contents":[],"tools":[]}`)
	})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			list.note(&list.ended, r.Header.Get("Mcp-Session-Id"))
		}
		u.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front, u, list
}

// TestSessionsOfAgents has two agents call a server that keeps state.
func TestSessionsOfAgents(t *testing.T) {
	for _, test := range []struct {
		name      string
		stateless bool
		change    func(*connector.Config)
		want      []string
		shakes    int
	}{
		{"shared", false, nil, []string{"session-1", "session-1", "session-1", "session-1", "session-1"}, 1},
		{"per agent", false, func(c *connector.Config) { c.PerAgent = true }, []string{"session-1", "session-2", "session-3", "session-2", "session-2"}, 3},
		{"may ask", false, mayAsk(action.AskRoots), []string{"session-1", "session-2", "session-3", "session-2", "session-2"}, 3},
		{"stateless", true, mayAsk(action.AskRoots), []string{"", "", "", "", ""}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			front, u, list := keeping(t, test.stateless)
			s := open(t, front.URL, test.change)
			if _, err := s.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, c := range []*caller{{session: "a"}, {session: "b"}, {session: "a", can: action.ClientListsRoots}} {
				if _, err := s.Call(t.Context(), "tool", nil, c); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Do(t.Context(), "resources/read", nil, &caller{session: "a"}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, list.used); diff != "" {
				t.Error(diff)
			}
			asked := len(u.received("server/discover"))
			if want := map[bool]int{true: 1}[test.change == nil || test.stateless]; asked != want { // sessions are tried first where they are needed
				t.Errorf("the era was asked for %d times, want %d", asked, want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if n := len(list.over()); !test.stateless && n != test.shakes {
				t.Errorf("%d sessions were ended, want %d", n, test.shakes)
			}
		})
	}
}

// TestIdleSessionsEnd has agents go away: their sessions end, the shared one
// stays.
func TestIdleSessionsEnd(t *testing.T) {
	front, _, list := keeping(t, false)
	s := open(t, front.URL, func(c *connector.Config) { c.PerAgent, c.IdleAgent = true, time.Millisecond })
	if _, err := s.Call(t.Context(), "tool", nil, &caller{session: "a"}); err != nil {
		t.Fatal(err)
	}
	wait(t, "the session ends", func() bool { return len(list.over()) > 0 })
	if _, err := s.Call(t.Context(), "tool", nil, &caller{session: "a"}); err != nil {
		t.Fatal(err)
	}
	wait(t, "the next one ends", func() bool { return len(list.over()) > 1 })
	if diff := cmp.Diff([]string{"session-2", "session-3"}, list.over()); diff != "" {
		t.Error(diff)
	}
}

// TestManyAgents are more than may have a session: who was idle for the longest
// time makes room.
func TestManyAgents(t *testing.T) {
	front, _, list := keeping(t, false)
	s := open(t, front.URL, func(c *connector.Config) { c.PerAgent = true })
	for i := range 202 {
		if _, err := s.Call(t.Context(), "tool", nil, &caller{session: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, "two sessions end", func() bool { return len(list.over()) == 2 })
	ended := list.over()
	slices.Sort(ended)
	if diff := cmp.Diff([]string{"session-2", "session-3"}, ended); diff != "" {
		t.Error(diff)
	}
}

// wait gives something time to come true.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 2000 {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("it did not come true that %s", what)
}

// TestStreamOfSession has a server ask and log on the stream of the agent's
// session, which belongs to no call: the latest call in flight is meant.
func TestStreamOfSession(t *testing.T) {
	replied := make(chan post, 10)
	alone, attended := make(chan struct{}), make(chan struct{})
	var begun atomic.Int64
	release := make(chan struct{})
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		switch {
		case r.Method == http.MethodGet:
			stream(w)
			<-alone
			say(w, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`) // nobody calls
			<-attended
			say(w, `{"jsonrpc":"2.0","id":99,"result":{}}`) // a response to nothing
			say(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":9007199254740993}}`)
			say(w, `{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
			<-r.Context().Done()
		case p.Method == "":
			w.WriteHeader(http.StatusAccepted)
			replied <- *p
		case p.Params.Name == "first":
			respond(w, p, `{"content":[]}`)
		default:
			begun.Add(1)
			<-release
			respond(w, p, `{"content":[]}`)
		}
	})
	s := open(t, u.URL, mayAsk(action.AskRoots))
	if _, err := s.Call(t.Context(), "first", nil, &caller{session: "a"}); err != nil {
		t.Fatal(err)
	}
	close(alone)
	if got := <-replied; string(got.ID) != "1" || !strings.Contains(string(got.Error), "-32601") {
		t.Errorf("the server was told %s", got.raw)
	}
	logged := make(chan string, 10)
	var group sync.WaitGroup
	for i, name := range []string{"older", "latest"} {
		group.Go(func() {
			_, err := s.Call(t.Context(), name, nil, &caller{
				session: "a",
				log:     func(p json.RawMessage) { logged <- name + " " + string(p) },
				ask: func(_ context.Context, q []action.Question) (map[string]action.Reply, error) {
					return map[string]action.Reply{q[0].Key: {Result: json.RawMessage(`{"roots":["` + name + `"]}`)}}, nil
				},
			})
			if err != nil {
				t.Error(err)
			}
		})
		wait(t, "the call is there", func() bool { return begun.Load() == int64(i+1) })
	}
	close(attended)
	if got := <-replied; string(got.ID) != "2" || string(got.Result) != `{"roots":["latest"]}` {
		t.Errorf("the server was told %s", got.raw)
	}
	if got := <-logged; got != `latest {"level":"info","data":9007199254740993}` {
		t.Errorf("logged %s", got)
	}
	close(release)
	group.Wait()
}

// TestConnectionCostPaidOnce has many calls at once on a new source.
func TestConnectionCostPaidOnce(t *testing.T) {
	var connections atomic.Int64
	u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, `{"content":[]}`) })
	front := httptest.NewUnstartedServer(u.Config.Handler)
	front.Config.ConnState = countNew(&connections)
	front.Start()
	t.Cleanup(front.Close)
	s := open(t, front.URL, nil)
	for range 3 {
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if _, err := s.Call(t.Context(), "tool", nil, nobody()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	if n := len(u.received("server/discover")); n != 1 {
		t.Errorf("%d handshakes", n)
	}
	if n := connections.Load(); n > 101 {
		t.Errorf("%d connections for 300 calls, 100 at once", n)
	}
}
