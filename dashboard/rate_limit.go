package dashboard

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sallyport/action"
)

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

// From manyPaces keys on, idle ones are evicted; keys beyond mostPaces share one
// bucket.
const (
	manyPaces = 1000
	mostPaces = 10_000
)

// allow reports whether a key may proceed, and counts it.
func (p *rateLimiter) allow(who string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[who] == nil && len(p.of) >= manyPaces && now.Sub(p.swept) >= p.every*time.Duration(p.burst) {
		p.swept = now // a new bucket needs that long to be full again
		for name, l := range p.of {
			if l.TokensAt(now) >= float64(p.burst) {
				delete(p.of, name)
			}
		}
	}
	if p.of[who] == nil && len(p.of) >= mostPaces {
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

// clientAddress returns the address of the client; for IPv6 the network, which
// belongs to one client.
func clientAddress(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		if net, err := addr.Prefix(64); err == nil {
			return net.String()
		}
	}
	return addr.String()
}
