package outbound_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
)

// limiter is the rate limiter that clients with one credential at one service
// share.
type limiter struct {
	mu   sync.Mutex
	at   []time.Time
	left int    // times that it will say no
	head string // Retry-After
	wave int    // so many requests are answered together, if any
	full chan struct{}
}

func (l *limiter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if l.full != nil {
		l.mu.Lock()
		if l.wave--; l.wave == 0 {
			close(l.full)
		}
		l.mu.Unlock()
		<-l.full
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Now())
	if l.left--; l.left >= 0 {
		if l.head != "" {
			w.Header().Set("Retry-After", l.head)
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

func TestRateLimits(t *testing.T) {
	for name, test := range map[string]struct {
		head     string
		left     int
		deadline time.Duration
		asked    int
		wait     time.Duration // at least, until the second request or as told
		limited  bool
	}{
		"short enough to wait":    {"3", 1, 0, 2, 3 * time.Second, false},
		"too long":                {"6", 1, 0, 1, 6 * time.Second, true},
		"longer than the context": {"3", 1, 2 * time.Second, 1, 3 * time.Second, true},
		"a date":                  {"date", 1, 0, 2, 4 * time.Second, false},
		"nothing told":            {"", 1, 0, 2, time.Second, false},
		"nonsense told":           {"soon", 1, 0, 2, time.Second, false},
		"again and again":         {"1", 9, 0, 3, time.Second, true},
		"for years":               {"999999999", 1, 0, 1, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &limiter{head: test.head, left: test.left}
				if test.head == "date" {
					l.head = time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat)
				}
				p := bubble(t, outbound.Config{}, l.ServeHTTP)
				ctx := t.Context()
				if test.deadline > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, test.deadline)
					defer stop()
				}
				resp, err := p.Client("one", parse(t, "http://localhost")).Do(ctx, post("/"))
				if len(l.at) != test.asked {
					t.Fatalf("asked %d times: %v", len(l.at), err)
				}
				if test.asked > 1 && l.at[1].Sub(l.at[0]) < test.wait {
					t.Errorf("asked again after %v", l.at[1].Sub(l.at[0]))
				}
				switch {
				case test.limited:
					fails(t, err, action.ErrUnavailable, "upstream_rate_limited", "localhost limits the rate of requests")
					if got := retryAfter(err); got < test.wait || got > test.wait*2 {
						t.Errorf("told to wait %v", got)
					}
				case err != nil || resp.Status != 200:
					t.Errorf("%+v, %v", resp, err)
				}
			})
		})
	}
}

// One who was told to wait tells the others who have the same credential, and
// nobody else.
func TestLimitsAreOneCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{head: "60", left: 1}
		p := bubble(t, outbound.Config{}, l.ServeHTTP)
		base := parse(t, "http://localhost/api")
		_, err := p.Client("one", base).Do(t.Context(), get("/"))
		fails(t, err, action.ErrUnavailable, "upstream_rate_limited", "60 seconds")
		time.Sleep(20 * time.Second)
		_, err = p.Client("one", parse(t, "http://LOCALHOST:80/other")).Do(t.Context(), get("/"))
		fails(t, err, action.ErrUnavailable, "upstream_rate_limited", "40 seconds")
		if retryAfter(err) != 40*time.Second || len(l.at) != 1 {
			t.Errorf("told %v after %d requests", retryAfter(err), len(l.at))
		}
		for _, c := range []*outbound.Client{p.Client("two", base), p.Client("one", parse(t, "http://localhost:81"))} {
			if _, err := c.Do(t.Context(), get("/")); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(40 * time.Second)
		if _, err := p.Client("one", base).Do(t.Context(), get("/")); err != nil {
			t.Error(err)
		}
	})
}

// Where nothing is told, the pauses grow; a wave of requests counts once.
func TestUntoldLimitsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{left: 8, wave: 6, full: make(chan struct{})}
		p := bubble(t, outbound.Config{Attempts: 1}, l.ServeHTTP)
		c := p.Client("one", parse(t, "http://localhost"))
		told := func() time.Duration {
			_, err := c.Do(t.Context(), get("/"))
			fails(t, err, action.ErrUnavailable, "upstream_rate_limited", "")
			return retryAfter(err)
		}
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { told() })
		}
		wg.Wait()
		for _, least := range []time.Duration{2 * time.Second, 4 * time.Second} {
			time.Sleep(4 * time.Second)
			synctest.Wait()
			if got := told(); got < least || got > least*3/2+time.Second {
				t.Errorf("told to wait %v, want %v and up to a half more", got, least)
			}
			time.Sleep(4 * time.Second)
		}
		if _, err := c.Do(t.Context(), get("/")); err != nil {
			t.Error(err)
		}
	})
}

func TestModulesKnowTheirLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := bubble(t, outbound.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader([]int{400, 429}[asked-1])
		})
		r := post("/")
		r.Limited = func(resp *outbound.Response) (time.Duration, bool) { return 2 * time.Second, resp.Status == 400 }
		began := time.Now()
		resp, err := p.Client("one", parse(t, "http://localhost")).Do(t.Context(), r)
		if err != nil || resp.Status != 429 || asked != 2 || time.Since(began) != 2*time.Second {
			t.Errorf("%+v, %v after %v", resp, err, time.Since(began))
		}
	})
}

func TestPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		serial bool
		whose  func(i int) string
		want   int32
	}{
		"of a client": {false, func(int) string { return "one" }, 3},
		"of a host":   {false, func(i int) string { return fmt.Sprint(i) }, 5},
		"serial":      {true, func(int) string { return "one" }, 1},
		"serial, two": {true, func(i int) string { return fmt.Sprint(i % 2) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, most, all atomic.Int32
				p := bubble(t, outbound.Config{PerHost: 5, PerClient: 3}, func(http.ResponseWriter, *http.Request) {
					all.Add(1)
					if n := now.Add(1); n > most.Load() {
						most.Store(n)
					}
					time.Sleep(time.Second)
					now.Add(-1)
				})
				var wg sync.WaitGroup
				for i := range 12 {
					wg.Go(func() {
						r := get("/")
						r.Serial = test.serial
						if _, err := p.Client(test.whose(i), parse(t, "http://localhost")).Do(t.Context(), r); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if most.Load() != test.want || all.Load() != 12 {
					t.Errorf("%d at a time, want %d; %d in all", most.Load(), test.want, all.Load())
				}
			})
		})
	}
}

// Who does not get a place in time has sent nothing.
func TestWaitingForAPlaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := bubble(t, outbound.Config{PerClient: 1}, func(http.ResponseWriter, *http.Request) { asked++; time.Sleep(10 * time.Second) })
		c := p.Client("one", parse(t, "http://localhost"))
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Do(t.Context(), get("/")) })
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := c.Do(ctx, post("/"))
		fails(t, err, action.ErrUnavailable, "upstream_timeout", "not sent")
		wg.Wait()
		if asked != 1 {
			t.Errorf("%d requests", asked)
		}
	})
}

func TestIdleClientsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bubble(t, outbound.Config{IdleClients: 3}, func(w http.ResponseWriter, _ *http.Request) {})
		base := parse(t, "http://localhost")
		for i := range 10 {
			if _, err := p.Client(fmt.Sprint(i), base).Do(t.Context(), get("/")); err != nil {
				t.Fatal(err)
			}
		}
		if p.Remembered() != 3 {
			t.Errorf("%d are remembered", p.Remembered())
		}
	})
}
