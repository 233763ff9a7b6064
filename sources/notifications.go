package sources

import (
	"fmt"
	"slices"
	"time"

	"sallyport/action"
)

// How often a source that says that its lists are others is asked for them. A
// server that says so again and again, or whose list is another each time,
// costs a list in noticeSlow, until it was quiet for noticeQuiet.
const (
	refreshInterval     = time.Second
	refreshIntervalSlow = 30 * time.Second
	burstReset          = time.Minute
	burstLimit          = 10
)

// listSet are the lists that a source said are others.
type listSet [3]bool

const (
	changedTools = iota
	changedResources
	changedPrompts
)

// changeCounts say how often each list was said to be another.
type changeCounts [len(listSet{})]int

func (c *changeCounts) add(k listSet) {
	for i, told := range k {
		if told {
			c[i]++
		}
	}
}

// notificationState is what a feed keeps of its source's own words.
type notificationState struct {
	listening   bool
	pending     listSet // and not seen to yet
	refreshing  bool
	lastRefresh time.Time // when the source was asked because of its words
	burst       int       // how often, since it was quiet
}

// listenLocked begins to listen to the source.
func (f *feed) listenLocked() {
	if f.source != nil && !f.tenant.ephemeral && !f.notifications.listening {
		f.notifications.listening = f.tenant.goTracked(f.listen)
	}
}

// listen goes on for as long as the feed. A source that has nothing to listen
// to may have it later, when its server is another.
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
			t.Log.Debug("a source cannot be listened to", "organization", t.organization, "source", f.source.ID(), "again_in", wait, "error", err)
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

// onNotice notes what the source says. It does not block.
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

// refreshLoop asks for the lists anew until nothing that the source said is left,
// also when they cannot be had at once.
func (f *feed) refreshLoop() {
	for {
		wait, due := f.nextRefresh()
		if !due || !f.sleep(wait) {
			return
		}
		f.refreshNow()
	}
}

// nextRefresh tells how long to wait before the source is asked, and whether it is to
// be asked at all.
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

// refreshNow asks the source for its lists. A refresh that is under way may have
// read older ones, so it is only waited for.
func (f *feed) refreshNow() {
	t := f.tenant
	t.mu.Lock()
	under := f.refresh
	t.mu.Unlock()
	if under != nil {
		<-under.done
	}
	t.mu.Lock()
	fl := f.refresh // somebody else may have begun another
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
		f.notifications.pending.merge(fl.changed) // they are still to be had
	}
}

// sleep reports false when the feed ended meanwhile.
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

// A source's word that a resource changed is passed on at most once in
// updateEvery for each URI, and for as many URIs as maxUpdates; more are lost,
// as hints may be.
const (
	updateEvery = time.Second
	maxUpdates  = 200
)

// resourceUpdates are the resources that a source said have changed.
type resourceUpdates struct {
	recent  map[string]bool // they were passed on a moment ago
	waiting map[string]bool // and said to have changed again since
	running bool
}

// onResourceUpdated passes on that a resource changed: at once, or a moment later when
// that was said of it just now. It does not block.
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

// publishLoop passes on what waits, until nothing does.
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
