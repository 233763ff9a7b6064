package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/uptrace/bun"
)

const (
	MaxBatch = 256  // jobs in one transaction
	MaxQueue = 4096 // queued jobs, after which queueing waits

	// SettleFor is how long what begins a row waits for its end.
	SettleFor = 50 * time.Millisecond
)

var ErrClosed = errors.New("the database is closed")

// Job is one write.
type Job struct {
	// Run does the write. Nil: the job only waits for those before it. It may
	// be called several times, and only the last one counts.
	Run func(context.Context, bun.IDB) error
	// Single tells that run makes at most one statement that changes
	// anything. Such a statement undoes itself when it fails.
	Single bool
	// Row is the id of the row that a queued job changes, or behind whose
	// queued jobs another one comes.
	Row string
	// Whole tells that run needs a transaction where there are many writers;
	// without it each of its statements is committed by itself.
	Whole bool
	// Exclusive tells that no two such jobs may run at the same time.
	Exclusive bool
	// Numbered tells that a whole job cannot tell by its rows whether it was
	// done before: its transaction tells. Exclusive jobs are so anyway.
	Numbered bool
	// Patient jobs wait for a lost database for as long as their context lasts.
	Patient bool
	// quick, if there is one, is all that run does in the usual course.
	Quick *Quick
	// Opening is what a whole job begins with; it is neither exclusive nor numbered then.
	Opening *Opening
	// Again tells run that it may have been committed before.
	Again bool
	// Begins is the row that a queued job writes; its end may be written with it.
	Begins any
	// Passes tells that the job has nothing to do with rows that began and are
	// not written yet, so that it need not come after them.
	Passes bool
	// Slow tells that run takes long, and that no sender or agent waits for it. It is
	// done by itself, in turn with what else is queued, and has nothing to do with
	// queued jobs.
	Slow bool
	// Instead is the queued job in whose place this one is done.
	Instead *Job

	// The fields below belong to the writer.

	xid  string    // of a transaction whose end is not known
	came time.Time // into the queue, of what begins a row
	err  error
	turn chan bool // true: lead; false: answered. Nil while nobody waits
	next bool      // chosen to lead
}

// writer commits jobs in groups. It has no goroutine: whoever comes while
// nobody leads does all queued jobs in one transaction, answers them, and
// hands the lead to one that came meanwhile. A lone caller meets no queue and
// no other goroutine on its way to the disk.
//
// Measured (BenchmarkWriter, two cores, small durable inserts, against the same
// writer with one job a transaction): 6 times as many from 16 goroutines, 16
// times from 64, and the same from one.
//
// All this is for SQLite, which has one writer. On PostgreSQL only queued jobs
// are done so, and only when nobody comes for them; see pool.go for the others.
type writer struct {
	DB    *bun.DB
	after time.Duration
	log   *slog.Logger
	retry retrier
	alone chan struct{} // holds the exclusive job that is under way

	committed func() // on SQLite, after each transaction; nil: nobody asks

	savepoint, release, rollback *sql.Stmt  // on SQLite
	start, finish                *Statement // of a transaction, on PostgreSQL

	active sync.WaitGroup // calls and timers under way

	Mu      sync.Mutex // protects the fields below
	Queue   []*Job
	Slow    []*Job                   // jobs that wait beside the queue
	slowDue bool                     // the next batch is one of them
	rows    map[string]int           // rows with queued jobs
	taken   map[string]chan struct{} // those whose queued jobs someone took along
	leading bool
	armed   bool // a timer will flush the queue
	timer   *time.Timer
	closed  bool
	Batch   int // jobs in one transaction, for the benchmark's other half
	Settles time.Duration
}

func newWriter(db *bun.DB, c Config) *writer {
	return &writer{
		DB: db, after: c.FlushAfter, log: c.Log, retry: newRetrier(c.RetryFor), alone: make(chan struct{}, 1),
		rows: map[string]int{}, taken: map[string]chan struct{}{}, Batch: MaxBatch, Settles: SettleFor,
	}
}

func (w *writer) prepare(ctx context.Context) (err error) {
	for text, stmt := range map[string]**sql.Stmt{
		"SAVEPOINT job": &w.savepoint, "RELEASE job": &w.release, "ROLLBACK TO job": &w.rollback,
	} {
		if *stmt, err = w.DB.DB.PrepareContext(ctx, text); err != nil {
			return fmt.Errorf("preparing %s: %w", text, err)
		}
	}
	return nil
}

// Do runs the job and returns when it is durable. A context that ends takes
// the job back while it is queued; afterwards it is waited for.
func (w *writer) Do(ctx context.Context, j *Job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.Mu.Lock()
	if w.closed {
		w.Mu.Unlock()
		return ErrClosed
	}
	w.active.Add(1)
	defer w.active.Done()
	if Shared(w.DB) && j.Run != nil {
		return w.besideLocked(ctx, j)
	}
	j.Passes = j.Passes && !w.aheadLocked(j.Row)
	j.Row = "" // it waits itself, and is no queued one
	return w.waitLocked(ctx, j)
}

// aheadLocked reports whether jobs of the row are queued. What is being committed
// comes first anyway.
func (w *writer) aheadLocked(row string) bool {
	return w.rows[row] > 0 && slices.ContainsFunc(w.Queue, func(q *Job) bool { return q.Row == row })
}

// waitLocked queues the job and sees it done. It unlocks w.mu.
func (w *writer) waitLocked(ctx context.Context, j *Job) error {
	if j.Slow {
		w.Slow = append(w.Slow, j)
	} else {
		w.Queue = append(w.Queue, j)
	}
	return w.seeLocked(ctx, j)
}

// Instead does the job that end makes in the place of the queued one that begins
// its row: what is written once need not be changed. It reports false when there
// is none, or when somebody is at it.
//
// Measured with BenchmarkCall, reads of 64 callers on SQLite, medians of rounds
// in turn: 89 µs of processor time a call instead of 112.
func (w *writer) Instead(ctx context.Context, row string, end func(any) *Job) (bool, error) {
	w.Mu.Lock()
	i := w.beginsLocked(row)
	if i < 0 || w.closed {
		w.Mu.Unlock()
		return false, nil
	}
	w.active.Add(1)
	defer w.active.Done()
	begin := w.Queue[i]
	j := end(begin.Begins)
	if Shared(w.DB) {
		w.Queue = slices.Delete(w.Queue, i, i+1)
		w.taken[row] = make(chan struct{})
		w.Mu.Unlock()
		return true, w.along(ctx, row, []*Job{begin}, []*Job{j})
	}
	j.Row, j.Instead = row, begin
	w.Queue[i] = j
	return true, w.seeLocked(ctx, j)
}

// beginsLocked finds the job that begins a row, while it is all that is queued
// for it; -1 when there is none.
func (w *writer) beginsLocked(row string) int {
	if w.rows[row] != 1 {
		return -1
	}
	return slices.IndexFunc(w.Queue, func(q *Job) bool { return q.Row == row && q.Begins != nil && q.turn == nil })
}

// seeLocked sees a queued job done. It unlocks w.mu.
func (w *writer) seeLocked(ctx context.Context, j *Job) error {
	lead := !w.leading
	if lead {
		w.leading = true
	} else {
		j.turn = make(chan bool, 1)
	}
	w.Mu.Unlock()
	if !lead {
		select {
		case lead = <-j.turn:
		case <-ctx.Done():
			if w.takeBack(j) {
				return ctx.Err()
			}
			lead = <-j.turn
		}
	}
	if lead {
		w.lead(j)
	}
	return j.err
}

// takeBack removes a job that nobody has begun.
func (w *writer) takeBack(j *Job) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if j.next {
		return false
	}
	if i := slices.Index(w.Slow, j); i >= 0 {
		w.Slow = slices.Delete(w.Slow, i, i+1)
		return true
	}
	for i, q := range w.Queue {
		switch {
		case q != j:
			continue
		case j.Instead != nil:
			w.Queue[i] = j.Instead
			w.armLocked()
		default:
			w.Queue = append(w.Queue[:i:i], w.Queue[i+1:]...)
			w.forgetLocked(j)
		}
		return true
	}
	return false
}

// Enqueue leaves the job to whoever commits next, and at the latest to a timer.
// Its failure is logged. Jobs are done in the order in which they came.
func (w *writer) Enqueue(ctx context.Context, j *Job) error {
	w.Mu.Lock()
	if w.closed {
		w.Mu.Unlock()
		return ErrClosed
	}
	w.rows[j.Row]++
	if j.Begins != nil {
		j.came = time.Now()
	}
	if len(w.Queue) >= MaxQueue {
		w.active.Add(1)
		defer w.active.Done()
		return w.waitLocked(ctx, j)
	}
	defer w.Mu.Unlock()
	w.Queue = append(w.Queue, j)
	w.armLocked()
	return nil
}

// Flush waits for the queued jobs of the rows, if there are any.
func (w *writer) Flush(ctx context.Context, rows ...string) error {
	for _, row := range rows {
		if err := w.arrived(ctx, row); err != nil {
			return err
		}
	}
	if !w.Queued(rows) {
		return nil
	}
	return w.Do(ctx, &Job{})
}

func (w *writer) Queued(rows []string) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if len(w.rows) == 0 {
		return false
	}
	for _, row := range rows {
		if w.rows[row] > 0 {
			return true
		}
	}
	return false
}

func (w *writer) armLocked() {
	if w.armed || w.leading || len(w.Queue) == 0 {
		return
	}
	w.armed = true
	w.active.Add(1)
	w.timer = time.AfterFunc(w.after, w.ring)
}

// ring commits what is queued, but for what may still stay, unless someone is at
// it: then the lead's successor or a new timer does.
func (w *writer) ring() {
	defer w.active.Done()
	w.Mu.Lock()
	w.armed = false
	if w.leading || len(w.Queue) == 0 {
		w.Mu.Unlock()
		return
	}
	_ = w.waitLocked(context.Background(), &Job{Passes: true})
}

// lead commits batches until j is done, then hands on the lead.
func (w *writer) lead(j *Job) {
	for done := false; !done; {
		w.Mu.Lock()
		batch := w.batchLocked(j)
		w.Mu.Unlock()
		w.commit(batch)
		w.Mu.Lock()
		for _, b := range batch {
			done = done || b == j
			w.forgetLocked(b)
		}
		if done {
			w.handOnLocked()
		}
		w.Mu.Unlock()
		for _, b := range batch {
			if b != j && b.turn != nil {
				b.turn <- false
			}
		}
	}
}

// batchLocked takes the jobs of one transaction from the queue: the first ones,
// in their order. What begins a row stays for a while, as far as all that comes
// after it may pass it: its end may come and be written in its place.
func (w *writer) batchLocked(lead *Job) []*Job {
	if slow := w.slowLocked(); slow != nil {
		return []*Job{slow}
	}
	young := time.Now().Add(-w.Settles)
	stays := func(j *Job) bool { return j != lead && j.Begins != nil && j.turn == nil && j.came.After(young) }
	if slices.ContainsFunc(w.Queue, stays) && !slices.ContainsFunc(w.Queue, w.followsLocked) {
		staying, batch := make([]*Job, 0, len(w.Queue)), make([]*Job, 0, min(len(w.Queue), w.Batch))
		for _, j := range w.Queue {
			if len(batch) == w.Batch || stays(j) {
				staying = append(staying, j)
			} else {
				batch = append(batch, j)
			}
		}
		w.Queue = staying
		return batch // with the lead at the latest when all before it is done
	}
	n := min(len(w.Queue), w.Batch)
	batch := w.Queue[:n:n]
	if w.Queue = w.Queue[n:]; len(w.Queue) == 0 {
		w.Queue = nil
	}
	return batch
}

// slowLocked takes a slow job out, if it is the turn of one: when the batch
// before was none of them, or when nothing else is queued. So whoever comes waits
// for one of them at most.
func (w *writer) slowLocked() *Job {
	if len(w.Slow) == 0 {
		return nil
	}
	if w.slowDue = !w.slowDue && len(w.Queue) > 0; w.slowDue {
		return nil
	}
	j := w.Slow[0]
	w.Slow = slices.Delete(w.Slow, 0, 1)
	return j
}

// followsLocked tells whether the job comes after all that were queued before it.
func (w *writer) followsLocked(j *Job) bool {
	return j.Begins == nil && (!j.Passes || w.rows[j.Row] > 1)
}

// forgetLocked notes that a queued job is no longer ahead of readers.
func (w *writer) forgetLocked(j *Job) {
	if j.Row == "" {
		return
	}
	if w.rows[j.Row]--; w.rows[j.Row] <= 0 {
		delete(w.rows, j.Row)
	}
}

func (w *writer) handOnLocked() {
	for _, list := range [][]*Job{w.Queue, w.Slow} {
		for _, q := range list {
			if q.turn != nil {
				q.next = true
				q.turn <- true
				return
			}
		}
	}
	w.leading = false
	w.armLocked()
}

// commit does the jobs in one transaction and leaves each its error. A job
// that fails is undone alone; a commit that fails fails all.
func (w *writer) commit(batch []*Job) {
	work := 0
	for _, j := range batch {
		if j.Run != nil {
			work++
		}
	}
	if work == 0 {
		return
	}
	var err error
	if Shared(w.DB) {
		err = w.together(context.Background(), batch, work > 1, false)
	} else {
		err = w.transact(batch, work > 1)
	}
	if w.committed != nil {
		w.committed()
	}
	w.answer(batch, err)
}

// answer leaves each job its error, and logs what nobody waits for.
func (w *writer) answer(batch []*Job, err error) {
	for _, j := range batch {
		if j.err == nil && err != nil {
			j.err = fmt.Errorf("committing: %w", err)
		}
		if j.err != nil && j.Row != "" && j.Instead == nil {
			w.log.Error("a queued write failed", "row", j.Row, "error", j.err)
		}
	}
}

func (w *writer) transact(batch []*Job, several bool) error {
	// Not of one caller: its end must not take the others' work along.
	ctx := context.Background()
	tx, err := w.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, j := range batch {
		if j.Run == nil {
			continue
		}
		j.err = w.run(ctx, tx, j, several && !j.Single)
		if j.err != nil && (!several || poisons(j.err)) {
			return errors.Join(j.err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// run does one job, between a savepoint and its release when it needs one.
func (w *writer) run(ctx context.Context, tx bun.Tx, j *Job, guarded bool) error {
	if !guarded {
		return safely(ctx, tx, j.Run)
	}
	if _, err := w.execute(ctx, tx, w.savepoint); err != nil {
		return err
	}
	err := safely(ctx, tx, j.Run)
	if err != nil && !poisons(err) {
		if _, back := w.execute(ctx, tx, w.rollback); back != nil {
			return errors.Join(err, back)
		}
	}
	if _, off := w.execute(ctx, tx, w.release); off != nil {
		return errors.Join(err, off)
	}
	return err
}

func (w *writer) execute(ctx context.Context, tx bun.Tx, stmt *sql.Stmt) (sql.Result, error) {
	return within(ctx, tx, stmt).ExecContext(ctx)
}

// safely keeps a panic from taking the writer with it.
func safely(ctx context.Context, tx bun.IDB, run func(context.Context, bun.IDB) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a write: %v", p)
		}
	}()
	return run(ctx, tx)
}

// close refuses new jobs, commits the queued ones and waits for all.
func (w *writer) close() {
	w.Mu.Lock()
	if w.closed {
		w.Mu.Unlock()
		return
	}
	w.closed = true
	if w.armed && w.timer.Stop() {
		w.armed = false
		w.active.Done()
	}
	_ = w.waitLocked(context.Background(), &Job{})
	w.active.Wait()
}

func (w *writer) closeDB() error {
	var errs []error
	for _, s := range []*sql.Stmt{w.savepoint, w.release, w.rollback} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, w.DB.Close())...)
}
