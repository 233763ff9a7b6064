package outbound

import (
	"container/list"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// maxPause limits the delay that a service can request.
const maxPause = time.Hour

// semaphore bounds the number of concurrent requests.
type semaphore chan struct{}

// acquire waits for a slot, and reports whether it got one before ctx ended.
func (s semaphore) acquire(ctx context.Context) bool {
	select {
	case s <- struct{}{}:
		return true
	default:
	}
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s semaphore) release() { <-s }

// limiter is the rate limiter that clients with one credential at one service
// share.
type limiter struct {
	slots, serial semaphore
	users         int // guarded by limiterCache
	element       *list.Element

	mu           sync.Mutex // the fields below
	pausedUntil  time.Time  // at the service's request
	limitedInRow int        // consecutive rate limits without a Retry-After
	generation   int        // counts rate limits
}

// wait returns the remaining pause, and the generation to pass to pause with
// the next request's result.
func (l *limiter) wait(now time.Time) (time.Duration, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pausedUntil.Sub(now), l.generation
}

// pause records a rate limit and returns the remaining pause. If wait is zero, the
// service named no delay, and the pause grows each time. Concurrent requests count
// as one.
func (l *limiter) pause(now time.Time, wait time.Duration, seen int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait <= 0 && seen == l.generation {
		l.limitedInRow++
		wait = jitter(time.Second << min(l.limitedInRow-1, 6))
	}
	if seen == l.generation {
		l.generation++
	}
	if until := now.Add(min(wait, maxPause)); until.After(l.pausedUntil) {
		l.pausedUntil = until
	}
	return max(l.pausedUntil.Sub(now), 0)
}

// reset records a request that was not rate limited.
func (l *limiter) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limitedInRow = 0
}

// limiterCache keeps the limiters in use, and the most recently used others.
type limiterCache struct {
	concurrency, idle int

	mu     sync.Mutex
	byKey  map[string]*limiter
	unused *list.List // keys of unused limiters, the latest first
}

func (s *limiterCache) acquire(key string) *limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil {
		l = &limiter{slots: make(semaphore, s.concurrency), serial: make(semaphore, 1)}
		s.byKey[key] = l
	}
	if l.element != nil {
		s.unused.Remove(l.element)
		l.element = nil
	}
	l.users++
	return l
}

func (s *limiterCache) release(key string, l *limiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.element = s.unused.PushFront(key)
	if s.unused.Len() > s.idle {
		delete(s.byKey, s.unused.Remove(s.unused.Back()).(string))
	}
}

// hostSlots bounds the concurrent requests of all clients to one host.
type hostSlots struct {
	slots semaphore
	users int // guarded by the pool
}

func (p *Pool) acquireHost(key string) *hostSlots {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[key]
	if h == nil {
		h = &hostSlots{slots: make(semaphore, p.PerHost)}
		p.hosts[key] = h
	}
	h.users++
	return h
}

func (p *Pool) releaseHost(key string, h *hostSlots) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(p.hosts, key)
	}
}

// retryAfter parses the Retry-After header, a number of seconds or a date; zero if it
// is absent.
func retryAfter(resp *Response, now time.Time) time.Duration {
	if resp == nil {
		return 0
	}
	text := resp.Header.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxPause)
}
