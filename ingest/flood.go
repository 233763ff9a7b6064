package ingest

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// manyTenants is how much more the URL of a whole provider takes than that of
	// a trigger: everybody's deliveries come there.
	manyTenants = 10
	// maxBodies bounds how many bodies are remembered, twice: some 10 MB.
	maxBodies = 1 << 16
)

// flood counts genuine deliveries by URL and minute. Each process counts its
// own. What was there before has a budget of its own: whoever captured deliveries
// could otherwise send them again until there is no room for new ones. The counts
// need no bound: only URLs that exist, and whose secret somebody has, are ever
// counted, and each minute begins with none.
type flood struct {
	limit  int // less than zero: none
	mu     sync.Mutex
	minute time.Time
	counts map[budget]int

	bodies, older map[[16]byte]bool // that came in since, and in the window before
	since         time.Time
}

// toll is what a delivery was counted as.
type toll struct {
	minute time.Time
	at     budget
	body   [16]byte
}

// budget is one of a URL's budgets.
type budget struct {
	path   string
	repeat bool
}

// take counts one. When there were too many it returns how long to wait, and
// otherwise zero.
func (f *flood) take(path, body string, whole bool, now time.Time) (t toll, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn(now)
	sum := sha256.Sum256([]byte(path + "\x00" + body))
	t = toll{minute: f.minute, body: [16]byte(sum[:16])}
	t.at = budget{path: path, repeat: f.bodies[t.body] || f.older[t.body]}
	limit := f.limit
	if whole {
		limit *= manyTenants
	}
	if limit >= 0 && f.counts[t.at] >= limit {
		return t, f.minute.Add(time.Minute).Sub(now)
	}
	f.counts[t.at]++
	return t, 0
}

// kept notes that one was kept. One that was there already, though nobody here
// remembers it, is counted as what it is.
func (f *flood) kept(t toll, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.bodies) >= maxBodies {
		f.older, f.bodies = f.bodies, map[[16]byte]bool{}
	}
	f.bodies[t.body] = true
	if !fresh && !t.at.repeat && t.minute.Equal(f.minute) {
		f.counts[t.at]--
		f.counts[budget{t.at.path, true}]++
	}
}

// turn begins a minute with no counts, and forgets bodies from before the last
// window.
func (f *flood) turn(now time.Time) {
	if minute := now.Truncate(time.Minute); f.counts == nil || !minute.Equal(f.minute) {
		f.minute, f.counts = minute, map[budget]int{}
	}
	if age := now.Sub(f.since); f.bodies == nil || age < 0 || age >= repeatWindow {
		f.older, f.bodies = f.bodies, map[[16]byte]bool{}
		if f.since = now; age < 0 || age >= 2*repeatWindow {
			f.older = nil
		}
	}
}
