package coord_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/coord"
)

// story is two instances and what is known of them.
type story struct {
	*testing.T
	a, b    *coord.Valkey
	log     logbook // of both
	resumed atomic.Int64
}

// tellStory begins with instances that beat fast, so that the story is short;
// on a slow machine they may take the server for lost once more.
func tellStory(t *testing.T, url string) *story {
	s := &story{T: t}
	ends := started(t, url, 2, coord.ValkeyConfig{
		Limit: 10, Timeout: 100 * time.Millisecond, Heartbeat: 200 * time.Millisecond,
		Resumed: func() { s.resumed.Add(1) }, Log: s.log.logger(),
	})
	s.a, s.b = ends[0], ends[1]
	return s
}

func (s *story) both() []*coord.Valkey { return []*coord.Valkey{s.a, s.b} }

// isAway waits until both know that the server is away, and checks what is
// promised then.
func (s *story) isAway() {
	s.Helper()
	for i, v := range s.both() {
		eventually(s, fmt.Sprintf("instance %d does not notice", i), func() bool { return !v.Healthy() })
	}
	before := s.a.Stats()
	if n := together(s.T, s.both(), fmt.Sprint("away ", s.a.Stats().Fallbacks)); n != 20 {
		s.Errorf("each counts alone: %d calls", n)
	}
	if !s.a.Hold(s.Context(), "lock while away", time.Hour) || !s.b.Hold(s.Context(), "lock while away", time.Hour) {
		s.Error("a lock is refused")
	}
	got := make(chan action.Hint, 1)
	defer s.a.Subscribe(func(h action.Hint) { got <- h })()
	s.a.Publish(action.Hint{Kind: action.HintPolicy, Organization: "local"})
	select {
	case <-got:
	default:
		s.Error("the own subscriber is not told at once")
	}
	after := s.a.Stats()
	if after.Up || after.Fallbacks-before.Fallbacks != 50 || after.LockFallbacks-before.LockFallbacks != 1 || after.Dropped == before.Dropped {
		s.Errorf("before %+v, after %+v", before, after)
	}
}

// isBack waits until all works, without a restart of anything.
func (s *story) isBack() {
	s.Helper()
	healthy(s, s.both())
	for _, ends := range [][]*coord.Valkey{{s.a, s.b}, {s.b, s.a}} {
		s.crosses(ends[0], ends[1])
	}
	eventually(s, "they do not count together", func() bool {
		return together(s.T, s.both(), fmt.Sprint("back ", time.Now())) == 10
	})
}

// crosses publishes until one hint arrives: more than one are only needed
// where a heartbeat came late and the server was taken for lost again.
func (s *story) crosses(from, to *coord.Valkey) {
	s.Helper()
	want := action.Hint{Kind: action.HintPolicy, Organization: fmt.Sprint("crossing ", time.Now())}
	got := make(chan struct{}, 100_000)
	defer to.Subscribe(func(h action.Hint) {
		if h == want {
			got <- struct{}{}
		}
	})()
	eventually(s, "no hint crosses", func() bool {
		from.Publish(want)
		select {
		case <-got:
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
}

func TestUnavailableAtStart(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	server.Stop()
	s := tellStory(t, server.URL)
	eventually(t, "no warning", func() bool { return s.log.count("WARN") == 2 })
	s.isAway()
	time.Sleep(500 * time.Millisecond) // time for more attempts
	if n := s.log.count("WARN"); n != 2 {
		t.Errorf("%d warnings of two instances:\n%s", n, s.log.String())
	}
	if s.resumed.Load() != 0 {
		t.Error("resumed, though nothing came back")
	}
	server.Start()
	s.isBack()
	if s.resumed.Load() < 2 || s.log.count("INFO") < 2 {
		t.Errorf("resumed %d times; log:\n%s", s.resumed.Load(), s.log.String())
	}
	if w, i := s.log.count("WARN"), s.log.count("INFO"); w > i {
		t.Errorf("%d warnings and %d remarks that it is back:\n%s", w, i, s.log.String())
	}
}

func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	s := tellStory(t, server.URL)
	s.isBack()
	for range 2 {
		resumed, warned := s.resumed.Load(), s.log.count("WARN")
		server.Kill()
		s.isAway()
		eventually(t, "no warning", func() bool { return s.log.count("WARN") >= warned+2 })
		server.Start()
		s.isBack()
		if s.resumed.Load() < resumed+2 {
			t.Error("not both were told to look at the rows")
		}
	}
	if s.a.Stats().Reconnects < 2 || !s.a.Stats().Up {
		t.Errorf("got %+v", s.a.Stats())
	}
}

func TestHangingServerDoesNotBlock(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	s := tellStory(t, server.URL)
	s.isBack()
	server.Pause()
	begin := time.Now()
	for i := range 1000 {
		s.a.Allow(t.Context(), fmt.Sprint(i))
	}
	// A wait of 100 ms each would be 100 s.
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("1000 calls took %v", took)
	}
	for range 100_000 { // more than the queue holds
		s.a.Publish(action.Hint{Kind: action.HintPolicy})
	}
	s.isAway()
	server.Resume()
	s.isBack()
	if n := s.a.Stats().Dropped; n < 100_000 {
		t.Errorf("only %d hints were dropped; old ones were sent", n)
	}
}

// TestFallbackAfterOneTimeout has a heartbeat so slow that it does not tell of the
// hanging server: the first call that waits in vain does.
func TestFallbackAfterOneTimeout(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	v := begun(t, coord.ValkeyConfig{URL: server.URL, Instance: "a", Limit: 10, Timeout: 300 * time.Millisecond, Heartbeat: 2 * time.Second})
	healthy(t, []*coord.Valkey{v})
	server.Pause()
	for i := range 100 { // to wait each time would take longer than the heartbeat's silence
		v.Allow(t.Context(), fmt.Sprint(i))
	}
	if s := v.Stats(); !s.Up || s.Fallbacks != 100 {
		t.Errorf("got %+v", s)
	}
	server.Resume()
	eventually(t, "the server does not count again", func() bool {
		before := v.Stats().Fallbacks
		v.Allow(t.Context(), "a")
		return v.Stats().Fallbacks == before
	})
}

func TestFallbackContinuesCount(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	v := connected(t, server.URL, 1, coord.ValkeyConfig{Limit: 10})[0]
	for range 10 {
		v.Allow(t.Context(), "a")
	}
	for range 6 {
		v.Take(t.Context(), seven)
	}
	server.Kill()
	eventually(t, "the end is not noticed", func() bool { return !v.Healthy() })
	if v.Allow(t.Context(), "a") == 0 {
		t.Error("the limit begins anew")
	}
	if v.Take(t.Context(), seven) > 0 || v.Take(t.Context(), seven) == 0 {
		t.Error("six of seven calls are used up, and not one is left")
	}
	if n := v.Stats().Fallbacks; n != 3 {
		t.Errorf("%d calls were counted alone", n)
	}
}

func TestServerRefusesScripts(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	s := tellStory(t, server.URL)
	s.isBack()
	tell(t, server, "ACL SETUSER default -@scripting")
	s.a.Allow(t.Context(), "a")
	s.b.Allow(t.Context(), "a")
	s.isAway()
	eventually(t, "the log does not say why", func() bool { return strings.Contains(s.log.String(), "NOPERM") })
	before := s.a.Stats().Reconnects
	time.Sleep(500 * time.Millisecond) // time for more attempts
	if n := s.a.Stats().Reconnects; n != before {
		t.Errorf("it was taken for back %d times", n-before)
	}
	tell(t, server, "ACL SETUSER default +@all")
	s.isBack()
}

func TestServerOutOfMemory(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	s := tellStory(t, server.URL)
	s.isBack()
	tell(t, server, "CONFIG SET maxmemory 1")
	for _, v := range s.both() {
		if wait := v.Allow(t.Context(), "a"); wait != 0 {
			t.Errorf("wait %v", wait)
		}
	}
	s.isAway()
	tell(t, server, "CONFIG SET maxmemory 0")
	s.isBack()
}

func TestPasswordIsNotLogged(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	tell(t, server, "CONFIG SET requirepass correct")
	s := tellStory(t, strings.Replace(server.URL, "//", "//:hunter2@", 1))
	eventually(t, "no warning", func() bool { return s.log.count("WARN") == 2 })
	if said := s.log.String(); strings.Contains(said, "hunter2") || !strings.Contains(said, "WRONGPASS") {
		t.Error(said)
	}
	right := tellStory(t, strings.Replace(server.URL, "//", "//:correct@", 1))
	right.isBack()
}

// TestDroppedHintsAreReported cuts only one instance off. The other one
// misses its hints without having lost anything itself.
func TestDroppedHintsAreReported(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	cable := plug(t, strings.TrimSuffix(strings.TrimPrefix(server.URL, "valkey://"), "/0"))
	var told atomic.Int64
	config := coord.ValkeyConfig{Prefix: "one:", Instance: "far", URL: "valkey://" + cable.address + "/0", Heartbeat: 200 * time.Millisecond}
	far := begun(t, config)
	config = coord.ValkeyConfig{Prefix: "one:", Instance: "near", URL: server.URL, Heartbeat: 10 * time.Second, Resumed: func() { told.Add(1) }}
	near := begun(t, config)
	healthy(t, []*coord.Valkey{far, near})
	before := told.Load()
	cable.cut()
	eventually(t, "the cut is not noticed", func() bool { return !far.Healthy() })
	far.Publish(action.Hint{Kind: action.HintPolicy})
	cable.mend()
	eventually(t, "near is not told", func() bool { return told.Load() > before })
	if s := near.Stats(); s.Reconnects != 0 {
		t.Errorf("near lost the server itself: %+v", s)
	}
}

func begun(t *testing.T, c coord.ValkeyConfig) *coord.Valkey {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	v, err := coord.NewValkey(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run(v))
	return v
}

// TestRunEnds is not parallel: it counts goroutines.
func TestRunEnds(t *testing.T) {
	server := dbtest.NewValkey(t)
	for _, c := range []struct {
		name    string
		prepare func(v *coord.Valkey)
	}{
		{"connected", func(v *coord.Valkey) { healthy(t, []*coord.Valkey{v}) }},
		{"hanging", func(v *coord.Valkey) { healthy(t, []*coord.Valkey{v}); server.Pause() }},
		{"hanging at the start", func(*coord.Valkey) { time.Sleep(50 * time.Millisecond) }},
		{"away", func(*coord.Valkey) { server.Resume(); server.Kill() }},
	} {
		before := runtime.NumGoroutine()
		v, err := coord.NewValkey(coord.ValkeyConfig{URL: server.URL, Instance: "a", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(v)
		c.prepare(v)
		ended := make(chan struct{})
		go func() { stop(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: it does not end", c.name)
		}
		eventually(t, c.name+": goroutines remain", func() bool { return runtime.NumGoroutine() <= before })
		if v.Healthy() {
			t.Errorf("%s: healthy after its end", c.name)
		}
	}
}

// cable is a connection that can be cut.
type cable struct {
	t       *testing.T
	address string
	server  string

	mu    sync.Mutex
	whole bool
	conns []net.Conn
}

func plug(t *testing.T, server string) *cable {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{t: t, address: l.Addr().String(), server: server, whole: true}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.carry(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		c.cut()
		wg.Wait()
	})
	return c
}

func (c *cable) carry(near net.Conn) {
	defer near.Close()
	far, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", c.server)
	if err != nil {
		return
	}
	defer far.Close()
	c.mu.Lock()
	whole := c.whole
	c.conns = append(c.conns, near, far)
	c.mu.Unlock()
	if !whole {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(far, near); far.Close() })
	_, _ = io.Copy(near, far)
	near.Close()
	wg.Wait()
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.whole = false
	for _, conn := range c.conns {
		conn.Close()
	}
}

func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.whole = true
}

// tell gives the server a command of its own administrator.
func tell(t *testing.T, server *dbtest.Server, command string) {
	t.Helper()
	if said := ask(t, server, command); said != "+OK" {
		t.Fatalf("%s: %s", command, said)
	}
}

func ask(t *testing.T, server *dbtest.Server, command string) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(server.URL, "valkey://"), "/0"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, command+"\r\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(line)
}
