package coord_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/coord"
)

// servers are those that the suites run on.
var servers = map[string]func(testing.TB) *dbtest.Server{"valkey": dbtest.NewValkey, "redis": dbtest.NewRedis}

func onEach(t *testing.T, f func(t *testing.T, url string)) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, start(t).URL)
		})
	}
}

func TestHintsOnValkey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		exerciseHints(t, func(t *testing.T) (a, b action.Hints) {
			ends := connected(t, url, 2, coord.ValkeyConfig{})
			return ends[0], ends[1]
		})
	})
}

func TestCounterOnValkey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		exerciseCounter(t, func(t *testing.T, limit int, now func() time.Time) action.Limiter {
			v := connected(t, url, 1, coord.ValkeyConfig{Limit: limit, Now: now})[0]
			t.Cleanup(func() {
				if n := v.Stats().Fallbacks; n != 0 {
					t.Errorf("%d calls were not counted by the server", n)
				}
			})
			return v
		})
	})
}

func TestLocksOnValkey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		exerciseLocks(t, func(t *testing.T, n int) []holder {
			var holders []holder
			for _, v := range connected(t, url, n, coord.ValkeyConfig{}) {
				holders = append(holders, v)
				t.Cleanup(func() {
					if n := v.Stats().LockFallbacks; n != 0 {
						t.Errorf("%d locks were not held on the server", n)
					}
				})
			}
			return holders
		})
	})
}

func TestInstancesShareCount(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		ends := connected(t, url, 2, coord.ValkeyConfig{Limit: 10}) // by the server's clock
		if n := together(t, ends, "a"); n != 10 {
			t.Errorf("%d calls", n)
		}
		taken := 0
		for i := range 100 {
			if ends[i%2].Take(t.Context(), seven) == 0 {
				taken++
			}
		}
		if taken != 7 {
			t.Errorf("%d calls of a limit", taken)
		}
	})
}

// seven is a limit of seven calls an hour.
var seven = action.Limit{Key: "k", What: "a test", Rate: action.Rate{Calls: 7, Seconds: 3600}}

func TestServerClockGoesBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	v := connected(t, dbtest.Valkey(t), 1, coord.ValkeyConfig{Limit: 2, Now: func() time.Time { return now }})[0]
	for range 3 {
		v.Allow(t.Context(), "a")
	}
	now = now.Add(-time.Hour)
	if wait := v.Allow(t.Context(), "a"); wait <= 0 || wait > 2*time.Minute {
		t.Errorf("wait %v", wait)
	}
}

func TestScriptsAreReloaded(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	ends := connected(t, server.URL, 2, coord.ValkeyConfig{Limit: 10})
	for _, command := range []string{"SCRIPT FLUSH", "FLUSHALL", "CONFIG RESETSTAT"} {
		together(t, ends, "a")
		tell(t, server, command)
		if n := together(t, ends, fmt.Sprint("after ", command)); n != 10 {
			t.Errorf("after %s: %d calls", command, n)
		}
		if !ends[0].Hold(t.Context(), command, time.Hour) || ends[1].Hold(t.Context(), command, time.Hour) {
			t.Errorf("after %s: the lock is not one's alone", command)
		}
	}
	tell(t, server, "FLUSHALL")
	if n := together(t, ends, "a"); n != 10 {
		t.Errorf("the counters were flushed, and %d calls allowed", n)
	}
	for _, v := range ends {
		if s := v.Stats(); s.Fallbacks+s.LockFallbacks+s.Reconnects != 0 {
			t.Errorf("got %+v", s)
		}
	}
}

func TestUnusedKeysExpire(t *testing.T) {
	t.Parallel()
	server := dbtest.NewValkey(t)
	v := begun(t, coord.ValkeyConfig{URL: server.URL, Prefix: "p:", Instance: "a", Limit: 10})
	healthy(t, []*coord.Valkey{v})
	v.Allow(t.Context(), "k")
	v.Take(t.Context(), seven)
	v.Hold(t.Context(), "k", time.Minute)
	for key, most := range map[string]int{"p:limit:k": 120_000, "p:rate:3600000000:k": 7_200_000, "p:lock:k": 60_000, "p:probe": 120_000} {
		var left int
		if _, err := fmt.Sscanf(ask(t, server, "PTTL "+key), ":%d", &left); err != nil || left <= most/2 || left > most {
			t.Errorf("%s stays for %d ms: %v", key, left, err)
		}
	}
}

func TestCanceledCallerIsNotAnOutage(t *testing.T) {
	t.Parallel()
	v := connected(t, dbtest.Valkey(t), 1, coord.ValkeyConfig{Limit: 10})[0]
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 10 {
		v.Allow(gone, "a")
		v.Hold(gone, "a", time.Hour)
	}
	before := v.Stats().Fallbacks
	v.Allow(t.Context(), "b")
	if s := v.Stats(); !s.Up || s.Reconnects != 0 || s.Fallbacks != before {
		t.Errorf("got %+v, %d fallbacks before", s, before)
	}
}

func TestInvalidURLIsNotQuoted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "localhost:6379", "http://:hunter2@localhost", "valkey://:hunter2/@localhost:6379", "valkey://u:hunter2@localhost:6379/x",
		"valkey://u:hunter2@localhost/0/1", "valkey://u:hunter2%zz@localhost", "valkey:///0", "valkey://u:hunter2@localhost?db=a", "valkey://:hunter2@h?master_set=m",
	} {
		_, err := coord.NewValkey(coord.ValkeyConfig{URL: url, Instance: "a"})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "valkey://host:6379/0") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"valkey://localhost", "redis://localhost:1/3", "valkeys://u:p@h:1", "rediss://h", "unix:///run/valkey.sock"} {
		if _, err := coord.NewValkey(coord.ValkeyConfig{URL: url, Instance: "a"}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := coord.NewValkey(coord.ValkeyConfig{URL: "valkey://localhost"}); err == nil {
		t.Error("no instance is needed")
	}
}

// connected runs n instances until the test ends, and waits until their hints
// arrive. Each call has installations of its own on the server.
func connected(t testing.TB, url string, n int, c coord.ValkeyConfig) []*coord.Valkey {
	t.Helper()
	c.Heartbeat = 10 * time.Second // a slow machine is no lost server
	c.Timeout = 10 * time.Second
	return healthy(t, started(t, url, n, c))
}

// started runs n instances until the test ends.
func started(t testing.TB, url string, n int, c coord.ValkeyConfig) []*coord.Valkey {
	t.Helper()
	c.URL, c.Prefix = url, fmt.Sprintf("test %x:", rand.Uint64())
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var ends []*coord.Valkey
	for i := range n {
		c.Instance = fmt.Sprint("instance ", i)
		v, err := coord.NewValkey(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(run(v))
		ends = append(ends, v)
	}
	return ends
}

// run runs an instance until stop is called.
func run(v *coord.Valkey) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = v.Run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func healthy(t testing.TB, ends []*coord.Valkey) []*coord.Valkey {
	t.Helper()
	for i, v := range ends {
		eventually(t, fmt.Sprintf("instance %d is not healthy", i), v.Healthy)
	}
	return ends
}

func eventually(t testing.TB, otherwise string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}

// together counts the calls that all ends allow, in turn.
func together(t *testing.T, ends []*coord.Valkey, key string) (allowed int) {
	for i := range 100 {
		if ends[i%len(ends)].Allow(t.Context(), key) == 0 {
			allowed++
		}
	}
	return allowed
}

// logbook is a log that may be read while it is written.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logbook) count(level string) int { return strings.Count(l.String(), "level="+level) }

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func BenchmarkAllowOnValkey(b *testing.B) {
	v := connected(b, dbtest.Valkey(b), 1, coord.ValkeyConfig{Limit: 1 << 30})[0]
	b.Run("one caller", func(b *testing.B) {
		for b.Loop() {
			v.Allow(b.Context(), "a")
		}
	})
	b.Run("64 callers", func(b *testing.B) {
		b.SetParallelism(32) // of each of 2 processors
		var keys atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			key := fmt.Sprint(keys.Add(1))
			for pb.Next() {
				v.Allow(b.Context(), key)
			}
		})
	})
}

func BenchmarkHintAcrossInstances(b *testing.B) {
	ends := connected(b, dbtest.Valkey(b), 2, coord.ValkeyConfig{})
	arrived := make(chan struct{}, 1024)
	ends[1].Subscribe(func(action.Hint) { arrived <- struct{}{} })
	h := action.Hint{Kind: action.HintInvocation, Organization: "organization", Session: "session", Invocation: "invocation", Status: action.StatusApproved}
	b.Run("one by one", func(b *testing.B) {
		for b.Loop() {
			ends[0].Publish(h)
			<-arrived
		}
	})
	b.Run("512 at once", func(b *testing.B) {
		for b.Loop() {
			for range 512 {
				ends[0].Publish(h)
			}
			for range 512 {
				<-arrived
			}
		}
	})
}
