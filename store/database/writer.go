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
	MaxQueue = 4096 // queued jobs beyond which Enqueue blocks

	// InsertDelay is how long a queued insert waits for the job that replaces it.
	InsertDelay = 50 * time.Millisecond
)

// ErrClosed is the error of writes after [DB.Close].
var ErrClosed = errors.New("the database is closed")

// Job is one write.
type Job struct {
	// Run executes the write. If nil, the job only waits for those before it. It may
	// be called several times; only the last call counts.
	Run func(context.Context, bun.IDB) error
	// SingleStatement states that Run executes at most one statement that changes
	// data, so that no savepoint is needed.
	SingleStatement bool
	// Row is the ID of the row that a queued job changes or whose queued jobs must be
	// written before this one.
	Row string
	// InTransaction states that Run needs a transaction on PostgreSQL; otherwise each
	// of its statements is committed separately.
	InTransaction bool
	// Exclusive states that no two such jobs may run at the same time.
	Exclusive bool
	// TrackXID states that Run cannot detect from its rows whether an earlier attempt
	// was committed, so that the transaction's ID is checked. It is implied by
	// Exclusive.
	TrackXID bool
	// RetryUntilCanceled retries while the database is unreachable until the context
	// ends.
	RetryUntilCanceled bool
	// Batchable, if set, is the single statement that Run executes in the normal case.
	Batchable *BatchStatement
	// Pipeline holds the queries that are sent together with BEGIN. It excludes
	// Exclusive and TrackXID.
	Pipeline *Pipeline
	// Retried tells Run that an earlier attempt may have been committed.
	Retried bool
	// Inserted is the row that a queued job inserts; see [writer.ReplaceInsert].
	Inserted any
	// Unordered states that the job does not depend on queued inserts, so that it can
	// be written before them.
	Unordered bool
	// Slow states that Run takes long and that neither a sender nor an agent waits for
	// it. Slow jobs run alone, alternating with batches of the queue, and do not depend
	// on queued jobs.
	Slow bool
	// Replaces is the queued insert that this job replaces.
	Replaces *Job

	// The fields below belong to the writer.

	xid        string    // of a transaction whose end is not known
	enqueuedAt time.Time // into the queue, of what begins a row
	err        error
	wake       chan bool // true: lead; false: answered. Nil while nobody waits
	nextLeader bool      // chosen to lead
}

// writer implements group commit without a goroutine of its own: a caller that finds
// no leader becomes the leader, executes all queued jobs in one transaction, reports
// their results and hands leadership to a caller that arrived meanwhile. A single
// caller writes without any handover.
//
// Measured (BenchmarkWriter, two cores, small durable inserts, against the same
// writer with one job a transaction): 6 times as many from 16 goroutines, 16
// times from 64, and the same from one.
//
// This is for SQLite, which has one writer. On PostgreSQL only queued jobs are
// committed in groups, unless a job of the same row takes them along; see pool.go.
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

// Do runs the job and returns when it is durable. If the context ends, the job is
// canceled while it is queued; once started it is waited for.
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
	queued := w.queuedByRow[j.Row] > 0 && slices.ContainsFunc(w.Queue, func(q *Job) bool { return q.Row == j.Row }) // not counting those being committed
	j.Unordered = j.Unordered && !queued
	j.Row = "" // the caller waits, so the job does not count as queued
	return w.enqueueLocked(ctx, j)
}

// enqueueLocked queues the job and waits for it. It unlocks w.Mu.
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

// queuedInsertLocked returns the index of the queued insert of a row if nothing else is
// queued for the row, else -1.
func (w *writer) queuedInsertLocked(row string) int {
	if w.queuedByRow[row] != 1 {
		return -1
	}
	return slices.IndexFunc(w.Queue, func(q *Job) bool { return q.Row == row && q.Inserted != nil && q.wake == nil })
}

// awaitLocked waits for a queued job or leads. It unlocks w.Mu.
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

// cancel removes a job from the queue. It reports false if the job was started.
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

// Enqueue queues the job for the next commit, or for the flush timer if there is none
// before. Its failure is logged. Jobs are executed in order.
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

// Flush waits for the queued jobs of the rows.
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

// Queued reports whether jobs of any of the rows are queued.
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

// flushQueued commits queued jobs, except for delayed inserts. If there is a leader, its
// successor or a new timer does it instead.
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

// lead commits batches until j is done, then hands over leadership.
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

// batchLocked takes the first jobs of the queue, in order, for one transaction. It
// leaves recent inserts in the queue if all later jobs are unordered, because they may
// still be replaced.
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
		return batch // includes the leader once everything before it is done
	}
	n := min(len(w.Queue), w.Batch)
	batch := w.Queue[:n:n]
	if w.Queue = w.Queue[n:]; len(w.Queue) == 0 {
		w.Queue = nil
	}
	return batch
}

// nextSlowLocked returns a slow job if the previous batch was not one or nothing else is
// queued, so that a caller waits for at most one slow job.
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

// mustFollowLocked reports whether the job must follow all jobs queued before it.
func (w *writer) mustFollowLocked(j *Job) bool {
	return j.Inserted == nil && (!j.Unordered || w.queuedByRow[j.Row] > 1)
}

// dequeuedLocked removes a job from the count of queued jobs of its row.
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

// commit executes the jobs in one transaction and sets their errors. A job that fails
// is rolled back alone; a commit that fails fails all jobs.
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

// setErrors sets the error of each job and logs the errors of jobs without a caller.
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
	// Do not use the context of one caller: its cancellation would affect the others.
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

// runJob executes one job, within a savepoint if guarded.
func (w *writer) runJob(ctx context.Context, tx bun.Tx, j *Job, guarded bool) error {
	if !guarded {
		return runRecovered(ctx, tx, j.Run)
	}
	if _, err := within(ctx, tx, w.savepoint).ExecContext(ctx); err != nil {
		return err
	}
	err := runRecovered(ctx, tx, j.Run)
	if err != nil && !abortsTransaction(err) {
		if _, rollbackErr := within(ctx, tx, w.rollback).ExecContext(ctx); rollbackErr != nil {
			return errors.Join(err, rollbackErr)
		}
	}
	if _, releaseErr := within(ctx, tx, w.release).ExecContext(ctx); releaseErr != nil {
		return errors.Join(err, releaseErr)
	}
	return err
}

// runRecovered turns a panic into an error, so that the writer survives it.
func runRecovered(ctx context.Context, tx bun.IDB, run func(context.Context, bun.IDB) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a write: %v", p)
		}
	}()
	return run(ctx, tx)
}

// close rejects new jobs, commits the queued ones and waits for all.
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
