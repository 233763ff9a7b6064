package sources

import (
	"fmt"
	"slices"
	"time"

	"sallyport/action"
)

// Minimum interval between refreshes that a source's own notifications cause. A
// server that notifies again and again, or whose list differs each time, is
// refreshed every refreshIntervalSlow until it was quiet for burstReset.
const (
	refreshInterval     = time.Second
	refreshIntervalSlow = 30 * time.Second
	burstReset          = time.Minute
	burstLimit          = 10
)

// listSet is the set of lists that a source announced as changed.
type listSet [3]bool

const (
	changedTools = iota
	changedResources
	changedPrompts
)

// changeCounts counts the announced changes of each list.
type changeCounts [len(listSet{})]int

func (c *changeCounts) add(k listSet) {
	for i, told := range k {
		if told {
			c[i]++
		}
	}
}

// notificationState is a feed's state of the source's notifications.
type notificationState struct {
	listening   bool
	pending     listSet // not refreshed yet
	refreshing  bool
	lastRefresh time.Time // that notifications caused
	burst       int       // refreshes since the source was last quiet
}

// listen runs until the feed is closed. A source without a notification stream
// is retried later: its server can be upgraded.
func (f *feed) listen() {
	t := f.tenant
	wait := t.Retry
	for {
		began := t.Now()
		err := f.listenOnce()
		if f.ctx.Err() != nil {
			return
		}
		pause := t.TTL
		if err != nil {
			t.Log.Debug("could not listen to a source", "organization", t.organization, "source", f.source.ID(), "again_in", wait, "error", err)
			if t.Now().Sub(began) > maxRetry {
				wait = t.Retry
			}
			pause, wait = wait, min(2*wait, maxRetry)
		}
		if !f.sleep(pause) {
			return
		}
	}
}

func (f *feed) listenOnce() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the source panicked: %v", p)
		}
	}()
	return f.source.Listen(f.ctx, f.onNotice)
}

// onNotice handles one notification. It does not block.
func (f *feed) onNotice(n Notice) {
	var k listSet
	switch n.Kind {
	case NoticeTools:
		k[changedTools] = true
	case NoticeResources:
		k[changedResources] = true
	case NoticePrompts:
		k[changedPrompts] = true
	case NoticeUpdated:
		f.onResourceUpdated(n.URI)
		return
	default:
		return
	}
	f.tenant.mu.Lock()
	defer f.tenant.mu.Unlock()
	f.notifications.pending.merge(k)
	if !f.notifications.refreshing {
		f.notifications.refreshing = f.tenant.goTracked(f.refreshLoop)
	}
}

func (k *listSet) merge(more listSet) {
	for i, told := range more {
		k[i] = k[i] || told
	}
}

// refreshLoop refreshes the lists until no announced change is pending, and
// retries after failures.
func (f *feed) refreshLoop() {
	for {
		wait, due := f.nextRefresh()
		if !due || !f.sleep(wait) {
			return
		}
		f.refreshNow()
	}
}

// nextRefresh returns the delay before the next refresh, and whether one is
// due.
func (f *feed) nextRefresh() (wait time.Duration, due bool) {
	t := f.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.notifications.pending == (listSet{}) {
		f.notifications.refreshing = false
		return 0, false
	}
	now, gap := t.Now(), refreshInterval
	if f.notifications.burst >= burstLimit {
		gap = refreshIntervalSlow
	}
	next := f.notifications.lastRefresh.Add(gap)
	if f.retryAt.After(next) {
		next = f.retryAt
	}
	return next.Sub(now), true
}

// refreshNow refreshes the lists. A refresh in progress can return older ones:
// it is awaited first.
func (f *feed) refreshNow() {
	t := f.tenant
	t.mu.Lock()
	under := f.refresh
	t.mu.Unlock()
	if under != nil {
		<-under.done
	}
	t.mu.Lock()
	fl := f.refresh // another caller can have started it
	if fl == nil {
		fl = f.startLocked()
	}
	now := t.Now()
	if now.Sub(f.notifications.lastRefresh) > burstReset {
		f.notifications.burst = 0
	}
	f.notifications.lastRefresh = now
	f.notifications.burst++
	fl.changed.merge(f.notifications.pending)
	f.notifications.pending = listSet{}
	t.mu.Unlock()
	<-fl.done
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.err != nil {
		f.notifications.pending.merge(fl.changed) // try again
	}
}

// sleep reports false if the feed was closed meanwhile.
func (f *feed) sleep(d time.Duration) bool {
	if d <= 0 {
		return f.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.ctx.Done():
		return false
	}
}

// A changed resource is announced at most once in updateEvery for each URI, and
// for at most maxUpdates URIs. Further updates are dropped: they are hints.
const (
	updateEvery = time.Second
	maxUpdates  = 200
)

// resourceUpdates limits the rate of resource updates.
type resourceUpdates struct {
	recent  map[string]bool // announced within the last updateEvery
	waiting map[string]bool // updated again since
	running bool
}

// onResourceUpdated announces that a resource changed: at once, or after a
// delay if it was announced just now. It does not block.
func (f *feed) onResourceUpdated(uri string) {
	if uri == "" || len(uri) > maxURIBytes {
		return
	}
	t, u := f.tenant, &f.updates
	t.mu.Lock()
	if u.recent == nil {
		u.recent, u.waiting = map[string]bool{}, map[string]bool{}
	}
	now := !u.recent[uri] && len(u.recent) < maxUpdates
	switch {
	case now:
		u.recent[uri] = true
	case len(u.waiting) < maxUpdates:
		u.waiting[uri] = true
	}
	if !u.running {
		u.running = t.goTracked(f.publishLoop)
	}
	t.mu.Unlock()
	if now {
		f.publish(uri)
	}
}

// publishLoop announces waiting updates until there are none.
func (f *feed) publishLoop() {
	t, u := f.tenant, &f.updates
	for f.sleep(updateEvery) {
		t.mu.Lock()
		u.recent, u.waiting = u.waiting, map[string]bool{}
		uris := make([]string, 0, len(u.recent))
		for uri := range u.recent {
			uris = append(uris, uri)
		}
		u.running = len(uris) > 0
		t.mu.Unlock()
		if len(uris) == 0 {
			return
		}
		slices.Sort(uris)
		for _, uri := range uris {
			f.publish(uri)
		}
	}
}

func (f *feed) publish(uri string) {
	t := f.tenant
	if t.Hints != nil {
		t.Hints.Publish(action.Hint{Kind: action.HintResource, Organization: t.organization, Source: f.source.ID(), Resource: uri})
	}
}
