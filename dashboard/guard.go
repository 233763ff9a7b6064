package dashboard

import (
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sallyport/action"
	"sallyport/dashboard/render"
)

// contentPolicy restricts pages to their own files.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guard wraps every route: it checks the Host and Origin headers and sets the
// security headers of the response.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if err := s.checkAddress(r); err != nil {
			s.Fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkAddress refuses foreign hosts (DNS rebinding) and foreign origins, whatever
// the credential, and API paths with an empty segment: the mux would redirect to
// the cleaned path, which is another resource.
func (s *Server) checkAddress(r *http.Request) error {
	host := strings.ToLower(r.Host)
	name, _, err := net.SplitHostPort(host) // the name alone identifies a rebound host
	known := s.hosts[host] || err == nil && (s.hosts[name] || s.hosts["["+name+"]"])
	origin, hasOrigin := r.Header["Origin"]
	p := r.URL.EscapedPath()
	switch {
	case r.URL.Path == "/healthz", r.URL.Path == "/readyz": // probes use the address itself
	case !known:
		return action.NewError("foreign_host", s.PublicURL)
	case hasOrigin && (len(origin) != 1 || origin[0] != s.PublicURL):
		return action.Errorf(action.ErrForbidden, "foreign_origin",
			"Requests from pages of another origin are refused; open %s.", s.PublicURL)
	case strings.HasPrefix(p, "/api/") && path.Clean(p) != strings.TrimSuffix(p, "/"):
		return action.Errorf(action.ErrInvalid, "invalid_path",
			"A segment of the path %s is empty or contains only dots. In a name, write / as %%2F.", render.Plain(r.URL.Path))
	}
	return nil
}

// fromPage reports whether the Origin header is that of the page.
func (s *Server) fromPage(r *http.Request) bool { return r.Header.Get("Origin") == s.PublicURL }

// Rates of new sign-in links per person and of invalid codes per address. Codes
// cannot be guessed; the limits bound the work, and the number of valid links of
// one person.
const (
	linksAtOnce = 20
	linkEvery   = 30 * time.Second // so that about as many are valid at once
	triesAtOnce = 30
	tryEvery    = 2 * time.Second
)

// rateLimiter is a token bucket per key, on this instance only.
type rateLimiter struct {
	mu    sync.Mutex
	every time.Duration
	burst int
	of    map[string]*rate.Limiter
	swept time.Time
}

func newRateLimiter(every time.Duration, burst int) *rateLimiter {
	return &rateLimiter{every: every, burst: burst, of: map[string]*rate.Limiter{}}
}

// From evictFrom keys on, idle ones are evicted; keys beyond maxKeys share one
// bucket.
const (
	evictFrom = 1000
	maxKeys   = 10_000
)

// allow reports whether a key may proceed, and counts it.
func (p *rateLimiter) allow(who string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[who] == nil && len(p.of) >= evictFrom && now.Sub(p.swept) >= p.every*time.Duration(p.burst) {
		p.swept = now // a new bucket needs that long to be full again
		for name, l := range p.of {
			if l.TokensAt(now) >= float64(p.burst) {
				delete(p.of, name)
			}
		}
	}
	if p.of[who] == nil && len(p.of) >= maxKeys {
		who = ""
	}
	if p.of[who] == nil {
		p.of[who] = rate.NewLimiter(rate.Every(p.every), p.burst)
	}
	return p.of[who].AllowN(now, 1)
}

func errTooOften(wait time.Duration, what string) error {
	return &action.Error{Kind: action.ErrTooMany, Code: "too_many_attempts", Message: what, RetryAfter: wait}
}
