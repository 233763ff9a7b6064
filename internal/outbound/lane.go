package outbound

import (
	"container/list"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// maxQuiet bounds how long a service can have itself left alone.
const maxQuiet = time.Hour

// slots are places that a bounded number of requests can take.
type slots chan struct{}

// take waits for a place, and reports whether it got one before ctx ended.
func (s slots) take(ctx context.Context) bool {
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

func (s slots) free() { <-s }

// lane is what the clients of one credential at one service share.
type lane struct {
	slots, serial slots
	users         int // guarded by lanes
	at            *list.Element

	mu    sync.Mutex // the fields below
	until time.Time  // the service is left alone
	row   int        // times in a row that it did not say for how long
	seen  int        // counts the words that it wants fewer requests
}

// wait returns how long the service is to be left alone from now on, and what
// the next request has seen of its limits when it is sent.
func (l *lane) wait(now time.Time) (time.Duration, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until.Sub(now), l.seen
}

// limit notes that the service wants to be left alone, and returns for how
// long it is now. Zero: it did not say how long, then it is longer each time.
// Requests that were under way together count as one.
func (l *lane) limit(now time.Time, wait time.Duration, seen int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait <= 0 && seen == l.seen {
		l.row++
		wait = jitter(time.Second << min(l.row-1, 6))
	}
	if seen == l.seen {
		l.seen++
	}
	if until := now.Add(min(wait, maxQuiet)); until.After(l.until) {
		l.until = until
	}
	return max(l.until.Sub(now), 0)
}

// passed notes that the service did not mind a request.
func (l *lane) passed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.row = 0
}

// lanes keeps the lanes by their keys: those in use, and of the others the
// ones that were used last.
type lanes struct {
	perLane, idle int

	mu    sync.Mutex
	byKey map[string]*lane
	spare *list.List // keys of lanes that nobody uses, the latest first
}

func newLanes(perLane, idle int) *lanes {
	return &lanes{perLane: perLane, idle: idle, byKey: map[string]*lane{}, spare: list.New()}
}

func (s *lanes) enter(key string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil {
		l = &lane{slots: make(slots, s.perLane), serial: make(slots, 1)}
		s.byKey[key] = l
	}
	if l.at != nil {
		s.spare.Remove(l.at)
		l.at = nil
	}
	l.users++
	return l
}

func (s *lanes) leave(key string, l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.at = s.spare.PushFront(key)
	if s.spare.Len() > s.idle {
		delete(s.byKey, s.spare.Remove(s.spare.Back()).(string))
	}
}

// host is what all clients of a host share.
type host struct {
	slots slots
	users int // guarded by the pool
}

func (p *Pool) enter(key string) *host {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[key]
	if h == nil {
		h = &host{slots: make(slots, p.PerHost)}
		p.hosts[key] = h
	}
	h.users++
	return h
}

func (p *Pool) leave(key string, h *host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(p.hosts, key)
	}
}

// limited asks the request what the answer means.
func (r *Request) limited(resp *Response, now time.Time) (time.Duration, bool) {
	if r.Limited != nil {
		return r.Limited(resp)
	}
	return told(resp, now), resp.Status == http.StatusTooManyRequests
}

// told reads how long a service wants to be left alone: seconds, or until a
// date; zero: it does not say.
func told(resp *Response, now time.Time) time.Duration {
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
	return min(max(wait, 0), maxQuiet)
}
