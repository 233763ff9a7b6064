package sources

import (
	"slices"
	"time"

	"sallyport/action"
)

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
