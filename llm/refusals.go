package llm

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Coding agents repeat a request that was refused for a while (429, 503, 529) many times,
// and wait as long as the response says: OpenCode hangs for more than a minute, or for an
// hour. So a wait is at most maxRetryAfter, and the refusal after maxRefusals in a row is
// final (403), which agents show at once.
const (
	maxRetryAfter = 20 * time.Second
	maxRefusals   = 4
	minFinal      = 20 * time.Second // how long a final refusal lasts at least
	maxFinal      = 5 * time.Minute
	forgetAfter   = 5 * time.Minute // since the last refusal
	maxTracked    = 10_000
)

// passing reports whether a status refuses for a while.
func passing(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529
}

// refusals counts the refusals in a row of a provider, for each session. The zero value
// is ready.
type refusals struct {
	mu  sync.Mutex
	all map[string]*refusal
}

type refusal struct {
	count int
	last  time.Time
	until time.Time // of the final refusal
}

// final returns until when requests are refused without asking the provider; the zero
// time if they are not.
func (t *refusals) final(key string, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.all[key]; r != nil && now.Before(r.until) {
		return r.until
	}
	return time.Time{}
}

// note records a response, and returns until when requests are refused if this refusal
// is final.
func (t *refusals) note(key string, status int, wait time.Duration, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !passing(status) {
		delete(t.all, key)
		return time.Time{}
	}
	if t.all == nil || len(t.all) >= maxTracked {
		t.all = map[string]*refusal{}
	}
	r := t.all[key]
	if r == nil || now.Sub(r.last) > forgetAfter {
		r = &refusal{}
		t.all[key] = r
	}
	r.count, r.last = r.count+1, now
	if r.count < maxRefusals {
		return time.Time{}
	}
	r.until = now.Add(min(max(wait, minFinal), maxFinal))
	return r.until
}

// retryAfter returns how long a response asks to wait; zero if it does not.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second))
	}
	if t, err := http.ParseTime(text); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

// limitWait shortens the wait that a response asks for.
func limitWait(h http.Header, wait time.Duration) {
	if wait <= maxRetryAfter {
		return
	}
	h.Del("Retry-After-Ms")
	h.Set("Retry-After", strconv.Itoa(int(maxRetryAfter/time.Second)))
}
