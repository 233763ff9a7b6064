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

	// InsertDelay is how long what begins a row waits for its end.
	InsertDelay = 50 * time.Millisecond
)

var ErrClosed = errors.New("the database is closed")

// Job is one write.
type Job struct {
	// Run does the write. Nil: the job only waits for those before it. It may
	// be called several times, and only the last one counts.
	Run func(context.Context, bun.IDB) error
	// SingleStatement tells that run makes at most one statement that changes
	// anything. Such a statement undoes itself when it fails.
	SingleStatement bool
	// Row is the id of the row that a queued job changes, or behind whose
	// queued jobs another one comes.
	Row string
	// InTransaction tells that run needs a transaction where there are many writers;
	// without it each of its statements is committed by itself.
	InTransaction bool
	// Exclusive tells that no two such jobs may run at the same time.
	Exclusive bool
	// TrackXID tells that a whole job cannot tell by its rows whether it was
	// done before: its transaction tells. Exclusive jobs are so anyway.
	TrackXID bool
	// RetryUntilCanceled jobs wait for a lost database for as long as their context lasts.
	RetryUntilCanceled bool
	// Batchable, if set, is the single statement that Run executes in the normal case.
	Batchable *BatchStatement
	// Pipeline is what a whole job begins with; it is neither exclusive nor numbered then.
	Pipeline *Pipeline
	// Retried tells run that it may have been committed before.
	Retried bool
	// Inserted is the row that a queued job writes; its end may be written with it.
	Inserted any
	// Unordered tells that the job has nothing to do with rows that began and are
	// not written yet, so that it need not come after them.
	Unordered bool
	// Slow tells that run takes long, and that no sender or agent waits for it. It is
	// done by itself, in turn with what else is queued, and has nothing to do with
	// queued jobs.
	Slow bool
	// Replaces is the queued job in whose place this one is done.
	Replaces *Job

	// The fields below belong to the writer.

	xid        string    // of a transaction whose end is not known
	enqueuedAt time.Time // into the queue, of what begins a row
	err        error
	wake       chan bool // true: lead; false: answered. Nil while nobody waits
	nextLeader bool      // chosen to lead
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
	DB         *bun.DB
	flushAfter time.Duration
	log        *slog.Logger
	retry      retrier
	exclusive  chan struct{} // holds the exclusive job that is under way

	onCommit func() // on SQLite, after each transaction; nil: nobody asks

	savepoint, release, rollback *sql.Stmt  // on SQLite
	beginStmt, commitStmt        *Statement // of a transaction, on PostgreSQL

	active sync.WaitGroup // calls and timers under way

	Mu          sync.Mutex // protects the fields below
	Queue       []*Job
	Slow        []*Job                   // jobs that wait beside the queue
	slowDue     bool                     // the next batch is one of them
	queuedByRow map[string]int           // rows with queued jobs
	inFlight    map[string]chan struct{} // those whose queued jobs someone took along
	leading     bool
	timerSet    bool // a timer will flush the queue
	timer       *time.Timer
	closed      bool
	Batch       int // jobs in one transaction, for the benchmark's other half
	InsertDelay time.Duration
}

func newWriter(db *bun.DB, c Config) *writer {
	return &writer{
		DB: db, flushAfter: c.FlushAfter, log: c.Log, retry: newRetrier(c.RetryFor), exclusive: make(chan struct{}, 1),
		queuedByRow: map[string]int{}, inFlight: map[string]chan struct{}{}, Batch: MaxBatch, InsertDelay: InsertDelay,
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
		return w.runConcurrentLocked(ctx, j)
	}
	j.Unordered = j.Unordered && !w.hasQueuedLocked(j.Row)
	j.Row = "" // it waits itself, and is no queued one
	return w.enqueueLocked(ctx, j)
}

// hasQueuedLocked reports whether jobs of the row are queued. What is being committed
// comes first anyway.
func (w *writer) hasQueuedLocked(row string) bool {
	return w.queuedByRow[row] > 0 && slices.ContainsFunc(w.Queue, func(q *Job) bool { return q.Row == row })
}

// enqueueLocked queues the job and sees it done. It unlocks w.mu.
func (w *writer) enqueueLocked(ctx context.Context, j *Job) error {
	if j.Slow {
		w.Slow = append(w.Slow, j)
	} else {
		w.Queue = append(w.Queue, j)
	}
	return w.awaitLocked(ctx, j)
}

// ReplaceInsert replaces the queued insert of a row with the job that end builds
// from it, so that the row is written once with its final values instead of
// being inserted and then updated. It reports false when no such insert is
// queued or when it is already being written.
//
// Measured with BenchmarkCall, reads of 64 callers on SQLite, medians of rounds
// in turn: 89 µs of processor time a call instead of 112.
func (w *writer) ReplaceInsert(ctx context.Context, row string, end func(any) *Job) (bool, error) {
	w.Mu.Lock()
	i := w.queuedInsertLocked(row)
	if i < 0 || w.closed {
		w.Mu.Unlock()
		return false, nil
	}
	w.active.Add(1)
	defer w.active.Done()
	begin := w.Queue[i]
	j := end(begin.Inserted)
	if Shared(w.DB) {
		w.Queue = slices.Delete(w.Queue, i, i+1)
		w.inFlight[row] = make(chan struct{})
		w.Mu.Unlock()
		return true, w.runWithQueued(ctx, row, []*Job{begin}, []*Job{j})
	}
	j.Row, j.Replaces = row, begin
	w.Queue[i] = j
	return true, w.awaitLocked(ctx, j)
}

// queuedInsertLocked finds the job that begins a row, while it is all that is queued
// for it; -1 when there is none.
func (w *writer) queuedInsertLocked(row string) int {
	if w.queuedByRow[row] != 1 {
		return -1
	}
	return slices.IndexFunc(w.Queue, func(q *Job) bool { return q.Row == row && q.Inserted != nil && q.wake == nil })
}

// awaitLocked sees a queued job done. It unlocks w.mu.
func (w *writer) awaitLocked(ctx context.Context, j *Job) error {
	lead := !w.leading
	if lead {
		w.leading = true
	} else {
		j.wake = make(chan bool, 1)
	}
	w.Mu.Unlock()
	if !lead {
		select {
		case lead = <-j.wake:
		case <-ctx.Done():
			if w.cancel(j) {
				return ctx.Err()
			}
			lead = <-j.wake
		}
	}
	if lead {
		w.lead(j)
	}
	return j.err
}

// cancel removes a job that nobody has begun.
func (w *writer) cancel(j *Job) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if j.nextLeader {
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
		case j.Replaces != nil:
			w.Queue[i] = j.Replaces
			w.setTimerLocked()
		default:
			w.Queue = append(w.Queue[:i:i], w.Queue[i+1:]...)
			w.dequeuedLocked(j)
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
	w.queuedByRow[j.Row]++
	if j.Inserted != nil {
		j.enqueuedAt = time.Now()
	}
	if len(w.Queue) >= MaxQueue {
		w.active.Add(1)
		defer w.active.Done()
		return w.enqueueLocked(ctx, j)
	}
	defer w.Mu.Unlock()
	w.Queue = append(w.Queue, j)
	w.setTimerLocked()
	return nil
}

// Flush waits for the queued jobs of the rows, if there are any.
func (w *writer) Flush(ctx context.Context, rows ...string) error {
	for _, row := range rows {
		if err := w.waitInFlight(ctx, row); err != nil {
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
	if len(w.queuedByRow) == 0 {
		return false
	}
	for _, row := range rows {
		if w.queuedByRow[row] > 0 {
			return true
		}
	}
	return false
}

func (w *writer) setTimerLocked() {
	if w.timerSet || w.leading || len(w.Queue) == 0 {
		return
	}
	w.timerSet = true
	w.active.Add(1)
	w.timer = time.AfterFunc(w.flushAfter, w.flushQueued)
}

// flushQueued commits what is queued, but for what may still stay, unless someone is at
// it: then the lead's successor or a new timer does.
func (w *writer) flushQueued() {
	defer w.active.Done()
	w.Mu.Lock()
	w.timerSet = false
	if w.leading || len(w.Queue) == 0 {
		w.Mu.Unlock()
		return
	}
	_ = w.enqueueLocked(context.Background(), &Job{Unordered: true})
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
			w.dequeuedLocked(b)
		}
		if done {
			w.handOverLocked()
		}
		w.Mu.Unlock()
		for _, b := range batch {
			if b != j && b.wake != nil {
				b.wake <- false
			}
		}
	}
}

// batchLocked takes the jobs of one transaction from the queue: the first ones,
// in their order. What begins a row stays for a while, as far as all that comes
// after it may pass it: its end may come and be written in its place.
func (w *writer) batchLocked(lead *Job) []*Job {
	if slow := w.nextSlowLocked(); slow != nil {
		return []*Job{slow}
	}
	cutoff := time.Now().Add(-w.InsertDelay)
	delayed := func(j *Job) bool {
		return j != lead && j.Inserted != nil && j.wake == nil && j.enqueuedAt.After(cutoff)
	}
	if slices.ContainsFunc(w.Queue, delayed) && !slices.ContainsFunc(w.Queue, w.mustFollowLocked) {
		remaining, batch := make([]*Job, 0, len(w.Queue)), make([]*Job, 0, min(len(w.Queue), w.Batch))
		for _, j := range w.Queue {
			if len(batch) == w.Batch || delayed(j) {
				remaining = append(remaining, j)
			} else {
				batch = append(batch, j)
			}
		}
		w.Queue = remaining
		return batch // with the lead at the latest when all before it is done
	}
	n := min(len(w.Queue), w.Batch)
	batch := w.Queue[:n:n]
	if w.Queue = w.Queue[n:]; len(w.Queue) == 0 {
		w.Queue = nil
	}
	return batch
}

// nextSlowLocked takes a slow job out, if it is the turn of one: when the batch
// before was none of them, or when nothing else is queued. So whoever comes waits
// for one of them at most.
func (w *writer) nextSlowLocked() *Job {
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

// mustFollowLocked tells whether the job comes after all that were queued before it.
func (w *writer) mustFollowLocked(j *Job) bool {
	return j.Inserted == nil && (!j.Unordered || w.queuedByRow[j.Row] > 1)
}

// dequeuedLocked notes that a queued job is no longer ahead of readers.
func (w *writer) dequeuedLocked(j *Job) {
	if j.Row == "" {
		return
	}
	if w.queuedByRow[j.Row]--; w.queuedByRow[j.Row] <= 0 {
		delete(w.queuedByRow, j.Row)
	}
}

func (w *writer) handOverLocked() {
	for _, list := range [][]*Job{w.Queue, w.Slow} {
		for _, q := range list {
			if q.wake != nil {
				q.nextLeader = true
				q.wake <- true
				return
			}
		}
	}
	w.leading = false
	w.setTimerLocked()
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
		err = w.runBatch(context.Background(), batch, work > 1, false)
	} else {
		err = w.transact(batch, work > 1)
	}
	if w.onCommit != nil {
		w.onCommit()
	}
	w.setErrors(batch, err)
}

// setErrors leaves each job its error, and logs what nobody waits for.
func (w *writer) setErrors(batch []*Job, err error) {
	for _, j := range batch {
		if j.err == nil && err != nil {
			j.err = fmt.Errorf("committing: %w", err)
		}
		if j.err != nil && j.Row != "" && j.Replaces == nil {
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
		j.err = w.runJob(ctx, tx, j, several && !j.SingleStatement)
		if j.err != nil && (!several || abortsTransaction(j.err)) {
			return errors.Join(j.err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// runJob does one job, between a savepoint and its release when it needs one.
func (w *writer) runJob(ctx context.Context, tx bun.Tx, j *Job, guarded bool) error {
	if !guarded {
		return runRecovered(ctx, tx, j.Run)
	}
	if _, err := w.execute(ctx, tx, w.savepoint); err != nil {
		return err
	}
	err := runRecovered(ctx, tx, j.Run)
	if err != nil && !abortsTransaction(err) {
		if _, rollbackErr := w.execute(ctx, tx, w.rollback); rollbackErr != nil {
			return errors.Join(err, rollbackErr)
		}
	}
	if _, releaseErr := w.execute(ctx, tx, w.release); releaseErr != nil {
		return errors.Join(err, releaseErr)
	}
	return err
}

func (w *writer) execute(ctx context.Context, tx bun.Tx, stmt *sql.Stmt) (sql.Result, error) {
	return within(ctx, tx, stmt).ExecContext(ctx)
}

// runRecovered keeps a panic from taking the writer with it.
func runRecovered(ctx context.Context, tx bun.IDB, run func(context.Context, bun.IDB) error) (err error) {
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
	if w.timerSet && w.timer.Stop() {
		w.timerSet = false
		w.active.Done()
	}
	_ = w.enqueueLocked(context.Background(), &Job{})
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
