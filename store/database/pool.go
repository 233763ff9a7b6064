package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
)

// exclusiveLock is the key of PostgreSQL's transaction-level advisory lock that
// exclusive jobs and migrations take: "sallypor" in ASCII.
const exclusiveLock = 0x73616c6c79706f72

// runConcurrentLocked executes a job on PostgreSQL concurrently with others. It includes
// the queued jobs of the same row, so that the insert and the result of a read share one
// round trip and one commit. It unlocks w.Mu.
//
// Measured with BenchmarkCall before statements were prepared, reads, fsync on,
// medians of rounds in turn: 690 µs a call at 16 callers and 650 at 64; 740 and 890
// when nothing is queued and each row is a commit of its own; 1430 and 780 when one
// leader commits all callers' rows in one transaction, as SQLite needs it.
func (w *writer) runConcurrentLocked(ctx context.Context, j *Job) error {
	for {
		queued, all := w.takeLocked(j.Row)
		if all {
			w.Mu.Unlock()
			if len(queued) == 0 {
				return w.runPooled(ctx, j)
			}
			return w.runWithQueued(ctx, j.Row, queued, append(queued[:len(queued):len(queued)], j))
		}
		// Some are already being written, in a batch or with another job.
		if err := w.enqueueLocked(ctx, &Job{}); err != nil {
			return err
		}
		if err := w.waitInFlight(ctx, j.Row); err != nil {
			return err
		}
		w.Mu.Lock()
	}
}

// takeLocked removes the queued jobs of a row from the queue. It returns false if some
// of them are already being written.
func (w *writer) takeLocked(row string) (found []*Job, all bool) {
	if w.queuedByRow[row] == 0 {
		return nil, true
	}
	for _, q := range w.Queue {
		if q.Row == row && q.wake == nil {
			found = append(found, q)
		}
	}
	if len(found) != w.queuedByRow[row] {
		return nil, false
	}
	w.Queue = slices.DeleteFunc(w.Queue, func(q *Job) bool { return q.Row == row })
	w.inFlight[row] = make(chan struct{})
	return found, true
}

// runWithQueued executes a batch whose last job has a caller. queued are the jobs of its
// row that takeLocked removed from the queue.
func (w *writer) runWithQueued(ctx context.Context, row string, queued, batch []*Job) error {
	j := batch[len(batch)-1]
	j.Row = "" // its caller gets the error, so it is not logged
	err := w.runBatch(ctx, batch, true, j.RetryUntilCanceled)
	w.setErrors(batch, err)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, q := range queued {
		w.dequeuedLocked(q)
	}
	close(w.inFlight[row])
	delete(w.inFlight, row)
	return j.err
}

// waitInFlight waits for queued jobs of the row that another job is writing.
func (w *writer) waitInFlight(ctx context.Context, row string) error {
	w.Mu.Lock()
	inFlight := w.inFlight[row]
	w.Mu.Unlock()
	if inFlight == nil {
		return nil
	}
	select {
	case <-inFlight:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runPooled executes a job on its own connection, with retries.
func (w *writer) runPooled(ctx context.Context, j *Job) error {
	if j.Exclusive {
		// At most one job per process waits for the cluster-wide lock; more would
		// only occupy connections.
		select {
		case w.exclusive <- struct{}{}:
			defer func() { <-w.exclusive }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return w.retry.Do(ctx, j.RetryUntilCanceled, func(ctx context.Context, retried bool) error {
		j.Retried = j.Retried || retried
		if j.InTransaction {
			return w.runInTransaction(ctx, j)
		}
		return w.runAutocommit(ctx, j)
	})
}

// runAutocommit executes a job without a transaction. It takes a connection first,
// because on the pool database/sql resends a statement when the driver reports that it
// was not sent, and pgx also reports that for one whose response was lost.
func (w *writer) runAutocommit(ctx context.Context, j *Job) error {
	conn, err := w.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return runRecovered(ctx, conn, j.Run)
}

// runInTransaction executes a job in its own transaction.
func (w *writer) runInTransaction(ctx context.Context, j *Job) error {
	if j.xid != "" {
		if known, err := w.wasCommitted(ctx, j.xid); known || err != nil {
			return err
		}
		j.xid = ""
	}
	if j.Pipeline != nil && !j.Retried {
		if done, err := w.runPipelined(ctx, j); done {
			return err
		}
	}
	tx, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	xid, err := xidOf(ctx, tx, j)
	if err != nil {
		return err
	}
	if err := runRecovered(ctx, tx, j.Run); err != nil {
		return err
	}
	err = tx.Commit()
	if err != nil && connectionLost(err) {
		j.xid = xid
	}
	return err
}

// xidOf returns the transaction ID for jobs that need it to detect an earlier commit. For
// exclusive jobs the same query takes the lock.
func xidOf(ctx context.Context, tx bun.Tx, j *Job) (xid string, err error) {
	switch {
	case j.Exclusive:
		err = tx.NewRaw("SELECT pg_advisory_xact_lock(?), pg_current_xact_id()::text", int64(exclusiveLock)).Scan(ctx, new(string), &xid)
	case j.TrackXID:
		err = tx.NewRaw("SELECT pg_current_xact_id()::text").Scan(ctx, &xid)
	}
	return xid, err
}

// begin starts a READ COMMITTED transaction, regardless of the server's default.
func (w *writer) begin(ctx context.Context) (bun.Tx, error) {
	return w.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
}

var errInProgress = fmt.Errorf("the server has not ended the transaction yet: %w", sql.ErrConnDone)

// wasCommitted finds out what became of a transaction whose commit was not answered.
// It reports true when it was committed.
func (w *writer) wasCommitted(ctx context.Context, xid string) (bool, error) {
	var status NullString
	if err := w.DB.NewRaw("SELECT pg_xact_status(?::xid8)", xid).Scan(ctx, &status); err != nil {
		return false, err
	}
	switch status {
	case "committed":
		return true, nil
	case "aborted":
		return false, nil
	}
	return false, errInProgress // which is retried
}

// BatchStatement is a job that consists of one statement, so that a batch of
// such jobs can be sent in one round trip.
type BatchStatement struct {
	Stmt *Statement
	Args func() []any
	// Done receives the number of changed rows and reports whether the job is
	// complete; if not, it is run separately. Nil means complete.
	Done func(rows int64) bool
}

// maxBatchBytes bounds the size of the values of a batch sent in one round trip.
const maxBatchBytes = 1 << 20

// errRunSeparately means that the jobs of a batch must be run one by one.
var errRunSeparately = errors.New("one of the writes failed")

// runBatch executes queued jobs and possibly a later one in one transaction, in one round
// trip if possible. Because failures are rare there are no savepoints: if one job fails,
// all are run separately.
func (w *writer) runBatch(ctx context.Context, batch []*Job, several, untilCanceled bool) error {
	var work []*Job
	for _, j := range batch {
		if j.Run != nil {
			work = append(work, j)
		}
	}
	err := errRunSeparately
	if several {
		args, atOnce := batchArgs(work)
		err = w.retry.Do(ctx, untilCanceled, func(ctx context.Context, retried bool) error {
			for _, j := range work {
				j.Retried = j.Retried || retried
			}
			if atOnce {
				return w.sendBatch(ctx, work, args)
			}
			return w.runSequentially(ctx, work)
		})
	}
	if !errors.Is(err, errRunSeparately) {
		return err
	}
	for _, j := range work {
		j.err = w.runPooled(ctx, j)
	}
	return nil
}

// batchArgs returns the arguments of the jobs' statements and whether they can be sent in
// one round trip.
func batchArgs(batch []*Job) (args [][]any, ok bool) {
	size := 0
	for _, j := range batch {
		if j.Batchable == nil {
			return nil, false
		}
		values := j.Batchable.Args()
		args = append(args, values)
		for _, arg := range values {
			switch v := arg.(type) {
			case string:
				size += len(v)
			case NullString:
				size += len(v)
			case []byte:
				size += len(v)
			}
		}
	}
	return args, size <= maxBatchBytes
}

// sendBatch executes statements in one round trip, which PostgreSQL runs as one
// transaction. A job that is not complete after its statement is run separately.
func (w *writer) sendBatch(ctx context.Context, batch []*Job, args [][]any) error {
	conn, err := w.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var results []*pgconn.Result
	err = withPgxConn(conn, func(c *pgx.Conn) (err error) {
		results, err = execBatch(ctx, c, batch, args)
		return err
	})
	switch {
	case err != nil && (connectionLost(err) || transactionConflict(err)):
		return err
	case err != nil:
		return errRunSeparately
	}
	for i, j := range batch {
		j.err = nil
		if done := j.Batchable.Done; done != nil && !done(results[i].CommandTag.RowsAffected()) {
			j.err = w.runPooled(ctx, j)
		}
	}
	return nil
}

// execBatch sends the jobs' statements, prepared or as one text.
func execBatch(ctx context.Context, conn *pgx.Conn, batch []*Job, args [][]any) ([]*pgconn.Result, error) {
	if batch[0].Batchable.Stmt.canPrepare(conn) {
		var all pgconn.Batch
		for i, j := range batch {
			if err := j.Batchable.Stmt.queue(ctx, conn, &all, args[i]); err != nil {
				return nil, err
			}
		}
		return conn.PgConn().ExecBatch(ctx, &all).ReadAll()
	}
	var text strings.Builder
	for i, j := range batch {
		text.WriteString(j.Batchable.Stmt.inline(args[i]) + ";\n")
	}
	return conn.PgConn().Exec(ctx, text.String()).ReadAll()
}

// runSequentially executes the jobs one after the other in one transaction.
func (w *writer) runSequentially(ctx context.Context, batch []*Job) error {
	tx, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, j := range batch {
		j.err = runRecovered(ctx, tx, j.Run)
		switch {
		case j.err == nil:
		case connectionLost(j.err) || transactionConflict(j.err):
			return j.err
		case abortsTransaction(j.err):
			return errRunSeparately
		}
	}
	return tx.Commit()
}

// PreparableKey marks a direct connection to the server, where statements can be prepared.
// Its value is the time when the plans were last discarded.
const PreparableKey = "sallyport prepares"

// PlanLifetime bounds the age of cached plans. A plan made while a table was small scans
// the whole table.
const PlanLifetime = 5 * time.Second

// canPrepare reports whether the statement can be prepared on the connection.
func (s *Statement) canPrepare(conn *pgx.Conn) bool {
	_, yes := conn.PgConn().CustomData()[PreparableKey]
	return yes && !s.statementsLost.Load()
}

// ensurePrepared prepares the statement on the connection unless it is prepared already.
func (s *Statement) ensurePrepared(ctx context.Context, conn *pgx.Conn) (*pgconn.StatementDescription, error) {
	data := conn.PgConn().CustomData()
	if since, _ := data[PreparableKey].(time.Time); time.Since(since) > PlanLifetime {
		if _, err := conn.Exec(ctx, "DISCARD PLANS"); err != nil {
			return nil, err
		}
		data[PreparableKey] = time.Now()
	}
	return conn.Prepare(ctx, s.Dollars, s.Dollars)
}

// rewriter is a statement on its way to PostgreSQL: prepared where the connection
// allows it, since reading and planning cost more there than doing it, and
// otherwise as a text that holds its values.
type rewriter struct{ *Statement }

// rewriterArgs are the values behind what decides, once the connection is known, how
// they are sent.
func (s *Statement) rewriterArgs(args []any) []any { return append([]any{rewriter{s}}, args...) }

// RewriteQuery implements pgx.QueryRewriter: it sees the connection.
func (h rewriter) RewriteQuery(ctx context.Context, conn *pgx.Conn, _ string, args []any) (text string, values []any, err error) {
	if !h.canPrepare(conn) {
		return h.inline(args), nil, nil
	}
	if values, err = driverValues(args); err != nil {
		return "", nil, err
	}
	// pgx runs a text under which something is prepared as that.
	_, err = h.ensurePrepared(ctx, conn)
	return h.Dollars, values, err
}

// queue appends the statement to a batch of prepared ones.
func (s *Statement) queue(ctx context.Context, conn *pgx.Conn, batch *pgconn.Batch, args []any) error {
	values, err := driverValues(args)
	if err != nil {
		return err
	}
	prepared, err := s.ensurePrepared(ctx, conn)
	if err != nil {
		return err
	}
	var q pgx.ExtendedQueryBuilder
	if err := q.Build(conn.TypeMap(), prepared, values); err != nil {
		return err
	}
	batch.ExecStatement(prepared, q.ParamValues, q.ParamFormats, q.ResultFormats)
	return nil
}

// driverValues are the values as the driver takes them, and text as [postgres] would
// write it.
func driverValues(args []any) ([]any, error) {
	values := make([]any, len(args))
	for i, arg := range args {
		if v, ok := arg.(driver.Valuer); ok {
			var err error
			if arg, err = v.Value(); err != nil {
				return nil, fmt.Errorf("value %d: %w", i+1, err)
			}
		}
		if text, ok := arg.(string); ok {
			arg = SanitizeText(text)
		}
		values[i] = arg
	}
	return values, nil
}

// preparedStatementLost reports whether what was prepared is of no use: a pooler that looked
// like the server handed the connection to another process of it, or a newer
// gateway changed the type of a column.
func preparedStatementLost(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && (p.Code == "26000" || p.Code == "42P05" || p.Code == "0A000" && strings.Contains(p.Message, "cached plan"))
}

// Pipeline reduces the round trips of a job's transaction. If statements can be prepared,
// the queries are sent together with BEGIN and the last statement together with COMMIT,
// which shortens the wait of the caller and the time that locks are held.
type Pipeline struct {
	Queries []PipelineQuery
	Reset   func() // clears what an earlier attempt has read
	sent    bool   // the queries were answered, so Run does not repeat them
	// Last is the statement that Run leaves to be sent with COMMIT, if any. If it changes
	// no row, the job is run again without a pipeline, so Run must not have written
	// anything that depends on it.
	Last *PipelineQuery
}

// PipelineQuery is a statement and the destination of its first row. Without Dest the
// result is not read.
type PipelineQuery struct {
	Stmt *Statement
	Args []any
	Dest []any
}

// Pipelined reports whether the queries of the pipeline were answered before Run.
func (j *Job) Pipelined() bool { return j.Pipeline != nil && j.Pipeline.sent }

var (
	errCannotPrepare = errors.New("the connection cannot prepare statements")
	errNoRowChanged  = errors.New("the last statement changed nothing")
)

// runPipelined executes a job with a pipeline. It returns false if the job must be run
// without it.
func (w *writer) runPipelined(ctx context.Context, j *Job) (done bool, err error) {
	conn, err := w.DB.Conn(ctx)
	if err != nil {
		return true, err
	}
	defer conn.Close()
	o := j.Pipeline
	o.sent, o.Last = false, nil
	defer func() { o.sent = false }()
	if err = withPgxConn(conn, func(c *pgx.Conn) error { return w.beginPipeline(ctx, c, o) }); errors.Is(err, errCannotPrepare) {
		return false, nil
	}
	if err == nil {
		o.sent = true
		err = runRecovered(ctx, conn, j.Run)
	}
	if err == nil {
		err = withPgxConn(conn, func(c *pgx.Conn) error { return w.commitPipeline(ctx, c, o.Last) })
	}
	if errors.Is(err, errNoRowChanged) {
		return false, nil
	}
	if err != nil {
		_ = withPgxConn(conn, func(c *pgx.Conn) error { return rollbackOrClose(ctx, c) })
	}
	return true, err
}

// rollbackOrClose rolls back a failed job. If that fails it closes the connection, which
// would otherwise return to the pool with its locks.
func rollbackOrClose(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if conn.PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "rollback")
	}
	if conn.IsClosed() || conn.PgConn().TxStatus() != 'I' {
		return driver.ErrBadConn
	}
	return nil
}

// withPgxConn calls f with the pgx connection below database/sql and bun.
func withPgxConn(conn bun.Conn, f func(*pgx.Conn) error) error {
	return conn.Raw(func(c any) error { return f(c.(*stdlib.Conn).Conn()) })
}

func (w *writer) beginPipeline(ctx context.Context, conn *pgx.Conn, o *Pipeline) error {
	if !w.beginStmt.canPrepare(conn) {
		return errCannotPrepare
	}
	var batch pgconn.Batch
	if err := w.beginStmt.queue(ctx, conn, &batch, nil); err != nil {
		return err
	}
	for _, a := range o.Queries {
		if err := a.Stmt.queue(ctx, conn, &batch, a.Args); err != nil {
			return err
		}
	}
	results, err := conn.PgConn().ExecBatch(ctx, &batch).ReadAll()
	if err != nil {
		return err
	}
	o.Reset()
	for i, a := range o.Queries {
		if err := a.read(conn, results[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (a *PipelineQuery) read(conn *pgx.Conn, result *pgconn.Result) error {
	if a.Dest == nil || len(result.Rows) == 0 {
		return nil
	}
	for i, f := range result.FieldDescriptions {
		if err := conn.TypeMap().Scan(f.DataTypeOID, f.Format, result.Rows[0][i], a.Dest[i]); err != nil {
			return fmt.Errorf("reading %s: %w", f.Name, err)
		}
	}
	return nil
}

func (w *writer) commitPipeline(ctx context.Context, conn *pgx.Conn, last *PipelineQuery) error {
	var batch pgconn.Batch
	if last != nil {
		if err := last.Stmt.queue(ctx, conn, &batch, last.Args); err != nil {
			return err
		}
	}
	if err := w.commitStmt.queue(ctx, conn, &batch, nil); err != nil {
		return err
	}
	results, err := conn.PgConn().ExecBatch(ctx, &batch).ReadAll()
	if err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	if tag := results[len(results)-1].CommandTag.String(); tag != "COMMIT" { // an earlier statement failed
		return pgx.ErrTxCommitRollback
	}
	if last != nil && results[0].CommandTag.RowsAffected() == 0 {
		return errNoRowChanged
	}
	return nil
}
