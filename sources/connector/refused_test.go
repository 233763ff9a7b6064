package connector_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// TestRenewedCredential has a server refuse a token in the middle of the day:
// with a new one the call is sent once more, and runs once.
func TestRenewedCredential(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			var valid, token, ran atomic.Int64
			valid.Store(1)
			token.Store(1)
			u := newUpstream(t, era.stateless, func(w http.ResponseWriter, r *http.Request, p *post) {
				if r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-number-%d", valid.Load()) {
					w.Header().Add("Www-Authenticate", `Bearer error="invalid_token"`)
					w.Header().Add("Www-Authenticate", `Basic`)
					w.WriteHeader(http.StatusUnauthorized)
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"no"}}`, p.ID)
					return
				}
				ran.Add(1)
				respond(w, p, fmt.Sprintf(`{"content":[],"echo":%q}`, r.Header.Get("Authorization")))
			})
			var told []string
			gone := action.Errorf(action.ErrUnavailable, sources.FaultReconnect, "Sign in again.")
			s := open(t, u.URL, func(c *connector.Config) {
				c.Prefix = "Bearer "
				c.Secret = func(context.Context) (string, string, error) {
					return fmt.Sprintf("token-number-%d", token.Load()), u.Listener.Addr().String(), nil
				}
				c.Refused = func(_ context.Context, used string, status int, challenges []string) (bool, error) {
					told = append(told, fmt.Sprintf("%s %d %v", used, status, challenges))
					if token.Add(1) > 3 {
						return false, gone
					}
					return true, nil
				}
			})
			if _, err := s.Call(t.Context(), "tool", nil, nobody()); err != nil {
				t.Fatal(err)
			}
			valid.Store(2)
			res, err := s.Call(t.Context(), "tool", nil, nobody())
			if err != nil || ran.Load() != 2 || contains(string(res.Body), "number-2") {
				t.Errorf("got %s, %v; it ran %d times", res.Body, err, ran.Load())
			}
			if diff := cmp.Diff([]string{"token-number-1", "token-number-2"}, res.Secrets); diff != "" {
				t.Error(diff)
			}
			valid.Store(9)
			_, err = s.Call(t.Context(), "tool", nil, nobody())
			wantFault(t, err, action.ErrUnavailable, sources.FaultReconnect)
			challenges := `[Bearer error="invalid_token" Basic]`
			if diff := cmp.Diff([]string{"token-number-1 401 " + challenges, "token-number-2 401 " + challenges, "token-number-3 401 " + challenges}, told); diff != "" {
				t.Error(diff)
			}
			if n := len(u.received("tools/call")); n != 5 {
				t.Errorf("calls were sent %d times", n)
			}
		})
	}
}

// TestRenewedForHandshake has the handshake refused, and 403 at a call.
func TestRenewedForHandshake(t *testing.T) {
	var asked atomic.Int64
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		if r.Header.Get("Authorization") != "good" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		respond(w, p, `{"content":[]}`)
	})
	inner := u.Config.Handler
	u.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "bad" {
			w.Header().Set("Www-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
	secret := atomic.Value{}
	secret.Store("bad")
	s := open(t, u.URL, func(c *connector.Config) {
		c.Secret = func(context.Context) (string, string, error) {
			return secret.Load().(string), u.Listener.Addr().String(), nil
		}
		c.Refused = func(_ context.Context, used string, status int, challenges []string) (bool, error) {
			switch asked.Add(1) {
			case 1:
				if used != "bad" || status != http.StatusUnauthorized || len(challenges) != 1 {
					t.Errorf("told of %q, %d, %q", used, status, challenges)
				}
				secret.Store("middling")
			default:
				secret.Store("good")
			}
			return true, nil
		}
	})
	if _, err := s.Call(t.Context(), "tool", nil, nobody()); err != nil || asked.Load() != 2 {
		t.Errorf("%v after %d refusals", err, asked.Load())
	}
}

// TestHeaders are sent along with ours.
func TestHeaders(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, `{"content":[]}`) })
	s := open(t, u.URL, func(c *connector.Config) {
		c.Header = "X-Key"
		c.Headers = map[string]string{"X-Region": "eu"}
		c.Secret = func(context.Context) (string, string, error) { return "key-of-ours", u.Listener.Addr().String(), nil }
	})
	if _, err := s.Call(t.Context(), "tool", nil, nobody()); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"initialize", "tools/call"} {
		h := u.received(method)[0].header
		if diff := cmp.Diff([]string{"eu", "sallyport/dev", "key-of-ours"}, []string{h.Get("X-Region"), h.Get("User-Agent"), h.Get("X-Key")}); diff != "" {
			t.Errorf("%s: %s", method, diff)
		}
	}
}

// TestRetryAfterDate has a server say when, and not how long.
func TestRetryAfterDate(t *testing.T) {
	for _, test := range []struct {
		text     string
		min, max time.Duration
	}{
		{time.Now().Add(30 * time.Minute).UTC().Format(http.TimeFormat), 20 * time.Minute, 30 * time.Minute},
		{time.Now().Add(30 * time.Hour).UTC().Format(http.TimeFormat), time.Hour, time.Hour},
		{time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 0, 0},
		{"99999", time.Hour, time.Hour},
		{"-1", 0, 0},
		{"soon", 0, 0},
	} {
		u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, _ *post) {
			w.Header().Set("Retry-After", test.text)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		_, err := open(t, u.URL, nil).Call(t.Context(), "tool", nil, nobody())
		wantFault(t, err, action.ErrUnavailable, sources.FaultRateLimited)
		if got := action.Public(err).RetryAfter; got < test.min || got > test.max {
			t.Errorf("%s: retry after %s", test.text, got)
		}
	}
}
