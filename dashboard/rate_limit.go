package dashboard

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sallyport/action"
)

// How often links are made for one person, and how often an address may try
// codes that are none. Codes cannot be guessed; what is bounded is the work, and
// how many good links of one person lie about.
const (
	linksAtOnce = 20
	linkEvery   = 30 * time.Second // about as many as live at once
	triesAtOnce = 30
	tryEvery    = 2 * time.Second
)

// rateLimiter counts what each of many does, on this instance.
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

// From manyPaces on, those are forgotten who did nothing for long; whoever comes
// beyond mostPaces shares one with all others beyond.
const (
	manyPaces = 1000
	mostPaces = 10_000
)

// allow reports whether who may do one more, and counts it.
func (p *rateLimiter) allow(who string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[who] == nil && len(p.of) >= manyPaces && now.Sub(p.swept) >= p.every*time.Duration(p.burst) {
		p.swept = now // before that time nobody who is new has his whole burst again
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

// clientAddress is the address that a request comes from: of IPv6, the network, all of
// which is one sender's.
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
