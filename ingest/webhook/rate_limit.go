package webhook

import (
	"crypto/sha256"
	"sync"
	"time"

	"sallyport/ingest/delivery"
)

const (
	// providerFactor is how much more the URL of a whole provider takes than that of
	// a trigger: everybody's deliveries come there.
	providerFactor = 10
	// maxRememberedBodies bounds how many bodies are remembered, twice: some 10 MB.
	maxRememberedBodies = 1 << 16
)

// rateLimiter counts genuine deliveries by URL and minute. Each process counts its
// own. What was there before has a budget of its own: whoever captured deliveries
// could otherwise send them again until there is no room for new ones. The counts
// need no bound: only URLs that exist, and whose secret somebody has, are ever
// counted, and each minute begins with none.
type rateLimiter struct {
	limit  int // less than zero: none
	mu     sync.Mutex
	minute time.Time
	counts map[budget]int

	bodies, olderBodies map[[16]byte]bool // that came in since, and in the window before
	bodiesSince         time.Time
}

// charge is what a delivery was counted as.
type charge struct {
	minute time.Time
	budget budget
	body   [16]byte
}

// budget is one of a URL's budgets.
type budget struct {
	path   string
	repeat bool
}

// charge counts one. When there were too many it returns how long to wait, and
// otherwise zero.
func (f *rateLimiter) charge(path, body string, whole bool, now time.Time) (t charge, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rollOver(now)
	sum := sha256.Sum256([]byte(path + "\x00" + body))
	t = charge{minute: f.minute, body: [16]byte(sum[:16])}
	t.budget = budget{path: path, repeat: f.bodies[t.body] || f.olderBodies[t.body]}
	limit := f.limit
	if whole {
		limit *= providerFactor
	}
	if limit >= 0 && f.counts[t.budget] >= limit {
		return t, f.minute.Add(time.Minute).Sub(now)
	}
	f.counts[t.budget]++
	return t, 0
}

// confirm notes that one was kept. One that was there already, though nobody here
// remembers it, is counted as what it is.
func (f *rateLimiter) confirm(t charge, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.bodies) >= maxRememberedBodies {
		f.olderBodies, f.bodies = f.bodies, map[[16]byte]bool{}
	}
	f.bodies[t.body] = true
	if !fresh && !t.budget.repeat && t.minute.Equal(f.minute) {
		f.counts[t.budget]--
		f.counts[budget{t.budget.path, true}]++
	}
}

// rollOver begins a minute with no counts, and forgets bodies from before the last
// window.
func (f *rateLimiter) rollOver(now time.Time) {
	if minute := now.Truncate(time.Minute); f.counts == nil || !minute.Equal(f.minute) {
		f.minute, f.counts = minute, map[budget]int{}
	}
	if age := now.Sub(f.bodiesSince); f.bodies == nil || age < 0 || age >= delivery.RepeatWindow {
		f.olderBodies, f.bodies = f.bodies, map[[16]byte]bool{}
		if f.bodiesSince = now; age < 0 || age >= 2*delivery.RepeatWindow {
			f.olderBodies = nil
		}
	}
}
