package gate

import (
	"encoding/json"
	"sync"
	"time"

	"sallyport/action"
)

// board is where callers of this instance wait. It is memory only: rows are
// the truth, and whoever wakes looks at them.
type board struct {
	mu      sync.Mutex
	entries map[string]*entry // by invocation
}

// entry is an invocation that somebody here waits for, or that runs here.
type entry struct {
	waiters map[*waiter]struct{}
	running bool            // a goroutine of this instance claims or executes it
	outcome *action.Outcome // once it ended here, with the full answer
	asking  bool            // a round of questions may wait for a caller
	asker   chan struct{}   // wakes whoever waits here for replies; nil: nobody does
}

// waiter is one caller. Its channels are buffered, so that whoever tells it
// something never waits for it.
type waiter struct {
	wake   chan struct{}
	news   chan struct{} // there are words
	queued []word        // guarded by the board; most callers see none
	can    action.ClientFeatures
	level  string    // of log messages
	lost   time.Time // what was asked before it may have been lost; zero: nothing
}

// word is something that a source says while it runs.
type word struct {
	log    bool // and not progress
	params json.RawMessage
}

// wordBuffer is how many words a slow caller may lag.
const wordBuffer = 64

func (b *board) entryLocked(id string) *entry {
	if b.entries == nil {
		b.entries = make(map[string]*entry)
	}
	e := b.entries[id]
	if e == nil {
		e = &entry{waiters: make(map[*waiter]struct{})}
		b.entries[id] = e
	}
	return e
}

func (b *board) dropLocked(id string, e *entry) {
	if len(e.waiters) == 0 && !e.running {
		delete(b.entries, id)
	}
}

// enter adds a waiter.
func (b *board) enter(id string, how *action.Waiting, now time.Time) *waiter {
	w := &waiter{wake: make(chan struct{}, 1), news: make(chan struct{}, 1), can: how.Can, level: how.LogLevel}
	if how.Again {
		w.lost = now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entryLocked(id).waiters[w] = struct{}{}
	return w
}

// leave removes a waiter and reports whether it was the last.
func (b *board) leave(id string, w *waiter) (last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		return true
	}
	delete(e.waiters, w)
	b.dropLocked(id, e)
	return len(e.waiters) == 0
}

// start notes that the invocation runs here; false when it does already.
func (b *board) start(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entryLocked(id)
	if e.running || e.outcome != nil {
		return false
	}
	e.running = true
	return true
}

// end notes how a run ended and wakes the waiters. Without an outcome they
// look at the row.
func (b *board) end(id string, out *action.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		return
	}
	e.running, e.outcome, e.asking = false, out, false
	for w := range e.waiters {
		signal(w.wake)
	}
	b.dropLocked(id, e)
}

// wake makes the waiters look at their row and reports whether there are any.
func (b *board) wake(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		return false
	}
	for w := range e.waiters {
		signal(w.wake)
	}
	return len(e.waiters) > 0
}

// tell hands a word to every waiter; one that lags loses its oldest.
func (b *board) tell(id string, said word) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		return
	}
	for w := range e.waiters {
		if len(w.queued) == wordBuffer {
			w.queued = append(w.queued[:0:0], w.queued[1:]...)
		}
		w.queued = append(w.queued, said)
		signal(w.news)
	}
}

// words takes what a waiter has not heard yet.
func (b *board) words(w *waiter) []word {
	b.mu.Lock()
	defer b.mu.Unlock()
	queued := w.queued
	w.queued = nil
	return queued
}

// asks notes that a round of questions was opened or answered, and wakes the
// waiters, who may take it, and whoever asked.
func (b *board) asks(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil || e.outcome != nil {
		return
	}
	e.asking = true
	for w := range e.waiters {
		if w.can != 0 {
			signal(w.wake)
		}
	}
	if e.asker != nil {
		signal(e.asker)
	}
}

// asking reports whether a round of questions may wait for a caller.
func (b *board) asking(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	return e != nil && e.asking
}

// listen has whoever asked be woken until done.
func (b *board) listen(id string) (woken <-chan struct{}, done func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entryLocked(id).asker = c
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if e := b.entries[id]; e != nil {
			e.asker, e.asking = nil, false
			b.dropLocked(id, e)
		}
	}
}

// audience is who waits here: what they offer together, the most talkative
// level of log messages that one wants, and whether one offers all of needs.
func (b *board) audience(id string, needs action.ClientFeatures) (callers int, can action.ClientFeatures, level string, able bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		return 0, 0, "", false
	}
	for w := range e.waiters {
		can |= w.can
		able = able || w.can.Has(needs)
		if level == "" || w.level != "" && severity(w.level) < severity(level) {
			level = w.level
		}
	}
	return len(e.waiters), can, level, able
}

// outcome returns how the invocation ended here, if it did, and otherwise
// whether it runs here still: then its end will wake the waiters.
func (b *board) outcome(id string) (out *action.Outcome, running bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[id]; e != nil {
		return e.outcome, e.running
	}
	return nil, false
}

// waited returns the invocations that callers wait for and that do not run
// here.
func (b *board) waited() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]string, 0, len(b.entries))
	for id, e := range b.entries {
		if len(e.waiters) > 0 && !e.running && e.outcome == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Callers counts the callers who wait on this instance for the invocation.
func (g *Gate) Callers(id string) int {
	g.board.mu.Lock()
	defer g.board.mu.Unlock()
	if e := g.board.entries[id]; e != nil {
		return len(e.waiters)
	}
	return 0
}

// Waiting counts the callers who wait on this instance.
func (g *Gate) Waiting() int {
	g.board.mu.Lock()
	defer g.board.mu.Unlock()
	n := 0
	for _, e := range g.board.entries {
		n += len(e.waiters)
	}
	return n
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
