package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/action"
	"sallyport/mcpserver"
)

// desk knows tokens until it is told otherwise.
type desk struct {
	mu  sync.Mutex
	err map[string]error
}

func (d *desk) tell(bearer string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = map[string]error{}
	}
	d.err[bearer] = err
}

func (d *desk) authenticate(ctx context.Context, bearer string) (*action.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.err[bearer]; err != nil {
		return nil, err
	}
	return authenticate(ctx, bearer)
}

// listenBody listens to changes of tools and to resources.
func listenBody(uris ...string) string {
	list := ""
	if len(uris) > 0 {
		list = `,"resourceSubscriptions":["` + strings.Join(uris, `","`) + `"]`
	}
	return `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true` + list + `},"_meta":{` + clientMeta + `}}}`
}

// everything opens all that outlasts its request: an event stream of each era,
// with a resource each, and a subscription of a session without a stream.
func everything(t *testing.T, s *site, token string) (legacy *watch, modern *listening) {
	t.Helper()
	id := s.initialize(t, token)
	legacy = s.watch(t, token, id)
	for _, id := range []string{id, s.initialize(t, token)} {
		if got := s.post(t, token, id, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"two+demo://b"}}`); !strings.Contains(got.text, `"result":{}`) {
			t.Fatal(got.text)
		}
	}
	modern = s.modern(t, token, "subscriptions/listen", listenBody("demo://b"))
	eventually(t, "it is acknowledged", func() bool { return strings.Contains(modern.said(), "acknowledged") })
	return legacy, modern
}

func ended(l *listening) bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// What a session has open ends with the right to it, and only then: when it is
// revoked, not when that cannot be said, and nobody else's.
func TestRevokedSessionGetsNoEvents(t *testing.T) {
	var d desk
	s := open(t, func(c *mcpserver.Config) { c.Authenticate = d.authenticate })
	s.gate.offer()
	legacyB, modernB := everything(t, s, "token-b")
	legacy, modern := everything(t, s, "token-a")
	eventually(t, "all are open", func() bool { return s.server.Streams() == 4 })
	hint := func(kind action.HintKind, organization, session string) {
		s.hints.Publish(action.Hint{Kind: kind, Organization: organization, Session: session})
		time.Sleep(100 * time.Millisecond) // longer than hints settle
	}

	d.tell("token-a", errors.New("dial tcp"))
	hint(action.HintSession, "acme", "session-a")
	d.tell("token-a", nil)
	hint(action.HintSession, "acme", "session-a")
	d.tell("token-a", action.Errorf(action.ErrUnauthenticated, "session_revoked", "It was revoked."))
	hint(action.HintSession, "acme", "session-b")
	hint(action.HintSession, "other", "session-a")
	if legacy.over.Load() || ended(modern) {
		t.Fatal("a stream ended before its time")
	}
	hint(action.HintSession, "acme", "session-a")
	eventually(t, "the event streams end", func() bool { return legacy.over.Load() && ended(modern) })
	eventually(t, "so do subscriptions", func() bool { return s.gate.subscribed() == "demo demo://b 1\ntwo demo://b 2\n" })
	if sessions, holders := s.server.Held(); sessions != 2 || holders != 3 {
		t.Errorf("%d sessions and %d holders are left", sessions, holders)
	}
	if !strings.Contains(modern.said(), `"resultType":"complete"`) {
		t.Error("the subscription was not completed:", modern.said())
	}
	if legacyB.over.Load() || ended(modernB) {
		t.Error("another's stream ended")
	}

	d.tell("token-b", action.ErrForbidden)
	hint(action.HintReload, "acme", "") // the hint itself was lost
	eventually(t, "the other's end", func() bool { return legacyB.over.Load() && ended(modernB) && s.gate.subscribed() == "" })
	if n := s.server.Principals(); n != 0 {
		t.Errorf("%d principals are remembered who have nothing", n)
	}
}

// A hint may be lost: it is asked again every minute. An expiry needs none.
func TestRevocationWithoutHint(t *testing.T) {
	for name, how := range map[string]func(d *desk, s *action.Session){
		"revoked": func(d *desk, _ *action.Session) { d.tell("token-a", action.ErrUnauthenticated) },
		"expired": func(_ *desk, s *action.Session) { at := time.Now().Add(30 * time.Second); s.ExpiresAt = &at },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d desk
				var expires action.Session
				p := newPlayWith(t, func(c *mcpserver.Config) {
					c.Authenticate = func(ctx context.Context, bearer string) (*action.Session, error) {
						who, err := d.authenticate(ctx, bearer)
						if err == nil {
							who.ExpiresAt = expires.ExpiresAt
						}
						return who, err
					}
				})
				defer p.stop()
				if name == "expired" {
					how(&d, &expires)
				}
				p.send("listen", []byte("POST /mcp\nMcp-Protocol-Version: 2026-07-28\nMcp-Method: subscriptions/listen\n\n"+listenBody()))
				p.send("init", []byte("POST /mcp\n\n"+initializeBody))
				p.send("stream", []byte("GET /mcp\nMcp-Session-Id: $SESSION\n\n"))
				if name == "revoked" {
					how(&d, nil)
				}
				time.Sleep(29 * time.Second)
				synctest.Wait()
				for _, one := range []string{"listen", "stream"} {
					if !strings.HasSuffix(p.seen(one), "(open)\n") {
						t.Errorf("%s ended too soon: %s", one, p.seen(one))
					}
				}
				wait := 32 * time.Second
				if name == "expired" {
					wait = 2 * time.Second
				}
				time.Sleep(wait)
				synctest.Wait()
				for _, one := range []string{"listen", "stream"} {
					if strings.HasSuffix(p.seen(one), "(open)\n") {
						t.Errorf("%s goes on: %s", one, p.seen(one))
					}
				}
			})
		})
	}
}

// What is subscribed to without an event stream ends with the session, too.
func TestExpiredSubscriptionsEnd(t *testing.T) {
	var later atomic.Int64
	expires := time.Now().Add(time.Hour)
	s := open(t, func(c *mcpserver.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		c.Authenticate = func(ctx context.Context, bearer string) (*action.Session, error) {
			who, err := authenticate(ctx, bearer)
			who.ExpiresAt = &expires
			return who, err
		}
	})
	s.gate.offer()
	s.post(t, "token-a", s.initialize(t, "token-a"), `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"demo://b"}}`)
	for _, test := range []struct {
		later time.Duration
		want  string
	}{{59 * time.Minute, "demo demo://b 1\n"}, {time.Hour, ""}} {
		later.Store(int64(test.later))
		s.server.Expire()
		eventually(t, "it is as it should be", func() bool { return s.gate.subscribed() == test.want })
	}
}

// A session that may not read a source any more is not told of its resources
// any more; those of other sources it goes on hearing of.
func TestDeniedSubscriptionsEnd(t *testing.T) {
	s := open(t, nil)
	s.gate.offer()
	everything(t, s, "token-a")
	s.gate.add(&served{Action: action.Action{Source: "two", SourceName: "Two", Name: action.ActionRead}, mode: action.ModeRequireApproval})
	s.hints.Publish(action.Hint{Kind: action.HintPolicy, Organization: "acme"})
	eventually(t, "those that are held end", func() bool { return s.gate.subscribed() == "demo demo://b 1\n" })
	s.gate.add(&served{Action: action.Action{Source: "demo", SourceName: "Demo", Name: action.ActionRead}, mode: action.ModeDeny})
	s.hints.Publish(action.Hint{Kind: action.HintCatalog, Organization: "acme"})
	eventually(t, "those that are denied end", func() bool { return s.gate.subscribed() == "" })
}

// A principal has so many listens and subscriptions and no more, whatever MCP
// sessions it opens; what it closes makes room.
func TestListenLimit(t *testing.T) {
	s := open(t, func(c *mcpserver.Config) { c.MaxSessions = 3 })
	s.gate.offer()
	listen := func(token string) *listening {
		return s.modern(t, token, "subscriptions/listen", listenBody("demo://b"))
	}
	acknowledged := func(l *listening) bool { return strings.Contains(l.said(), "acknowledged") }
	var all []*listening
	for range 3 {
		l := listen("token-a")
		eventually(t, "it is acknowledged", func() bool { return acknowledged(l) })
		all = append(all, l)
	}
	if got := listen("token-a").first(); !strings.Contains(got, "3 subscriptions/listen already") {
		t.Error("a fourth:", got)
	}
	other := listen("token-b")
	eventually(t, "another's is acknowledged", func() bool { return acknowledged(other) })
	all[1].hangUp()
	eventually(t, "there is room again", func() bool { l := listen("token-a"); return !strings.Contains(l.first(), "already") })
}

func TestSubscriptionLimitOfPrincipal(t *testing.T) {
	s := open(t, nil)
	s.gate.offer()
	uris := func(round int) (list []string) {
		for i := range 100 {
			list = append(list, fmt.Sprintf("demo://t/%d-%d", round, i))
		}
		return list
	}
	var last *listening
	for i := range 11 {
		last = s.modern(t, "token-a", "subscriptions/listen", listenBody(uris(i)...))
		eventually(t, "it is acknowledged", func() bool { return strings.Contains(last.said(), "acknowledged") })
	}
	if n := strings.Count(s.gate.subscribed(), "\n"); n != 1000 || strings.Contains(last.said(), "resourceSubscriptions") {
		t.Errorf("%d subscriptions; the last listen is told %s", n, last.said())
	}
	subscribe := func(token string) string {
		return s.post(t, token, s.initialize(t, token), `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"demo://b"}}`).text
	}
	if got := subscribe("token-a"); !strings.Contains(got, "1000 subscriptions already") {
		t.Error("one more:", got)
	}
	if got := subscribe("token-b"); !strings.Contains(got, `"result":{}`) {
		t.Error("another's:", got)
	}
}

// A listen subscribes to several resources at once, within its time, and says
// meanwhile that it lives. What a source grants too late is given back.
func TestListenTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlayWith(t, func(c *mcpserver.Config) { c.KeepAliveEvery = 4 * time.Second })
		defer p.stop()
		p.gate.offer()
		var at, most atomic.Int64
		hang := make(chan struct{})
		p.gate.subscribing = func(_ context.Context, _, uri string, on bool) error {
			if !on {
				return nil
			}
			now := at.Add(1)
			defer at.Add(-1)
			most.Store(max(most.Load(), now))
			if strings.HasSuffix(uri, "/hangs") {
				<-hang // deaf to its context
			}
			time.Sleep(time.Second)
			return nil
		}
		uris := []string{"demo://t/hangs"}
		for i := range 21 {
			uris = append(uris, fmt.Sprintf("demo://t/%d", i))
		}
		p.send("listen", []byte("POST /mcp\nMcp-Protocol-Version: 2026-07-28\nMcp-Method: subscriptions/listen\n\n"+listenBody(uris...)))
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if got := p.seen("listen"); strings.Count(got, ": waiting") != 2 || strings.Contains(got, "acknowledged") || most.Load() != 8 {
			t.Errorf("after nine seconds, with %d at once: %s", most.Load(), got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := p.seen("listen")
		if strings.Contains(got, "hangs") || !strings.Contains(got, `"resourceSubscriptions":["demo://t/0","demo://t/1",`) || !strings.Contains(got, `"demo://t/20"]`) {
			t.Error("after eleven:", got)
		}
		close(hang)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if strings.Contains(p.gate.subscribed(), "hangs") {
			t.Error("what came too late stays:", p.gate.subscribed())
		}
	})
}

// A source that hangs when subscriptions end keeps only itself waiting, and
// nobody who stops the gateway.
func TestHangingSourceDoesNotDelayOthers(t *testing.T) {
	var at, most atomic.Int64
	var how atomic.Value
	t.Cleanup(func() { // after that of the site
		if how.Load() != context.Canceled.Error() {
			t.Error("the shutdown waited:", how.Load())
		}
	})
	s := open(t, nil)
	s.gate.offer()
	s.gate.subscribing = func(ctx context.Context, source, _ string, on bool) error {
		if on || source != "demo" {
			return nil
		}
		most.Store(max(most.Load(), at.Add(1)))
		defer at.Add(-1)
		<-ctx.Done()
		how.Store(ctx.Err().Error())
		return ctx.Err()
	}
	id := s.initialize(t, "token-a")
	for i := range 20 {
		s.post(t, "token-a", id, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"demo://t/%d"}}`, i))
	}
	began := s.initialize(t, "token-a")
	s.post(t, "token-a", began, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"two+demo://b"}}`)
	if got := s.method(t, http.MethodDelete, "token-a", id); got != http.StatusNoContent {
		t.Fatal(got)
	}
	eventually(t, "the source hangs", func() bool { return at.Load() == 1 })
	if got := s.method(t, http.MethodDelete, "token-a", began); got != http.StatusNoContent {
		t.Fatal(got)
	}
	eventually(t, "another source hears", func() bool { return !strings.Contains(s.gate.subscribed(), "two") })
	if most.Load() != 1 || at.Load() != 1 {
		t.Errorf("%d words at once, and %d wait still", most.Load(), at.Load())
	}
}

// What waits for a source is bounded, and not lost for who comes next.
func TestUnsubscribeQueueLimit(t *testing.T) {
	if kept, of := mcpserver.QueuedUnsubscribes(1200); kept != 1000 {
		t.Errorf("%d of %d wait", kept, of)
	}
}
