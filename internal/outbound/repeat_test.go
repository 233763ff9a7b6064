package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
)

// What may have been received is sent again only where it may be.
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		p := bubble(t, outbound.Config{}, func(w http.ResponseWriter, r *http.Request) {
			n := asked.Add(1)
			switch r.URL.Path {
			case "/heals":
				if n < 3 {
					w.WriteHeader(http.StatusBadGateway)
				}
			case "/breaks":
				panic(http.ErrAbortHandler)
			case "/later":
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusServiceUnavailable)
			case "/500":
				w.WriteHeader(http.StatusInternalServerError)
			default:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		c := p.Client("one", parse(t, "http://localhost"))
		put := func(path string) *outbound.Request {
			return &outbound.Request{Method: "PUT", Path: path, Body: []byte("x"), Repeatable: true}
		}
		for _, test := range []struct {
			r      *outbound.Request
			status int // zero: an error
			asked  int32
		}{
			{get("/heals"), 200, 3},
			{post("/heals"), 502, 1},
			{put("/heals"), 200, 3},
			{get("/503"), 503, 3},
			{get("/later"), 503, 1},
			{get("/500"), 500, 1},
			{put("/breaks"), 0, 3},
			{post("/breaks"), 0, 1},
		} {
			asked.Store(0)
			resp, err := c.Do(t.Context(), test.r)
			if asked.Load() != test.asked {
				t.Errorf("%s %s: asked %d times, want %d", test.r.Method, test.r.Path, asked.Load(), test.asked)
			}
			if test.status == 0 {
				fails(t, err, action.ErrOutcomeUnknown, "upstream_failed", "was lost")
			} else if err != nil || resp.Status != test.status {
				t.Errorf("%s %s: %+v, %v", test.r.Method, test.r.Path, resp, err)
			}
		}
	})
}

// What an earlier try may have done is not undone by a later one that did
// nothing.
func TestALaterTryDoesNotMakeSure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		p := bubble(t, outbound.Config{}, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case asked.Add(1) > 1:
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusTooManyRequests)
			case r.URL.Path == "/breaks":
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(http.StatusBadGateway)
			}
		})
		for _, path := range []string{"/breaks", "/fails"} {
			asked.Store(0)
			_, err := p.Client(path, parse(t, "http://localhost")).Do(t.Context(), get(path))
			fails(t, err, action.ErrOutcomeUnknown, "upstream_rate_limited", "a retry failed")
			if errors.Is(err, action.ErrUnavailable) || asked.Load() != 2 {
				t.Errorf("%s: asked %d times, then %v", path, asked.Load(), err)
			}
		}
	})
}

// A write goes out as soon as there is somebody to receive it, and once.
func TestWhatWasNotSentIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials, asked int
		p := bubble(t, outbound.Config{}, func(http.ResponseWriter, *http.Request) { asked++ })
		dial := p.Dial()
		p.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials++; dials < 3 {
				return nil, errors.New("connection refused")
			}
			return dial(ctx, network, address)
		})
		c := p.Client("one", parse(t, "http://localhost"))
		if _, err := c.Do(t.Context(), post("/")); err != nil || dials != 3 || asked != 1 {
			t.Errorf("%v, %d dials, %d requests", err, dials, asked)
		}
	})
}

// A connection that was closed while nobody used it has received nothing of
// the next request; one that breaks during it may have received it.
func TestReusedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := bubble(t, outbound.Config{Attempts: 1}, func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked == 3 {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, "ok")
		})
		var last *breaking
		dial := p.Dial()
		p.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			last = &breaking{Conn: c}
			return last, err
		})
		c := p.Client("one", parse(t, "http://localhost"))
		if _, err := c.Do(t.Context(), post("/")); err != nil {
			t.Fatal(err)
		}
		last.broken.Store(true)
		if _, err := c.Do(t.Context(), post("/")); err != nil || asked != 2 {
			t.Errorf("after a connection that could not be written to: %v, %d requests", err, asked)
		}
		_, err := c.Do(t.Context(), post("/"))
		fails(t, err, action.ErrOutcomeUnknown, "upstream_failed", "whether the request had an effect")
		if _, err := c.Do(t.Context(), post("/")); err != nil {
			t.Fatal(err)
		}
		last.broken.Store(true)
		p.DialWith(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") })
		_, err = c.Do(t.Context(), post("/"))
		fails(t, err, action.ErrUnavailable, "upstream_unreachable", "cannot be reached")
		if asked != 4 {
			t.Errorf("%d requests", asked)
		}
	})
}

// breaking is a connection that takes nothing any more from some time on.
type breaking struct {
	net.Conn
	broken atomic.Bool
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, errors.New("broken pipe")
	}
	return b.Conn.Write(p)
}

func TestPausesBetweenTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		p := bubble(t, outbound.Config{MaxWait: 1}, func(w http.ResponseWriter, _ *http.Request) {
			at = append(at, time.Since(began))
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		if _, err := p.Client("one", parse(t, "http://localhost")).Do(t.Context(), get("/")); err != nil {
			t.Fatal(err)
		}
		if len(at) != 3 || at[1]-at[0] < 250*time.Millisecond || at[2]-at[1] < 500*time.Millisecond || at[2] > 2*time.Second {
			t.Errorf("asked at %v", at)
		}
	})
}
