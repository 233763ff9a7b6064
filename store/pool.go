package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
func (w *writer) besideLocked(ctx context.Context, j *job) error {
	for {
		ahead, all := w.takeLocked(j.row)
		if all {
			w.mu.Unlock()
			if len(ahead) == 0 {
				return w.pooled(ctx, j)
			}
			return w.along(ctx, j.row, ahead, append(ahead[:len(ahead):len(ahead)], j))
		}
		// Some are under way already, in a batch or taken along.
		if err := w.waitLocked(ctx, &job{}); err != nil {
			return err
		}
		if err := w.arrived(ctx, j.row); err != nil {
			return err
		}
		w.mu.Lock()
	}
}

// takeLocked takes the queued jobs of a row out of the queue; false when not
// all of them are there any more.
func (w *writer) takeLocked(row string) (found []*job, all bool) {
	if w.rows[row] == 0 {
		return nil, true
	}
	for _, q := range w.queue {
		if q.row == row && q.turn == nil {
			found = append(found, q)
		}
	}
	if len(found) != w.rows[row] {
		return nil, false
	}
	w.queue = slices.DeleteFunc(w.queue, func(q *job) bool { return q.row == row })
	w.taken[row] = make(chan struct{})
	return found, true
}

// along does a batch for the last of it, which has a caller. Ahead are the jobs of
// its row that were taken out of the queue for it.
func (w *writer) along(ctx context.Context, row string, ahead, batch []*job) error {
	j := batch[len(batch)-1]
	j.row = "" // its caller hears of it
	err := w.together(ctx, batch, true, j.patient)
	w.answer(batch, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range ahead {
		w.forgetLocked(q)
	}
	close(w.taken[row])
	delete(w.taken, row)
	return j.err
}

// arrived waits for queued jobs of the row that someone took along.
func (w *writer) arrived(ctx context.Context, row string) error {
	w.mu.Lock()
	taken := w.taken[row]
	w.mu.Unlock()
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
func (w *writer) pooled(ctx context.Context, j *job) error {
	if j.exclusive {
		// One of each process waits for the lock of all: more would only
		// occupy connections.
		select {
		case w.alone <- struct{}{}:
			defer func() { <-w.alone }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return w.retry.do(ctx, j.patient, func(ctx context.Context, again bool) error {
		j.again = j.again || again
		if j.whole {
			return w.whole(ctx, j)
		}
		return w.single(ctx, j)
	})
}

// single does a job whose statements are committed each by itself. It takes a
// connection first: on the pool, database/sql would send a statement again by
// itself when the driver says that it was not sent, and pgx says so also of
// one whose answer was lost.
func (w *writer) single(ctx context.Context, j *job) error {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return safely(ctx, conn, j.run)
}

// whole does a job in a transaction of its own.
func (w *writer) whole(ctx context.Context, j *job) error {
	if j.xid != "" {
		if known, err := w.ended(ctx, j.xid); known || err != nil {
			return err
		}
		j.xid = ""
	}
	if j.opening != nil && !j.again {
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
	if err := safely(ctx, tx, j.run); err != nil {
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
func xidOf(ctx context.Context, tx bun.Tx, j *job) (xid string, err error) {
	switch {
	case j.exclusive:
		err = tx.NewRaw("SELECT pg_advisory_xact_lock(?), pg_current_xact_id()::text", int64(exclusiveLock)).Scan(ctx, new(string), &xid)
	case j.numbered:
		err = tx.NewRaw("SELECT pg_current_xact_id()::text").Scan(ctx, &xid)
	}
	return xid, err
}

// begin begins a transaction in which each statement sees what was committed
// before it, whatever the server's default is.
func (w *writer) begin(ctx context.Context) (bun.Tx, error) {
	return w.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
}

var errInProgress = fmt.Errorf("the server has not ended the transaction yet: %w", sql.ErrConnDone)

// ended finds out what became of a transaction whose commit was not answered.
// It reports true when it was committed.
func (w *writer) ended(ctx context.Context, xid string) (bool, error) {
	var status opt
	if err := w.db.NewRaw("SELECT pg_xact_status(?::xid8)", xid).Scan(ctx, &status); err != nil {
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

// quick is a job of one statement, for a batch that is sent at once.
type quick struct {
	stmt *statement
	args func() []any
	// done is told how many rows the statement changed, and reports whether
	// that was all; if not, the job is run by itself. Nil: it was.
	done func(rows int64) bool
}

// maxBulk bounds the values of a batch that is sent at once, in bytes.
const maxBulk = 1 << 20

// errSplit tells that the jobs of a batch must be done one by one.
var errSplit = errors.New("one of them failed")

// together does queued jobs, and one that comes behind them, in one
// transaction: sent at once where it can be, which takes one round trip. None
// of them fails in the usual course, so there are no savepoints: when one
// does, each is done by itself.
func (w *writer) together(ctx context.Context, batch []*job, several, patient bool) error {
	var work []*job
	for _, j := range batch {
		if j.run != nil {
			work = append(work, j)
		}
	}
	err := errSplit
	if several {
		args, atOnce := bulk(work)
		err = w.retry.do(ctx, patient, func(ctx context.Context, again bool) error {
			for _, j := range work {
				j.again = j.again || again
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
func bulk(batch []*job) (args [][]any, ok bool) {
	size := 0
	for _, j := range batch {
		if j.quick == nil {
			return nil, false
		}
		values := j.quick.args()
		args = append(args, values)
		for _, arg := range values {
			switch v := arg.(type) {
			case string:
				size += len(v)
			case opt:
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
func (w *writer) send(ctx context.Context, batch []*job, args [][]any) error {
	conn, err := w.db.Conn(ctx)
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
		if done := j.quick.done; done != nil && !done(results[i].CommandTag.RowsAffected()) {
			j.err = w.pooled(ctx, j)
		}
	}
	return nil
}

// sendAll sends the statements of the jobs, prepared or as one text.
func sendAll(ctx context.Context, conn *pgx.Conn, batch []*job, args [][]any) ([]*pgconn.Result, error) {
	if batch[0].quick.stmt.prepares(conn) {
		var all pgconn.Batch
		for i, j := range batch {
			if err := j.quick.stmt.queue(ctx, conn, &all, args[i]); err != nil {
				return nil, err
			}
		}
		return conn.PgConn().ExecBatch(ctx, &all).ReadAll()
	}
	var text strings.Builder
	for i, j := range batch {
		text.WriteString(j.quick.stmt.with(args[i]) + ";\n")
	}
	return conn.PgConn().Exec(ctx, text.String()).ReadAll()
}

// transaction does the jobs one after the other.
func (w *writer) transaction(ctx context.Context, batch []*job) error {
	tx, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, j := range batch {
		j.err = safely(ctx, tx, j.run)
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
