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

// exclusiveLock is the number of PostgreSQL's advisory lock under which
// exclusive jobs run, and migrations: "sallypor" in ASCII. It belongs to a
// transaction and ends with it.
const exclusiveLock = 0x73616c6c79706f72

// besideLocked does a job on PostgreSQL, beside those of others. Queued jobs of
// its row are taken along: so a read's row and its end are one round trip and
// one commit. It unlocks w.mu.
//
// Measured with BenchmarkCall before statements were prepared, reads, fsync on,
// medians of rounds in turn: 690 µs a call at 16 callers and 650 at 64; 740 and 890
// when nothing is queued and each row is a commit of its own; 1430 and 780 when one
// leader commits all callers' rows in one transaction, as SQLite needs it.
func (w *writer) besideLocked(ctx context.Context, j *Job) error {
	for {
		ahead, all := w.takeLocked(j.Row)
		if all {
			w.Mu.Unlock()
			if len(ahead) == 0 {
				return w.pooled(ctx, j)
			}
			return w.along(ctx, j.Row, ahead, append(ahead[:len(ahead):len(ahead)], j))
		}
		// Some are under way already, in a batch or taken along.
		if err := w.waitLocked(ctx, &Job{}); err != nil {
			return err
		}
		if err := w.arrived(ctx, j.Row); err != nil {
			return err
		}
		w.Mu.Lock()
	}
}

// takeLocked takes the queued jobs of a row out of the queue; false when not
// all of them are there any more.
func (w *writer) takeLocked(row string) (found []*Job, all bool) {
	if w.rows[row] == 0 {
		return nil, true
	}
	for _, q := range w.Queue {
		if q.Row == row && q.turn == nil {
			found = append(found, q)
		}
	}
	if len(found) != w.rows[row] {
		return nil, false
	}
	w.Queue = slices.DeleteFunc(w.Queue, func(q *Job) bool { return q.Row == row })
	w.taken[row] = make(chan struct{})
	return found, true
}

// along does a batch for the last of it, which has a caller. Ahead are the jobs of
// its row that were taken out of the queue for it.
func (w *writer) along(ctx context.Context, row string, ahead, batch []*Job) error {
	j := batch[len(batch)-1]
	j.Row = "" // its caller hears of it
	err := w.together(ctx, batch, true, j.Patient)
	w.answer(batch, err)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, q := range ahead {
		w.forgetLocked(q)
	}
	close(w.taken[row])
	delete(w.taken, row)
	return j.err
}

// arrived waits for queued jobs of the row that someone took along.
func (w *writer) arrived(ctx context.Context, row string) error {
	w.Mu.Lock()
	taken := w.taken[row]
	w.Mu.Unlock()
	if taken == nil {
		return nil
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pooled does a job, beside those of others.
func (w *writer) pooled(ctx context.Context, j *Job) error {
	if j.Exclusive {
		// One of each process waits for the lock of all: more would only
		// occupy connections.
		select {
		case w.alone <- struct{}{}:
			defer func() { <-w.alone }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return w.retry.Do(ctx, j.Patient, func(ctx context.Context, again bool) error {
		j.Again = j.Again || again
		if j.Whole {
			return w.whole(ctx, j)
		}
		return w.single(ctx, j)
	})
}

// single does a job whose statements are committed each by itself. It takes a
// connection first: on the pool, database/sql would send a statement again by
// itself when the driver says that it was not sent, and pgx says so also of
// one whose answer was lost.
func (w *writer) single(ctx context.Context, j *Job) error {
	conn, err := w.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return safely(ctx, conn, j.Run)
}

// whole does a job in a transaction of its own.
func (w *writer) whole(ctx context.Context, j *Job) error {
	if j.xid != "" {
		if known, err := w.ended(ctx, j.xid); known || err != nil {
			return err
		}
		j.xid = ""
	}
	if j.Opening != nil && !j.Again {
		if done, err := w.piped(ctx, j); done {
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
	if err := safely(ctx, tx, j.Run); err != nil {
		return err
	}
	err = tx.Commit()
	if err != nil && lost(err) {
		j.xid = xid
	}
	return err
}

// xidOf is the number of the transaction of a job that cannot tell by its rows
// whether it was done before. That of an exclusive one comes with the lock.
func xidOf(ctx context.Context, tx bun.Tx, j *Job) (xid string, err error) {
	switch {
	case j.Exclusive:
		err = tx.NewRaw("SELECT pg_advisory_xact_lock(?), pg_current_xact_id()::text", int64(exclusiveLock)).Scan(ctx, new(string), &xid)
	case j.Numbered:
		err = tx.NewRaw("SELECT pg_current_xact_id()::text").Scan(ctx, &xid)
	}
	return xid, err
}

// begin begins a transaction in which each statement sees what was committed
// before it, whatever the server's default is.
func (w *writer) begin(ctx context.Context) (bun.Tx, error) {
	return w.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
}

var errInProgress = fmt.Errorf("the server has not ended the transaction yet: %w", sql.ErrConnDone)

// ended finds out what became of a transaction whose commit was not answered.
// It reports true when it was committed.
func (w *writer) ended(ctx context.Context, xid string) (bool, error) {
	var status Opt
	if err := w.DB.NewRaw("SELECT pg_xact_status(?::xid8)", xid).Scan(ctx, &status); err != nil {
		return false, err
	}
	switch status {
	case "committed":
		return true, nil
	case "aborted":
		return false, nil
	}
	return false, errInProgress // and so is asked again
}

// Quick is a job of one statement, for a batch that is sent at once.
type Quick struct {
	Stmt *Statement
	Args func() []any
	// Done is told how many rows the statement changed, and reports whether
	// that was all; if not, the job is run by itself. Nil: it was.
	Done func(rows int64) bool
}

// maxBulk bounds the values of a batch that is sent at once, in bytes.
const maxBulk = 1 << 20

// errSplit tells that the jobs of a batch must be done one by one.
var errSplit = errors.New("one of them failed")

// together does queued jobs, and one that comes behind them, in one
// transaction: sent at once where it can be, which takes one round trip. None
// of them fails in the usual course, so there are no savepoints: when one
// does, each is done by itself.
func (w *writer) together(ctx context.Context, batch []*Job, several, patient bool) error {
	var work []*Job
	for _, j := range batch {
		if j.Run != nil {
			work = append(work, j)
		}
	}
	err := errSplit
	if several {
		args, atOnce := bulk(work)
		err = w.retry.Do(ctx, patient, func(ctx context.Context, again bool) error {
			for _, j := range work {
				j.Again = j.Again || again
			}
			if atOnce {
				return w.send(ctx, work, args)
			}
			return w.transaction(ctx, work)
		})
	}
	if !errors.Is(err, errSplit) {
		return err
	}
	for _, j := range work {
		j.err = w.pooled(ctx, j)
	}
	return nil
}

// bulk gathers the values of the jobs' statements, and tells whether they can be
// sent at once.
func bulk(batch []*Job) (args [][]any, ok bool) {
	size := 0
	for _, j := range batch {
		if j.Quick == nil {
			return nil, false
		}
		values := j.Quick.Args()
		args = append(args, values)
		for _, arg := range values {
			switch v := arg.(type) {
			case string:
				size += len(v)
			case Opt:
				size += len(v)
			case []byte:
				size += len(v)
			}
		}
	}
	return args, size <= maxBulk
}

// send has statements executed at once, which PostgreSQL does in one
// transaction. A job that has more to do than its statement does it afterwards.
func (w *writer) send(ctx context.Context, batch []*Job, args [][]any) error {
	conn, err := w.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var results []*pgconn.Result
	err = raw(conn, func(c *pgx.Conn) (err error) {
		results, err = sendAll(ctx, c, batch, args)
		return err
	})
	switch {
	case err != nil && (lost(err) || clash(err)):
		return err
	case err != nil:
		return errSplit
	}
	for i, j := range batch {
		j.err = nil
		if done := j.Quick.Done; done != nil && !done(results[i].CommandTag.RowsAffected()) {
			j.err = w.pooled(ctx, j)
		}
	}
	return nil
}

// sendAll sends the statements of the jobs, prepared or as one text.
func sendAll(ctx context.Context, conn *pgx.Conn, batch []*Job, args [][]any) ([]*pgconn.Result, error) {
	if batch[0].Quick.Stmt.prepares(conn) {
		var all pgconn.Batch
		for i, j := range batch {
			if err := j.Quick.Stmt.queue(ctx, conn, &all, args[i]); err != nil {
				return nil, err
			}
		}
		return conn.PgConn().ExecBatch(ctx, &all).ReadAll()
	}
	var text strings.Builder
	for i, j := range batch {
		text.WriteString(j.Quick.Stmt.with(args[i]) + ";\n")
	}
	return conn.PgConn().Exec(ctx, text.String()).ReadAll()
}

// transaction does the jobs one after the other.
func (w *writer) transaction(ctx context.Context, batch []*Job) error {
	tx, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, j := range batch {
		j.err = safely(ctx, tx, j.Run)
		switch {
		case j.err == nil:
		case lost(j.err) || clash(j.err):
			return j.err
		case poisons(j.err):
			return errSplit
		}
	}
	return tx.Commit()
}

// PreparesKey marks a connection on which statements may be prepared, one that
// leads to the server itself, with when its plans were last thrown away.
const PreparesKey = "sallyport prepares"

// PlansFor is how long plans are kept. They are for the tables as large as they
// were then: one of a table of a few rows reads all of it.
const PlansFor = 5 * time.Second

// prepares reports whether the statement may be prepared on the connection.
func (s *Statement) prepares(conn *pgx.Conn) bool {
	_, yes := conn.PgConn().CustomData()[PreparesKey]
	return yes && !s.forgets.Load()
}

// ready prepares the statement on the connection, if it is not.
func (s *Statement) ready(ctx context.Context, conn *pgx.Conn) (*pgconn.StatementDescription, error) {
	data := conn.PgConn().CustomData()
	if since, _ := data[PreparesKey].(time.Time); time.Since(since) > PlansFor {
		if _, err := conn.Exec(ctx, "DISCARD PLANS"); err != nil {
			return nil, err
		}
		data[PreparesKey] = time.Now()
	}
	return conn.Prepare(ctx, s.Dollars, s.Dollars)
}

// hot is a statement on its way to PostgreSQL: prepared where the connection
// allows it, since reading and planning cost more there than doing it, and
// otherwise as a text that holds its values.
type hot struct{ *Statement }

// hot are the values behind what decides, once the connection is known, how
// they are sent.
func (s *Statement) hot(args []any) []any { return append([]any{hot{s}}, args...) }

// RewriteQuery implements pgx.QueryRewriter: it sees the connection.
func (h hot) RewriteQuery(ctx context.Context, conn *pgx.Conn, _ string, args []any) (text string, values []any, err error) {
	if !h.prepares(conn) {
		return h.with(args), nil, nil
	}
	if values, err = driven(args); err != nil {
		return "", nil, err
	}
	// pgx runs a text under which something is prepared as that.
	_, err = h.ready(ctx, conn)
	return h.Dollars, values, err
}

// queue appends the statement to a batch of prepared ones.
func (s *Statement) queue(ctx context.Context, conn *pgx.Conn, batch *pgconn.Batch, args []any) error {
	values, err := driven(args)
	if err != nil {
		return err
	}
	prepared, err := s.ready(ctx, conn)
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

// driven are the values as the driver takes them, and text as [postgres] would
// write it.
func driven(args []any) ([]any, error) {
	values := make([]any, len(args))
	for i, arg := range args {
		if v, ok := arg.(driver.Valuer); ok {
			var err error
			if arg, err = v.Value(); err != nil {
				return nil, fmt.Errorf("value %d: %w", i+1, err)
			}
		}
		if text, ok := arg.(string); ok {
			arg = Storable(text)
		}
		values[i] = arg
	}
	return values, nil
}

// forgotten reports whether what was prepared is of no use: a pooler that looked
// like the server handed the connection to another process of it, or a newer
// gateway changed the type of a column.
func forgotten(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && (p.Code == "26000" || p.Code == "42P05" || p.Code == "0A000" && strings.Contains(p.Message, "cached plan"))
}

// Opening is what a job's transaction begins with, and how it ends. Where
// statements may be prepared PostgreSQL is sent the first ones with BEGIN and the
// last one with COMMIT: each round trip less is a wait less for the caller, and
// time in which locks are held.
type Opening struct {
	Asks  []Ask
	Reset func() // of what an attempt before read
	done  bool   // asks were answered: run need not ask
	// Last is the statement that run leaves to be sent with COMMIT; nil: none. When it
	// changes no row, the job is done anew without an opening: so nothing that depends
	// on it may have been written before it.
	Last *Ask
}

// Ask is a statement and where its first row goes, if there is one; nil: it is not
// read.
type Ask struct {
	Stmt *Statement
	Args []any
	Dest []any
}

// Opened reports whether run is called between the two round trips of its job.
func (j *Job) Opened() bool { return j.Opening != nil && j.Opening.done }

var (
	errUnprepared = errors.New("the connection prepares nothing")
	errNoRow      = errors.New("the last statement changed nothing")
)

// piped does a whole job that has an opening; false: it is to be done without.
func (w *writer) piped(ctx context.Context, j *Job) (done bool, err error) {
	conn, err := w.DB.Conn(ctx)
	if err != nil {
		return true, err
	}
	defer conn.Close()
	o := j.Opening
	o.done, o.Last = false, nil
	defer func() { o.done = false }()
	if err = raw(conn, func(c *pgx.Conn) error { return w.open(ctx, c, o) }); errors.Is(err, errUnprepared) {
		return false, nil
	}
	if err == nil {
		o.done = true
		err = safely(ctx, conn, j.Run)
	}
	if err == nil {
		err = raw(conn, func(c *pgx.Conn) error { return w.end(ctx, c, o.Last) })
	}
	if errors.Is(err, errNoRow) {
		return false, nil
	}
	if err != nil {
		_ = raw(conn, func(c *pgx.Conn) error { return leave(ctx, c) })
	}
	return true, err
}

// leave ends the transaction of a job that failed. Where that fails it ends the
// connection: the pool would keep it as it is, and its locks.
func leave(ctx context.Context, conn *pgx.Conn) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if conn.PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "rollback")
	}
	if conn.IsClosed() || conn.PgConn().TxStatus() != 'I' {
		return driver.ErrBadConn
	}
	return nil
}

// raw gives what is below database/sql and bun.
func raw(conn bun.Conn, f func(*pgx.Conn) error) error {
	return conn.Raw(func(c any) error { return f(c.(*stdlib.Conn).Conn()) })
}

func (w *writer) open(ctx context.Context, conn *pgx.Conn, o *Opening) error {
	if !w.start.prepares(conn) {
		return errUnprepared
	}
	var batch pgconn.Batch
	if err := w.start.queue(ctx, conn, &batch, nil); err != nil {
		return err
	}
	for _, a := range o.Asks {
		if err := a.Stmt.queue(ctx, conn, &batch, a.Args); err != nil {
			return err
		}
	}
	results, err := conn.PgConn().ExecBatch(ctx, &batch).ReadAll()
	if err != nil {
		return err
	}
	o.Reset()
	for i, a := range o.Asks {
		if err := a.read(conn, results[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (a *Ask) read(conn *pgx.Conn, result *pgconn.Result) error {
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

func (w *writer) end(ctx context.Context, conn *pgx.Conn, last *Ask) error {
	var batch pgconn.Batch
	if last != nil {
		if err := last.Stmt.queue(ctx, conn, &batch, last.Args); err != nil {
			return err
		}
	}
	if err := w.finish.queue(ctx, conn, &batch, nil); err != nil {
		return err
	}
	results, err := conn.PgConn().ExecBatch(ctx, &batch).ReadAll()
	if err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	if tag := results[len(results)-1].CommandTag.String(); tag != "COMMIT" { // a statement had failed unseen
		return pgx.ErrTxCommitRollback
	}
	if last != nil && results[0].CommandTag.RowsAffected() == 0 {
		return errNoRow
	}
	return nil
}
