package connector

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/action"
)

// Bounds of subscriptions.
const (
	maxWishes = 1_000
	wishTime  = 5 * time.Second // for a server to take one
)

// wishes are the resources of whose changes somebody wants to hear.
type wishes struct {
	turn chan struct{} // of the one who tells the server of a resource; holds one
	time time.Duration // that the server has for one

	mu        sync.Mutex // the fields below
	wanted    map[string]wish
	changed   chan struct{}   // closed at the next change of the set; nil: nobody looked
	listening int             // streams that hear of them
	heard     map[string]bool // what the last stream without session was begun with
	news      chan struct{}   // closed when heard or listening changes
}

// wish is one of them.
type wish struct {
	count int
	taken bool // the server knows, or will be told
}

// add counts one more or less for a resource. tell reports whether the server
// is to be told.
func (w *wishes) add(uri string, on bool) (tell bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, n := w.wanted[uri], 1
	switch {
	case on && was.count == 0 && len(w.wanted) >= maxWishes:
		return false, action.Errorf(action.ErrTooMany, "too_many_subscriptions", "More than %d resources of this source are subscribed to; end some subscriptions first.", maxWishes)
	case !on && was.count == 0:
		return false, nil
	case w.wanted == nil:
		w.wanted = map[string]wish{}
	case !on:
		n = -1
	}
	now := wish{was.count + n, was.taken}
	w.wanted[uri] = now
	if now.count == 0 {
		delete(w.wanted, uri)
	}
	if (was.count == 0 || now.count == 0) && w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
	return on && !now.taken || now.count == 0, nil
}

// take notes that a resource that is still wanted needs no telling any more.
func (w *wishes) take(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.wanted[uri]; now.count > 0 {
		w.wanted[uri] = wish{now.count, true}
	}
}

func (w *wishes) wants(uri string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wanted[uri].count > 0
}

func (w *wishes) uris() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.wanted))
}

// now returns the resources and a channel that is closed when others are
// wanted.
func (w *wishes) now() (uris []string, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return slices.Sorted(maps.Keys(w.wanted)), w.changed
}

// listen notes that somebody listens, or no more.
func (w *wishes) listen(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		w.listening++
	} else {
		w.listening--
	}
	w.tell()
}

// told notes with which resources a stream was begun.
func (w *wishes) told(uris []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = map[string]bool{}
	for _, uri := range uris {
		w.heard[uri] = true
	}
	w.tell()
}

func (w *wishes) tell() {
	if w.news != nil {
		close(w.news)
		w.news = nil
	}
}

// settle waits until the stream that is listened to has the resource, if
// somebody listens.
func (w *wishes) settle(ctx context.Context, uri string) {
	ctx, stop := context.WithTimeout(ctx, wishTime)
	defer stop()
	for {
		w.mu.Lock()
		if w.listening == 0 || w.heard[uri] {
			w.mu.Unlock()
			return
		}
		if w.news == nil {
			w.news = make(chan struct{})
		}
		news := w.news
		w.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}
