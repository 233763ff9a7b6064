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
	noticeFast  = time.Second
	noticeSlow  = 30 * time.Second
	noticeQuiet = time.Minute
	noticeBurst = 10
)

// kinds are the lists that a source said are others.
type kinds [3]bool

const (
	toldTools = iota
	toldResources
	toldPrompts
)

// counts say how often each list was said to be another.
type counts [len(kinds{})]int

func (c *counts) add(k kinds) {
	for i, told := range k {
		if told {
			c[i]++
		}
	}
}

// ear is what a feed keeps of its source's own words.
type ear struct {
	listening bool
	told      kinds // and not seen to yet
	attending bool
	last      time.Time // when the source was asked because of its words
	burst     int       // how often, since it was quiet
}

// listenLocked begins to listen to the source.
func (f *feed) listenLocked() {
	if f.source != nil && !f.tenant.quiet && !f.ear.listening {
		f.ear.listening = f.tenant.start(f.listen)
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
		if f.life.Err() != nil {
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
	return f.source.Listen(f.life, f.hear)
}

// hear notes what the source says. It does not block.
func (f *feed) hear(n Notice) {
	var k kinds
	switch n.Kind {
	case NoticeTools:
		k[toldTools] = true
	case NoticeResources:
		k[toldResources] = true
	case NoticePrompts:
		k[toldPrompts] = true
	case NoticeUpdated:
		f.updated(n.URI)
		return
	default:
		return
	}
	f.tenant.mu.Lock()
	defer f.tenant.mu.Unlock()
	f.ear.told.join(k)
	if !f.ear.attending {
		f.ear.attending = f.tenant.start(f.attend)
	}
}

func (k *kinds) join(more kinds) {
	for i, told := range more {
		k[i] = k[i] || told
	}
}

// attend asks for the lists anew until nothing that the source said is left,
// also when they cannot be had at once.
func (f *feed) attend() {
	for {
		wait, due := f.pace()
		if !due || !f.sleep(wait) {
			return
		}
		f.renew()
	}
}

// pace tells how long to wait before the source is asked, and whether it is to
// be asked at all.
func (f *feed) pace() (wait time.Duration, due bool) {
	t := f.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.ear.told == (kinds{}) {
		f.ear.attending = false
		return 0, false
	}
	now, gap := t.Now(), noticeFast
	if f.ear.burst >= noticeBurst {
		gap = noticeSlow
	}
	next := f.ear.last.Add(gap)
	if f.retry.After(next) {
		next = f.retry
	}
	return next.Sub(now), true
}

// renew asks the source for its lists. A refresh that is under way may have
// read older ones, so it is only waited for.
func (f *feed) renew() {
	t := f.tenant
	t.mu.Lock()
	under := f.flight
	t.mu.Unlock()
	if under != nil {
		<-under.done
	}
	t.mu.Lock()
	fl := f.flight // somebody else may have begun another
	if fl == nil {
		fl = f.startLocked()
	}
	now := t.Now()
	if now.Sub(f.ear.last) > noticeQuiet {
		f.ear.burst = 0
	}
	f.ear.last = now
	f.ear.burst++
	fl.told.join(f.ear.told)
	f.ear.told = kinds{}
	t.mu.Unlock()
	<-fl.done
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.err != nil {
		f.ear.told.join(fl.told) // they are still to be had
	}
}

// sleep reports false when the feed ended meanwhile.
func (f *feed) sleep(d time.Duration) bool {
	if d <= 0 {
		return f.life.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.life.Done():
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

// updates are the resources that a source said have changed.
type updates struct {
	recent  map[string]bool // they were passed on a moment ago
	waiting map[string]bool // and said to have changed again since
	running bool
}

// updated passes on that a resource changed: at once, or a moment later when
// that was said of it just now. It does not block.
func (f *feed) updated(uri string) {
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
		u.running = t.start(f.passOn)
	}
	t.mu.Unlock()
	if now {
		f.publish(uri)
	}
}

// passOn passes on what waits, until nothing does.
func (f *feed) passOn() {
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
