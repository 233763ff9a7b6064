package gate

import (
	"encoding/json"
	"sync"
	"time"

	"sallyport/action"
)

// board holds the callers that wait on this instance. It is memory only: a caller
// that wakes reads its row.
type board struct {
	mu      sync.Mutex
	entries map[string]*entry // by invocation
}

// entry is an invocation that has callers here, or that runs here.
type entry struct {
	waiters map[*waiter]struct{}
	running bool            // a goroutine of this instance claims or executes it
	outcome *action.Outcome // once it ended here, with the full answer
	asking  bool            // a round of questions may be open
	asker   chan struct{}   // wakes the source that waits for replies; nil if none does
}

// waiter is one caller. Its channels are buffered, so that nobody blocks on it.
type waiter struct {
	wake       chan struct{}
	posted     chan struct{} // signals queued messages
	queued     []message     // guarded by the mutex of the board
	can        action.ClientFeatures
	level      string    // of log messages
	lostBefore time.Time // questions from before it may have been lost with an earlier connection
}

// message is progress or a log message of a running source.
type message struct {
	log    bool // a log message, otherwise progress
	params json.RawMessage
}

// maxQueuedMessages bounds the messages queued for a slow caller.
const maxQueuedMessages = 64

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
	w := &waiter{wake: make(chan struct{}, 1), posted: make(chan struct{}, 1), can: how.Features, level: how.LogLevel}
	if how.Resumes {
		w.lostBefore = now
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

// start marks the invocation as running here; false if it already runs.
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

// end stores the outcome of an execution and wakes the waiters. Without an outcome
// they read the row.
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

// wake has the waiters read their row, and reports whether there are any.
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

// post queues a message for every waiter; a slow one loses its oldest.
func (b *board) post(id string, m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		return
	}
	for w := range e.waiters {
		if len(w.queued) == maxQueuedMessages {
			w.queued = append(w.queued[:0:0], w.queued[1:]...)
		}
		w.queued = append(w.queued, m)
		signal(w.posted)
	}
}

// takeMessages returns and clears the messages queued for a waiter.
func (b *board) takeMessages(w *waiter) []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	queued := w.queued
	w.queued = nil
	return queued
}

// notifyQuestion marks that a round of questions was opened or answered, and wakes
// the waiters that can answer and the source that asked.
func (b *board) notifyQuestion(id string) {
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

// hasQuestion reports whether a round of questions may be open.
func (b *board) hasQuestion(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	return e != nil && e.asking
}

// listenForReplies returns a channel that signals replies until done is called.
func (b *board) listenForReplies(id string) (woken <-chan struct{}, done func()) {
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

// audience describes the callers that wait here: their number, the features of
// their clients combined, the lowest log level that one of them wants, and whether
// one client has all features in needs.
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

// outcome returns the outcome of an invocation that ended here, and otherwise
// whether it still runs here; its end then wakes the waiters.
func (b *board) outcome(id string) (out *action.Outcome, running bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[id]; e != nil {
		return e.outcome, e.running
	}
	return nil, false
}

// waiting returns the invocations that have callers here and do not run here.
func (b *board) waiting() []string {
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

// Callers returns the number of callers that wait on this instance for the invocation.
func (g *Gate) Callers(id string) int {
	g.board.mu.Lock()
	defer g.board.mu.Unlock()
	if e := g.board.entries[id]; e != nil {
		return len(e.waiters)
	}
	return 0
}

// Waiting returns the number of callers that wait on this instance.
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
