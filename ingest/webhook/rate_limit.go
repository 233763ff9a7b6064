package webhook

import (
	"crypto/sha256"
	"sync"
	"time"

	"sallyport/ingest/delivery"
)

const (
	// providerFactor is the rate limit of a provider URL in multiples of a trigger's: it
	// receives the deliveries of all organizations.
	providerFactor = 10
	// maxRememberedBodies bounds the hashes of a window; two windows take about 10 MB.
	maxRememberedBodies = 1 << 16
)

// rateLimiter counts verified deliveries by URL and minute, per instance. Repeats have a
// separate budget: otherwise, captured deliveries could be replayed until there is no
// budget for new ones. The counts need no bound, because only deliveries with a valid
// secret are counted, and every minute starts at zero.
type rateLimiter struct {
	limit  int // negative: no limit
	mu     sync.Mutex
	minute time.Time
	counts map[budget]int

	bodies, olderBodies map[[16]byte]bool // of this window and of the one before
	bodiesSince         time.Time
}

// charge is a counted delivery.
type charge struct {
	minute time.Time
	budget budget
	body   [16]byte
}

// budget identifies one of a URL's two budgets.
type budget struct {
	path   string
	repeat bool
}

// charge counts a delivery. Above the limit it returns how long to wait, otherwise
// zero.
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

// confirm records a stored delivery. If the database had it already, it is moved to
// the budget of repeats.
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

// rollOver resets the counts every minute and drops bodies older than two windows.
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
