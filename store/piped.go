package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
)

// opening is what a job's transaction begins with, and how it ends. Where
// statements may be prepared PostgreSQL is sent the first ones with BEGIN and the
// last one with COMMIT: each round trip less is a wait less for the caller, and
// time in which locks are held.
type opening struct {
	asks  []ask
	reset func() // of what an attempt before read
	done  bool   // asks were answered: run need not ask
	// last is the statement that run leaves to be sent with COMMIT; nil: none. When it
	// changes no row, the job is done anew without an opening: so nothing that depends
	// on it may have been written before it.
	last *ask
}

// ask is a statement and where its first row goes, if there is one; nil: it is not
// read.
type ask struct {
	stmt *statement
	args []any
	dest []any
}

// opened reports whether run is called between the two round trips of its job.
func (j *job) opened() bool { return j.opening != nil && j.opening.done }

var (
	errUnprepared = errors.New("the connection prepares nothing")
	errNoRow      = errors.New("the last statement changed nothing")
)

// piped does a whole job that has an opening; false: it is to be done without.
func (w *writer) piped(ctx context.Context, j *job) (done bool, err error) {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return true, err
	}
	defer conn.Close()
	o := j.opening
	o.done, o.last = false, nil
	defer func() { o.done = false }()
	if err = raw(conn, func(c *pgx.Conn) error { return w.open(ctx, c, o) }); errors.Is(err, errUnprepared) {
		return false, nil
	}
	if err == nil {
		o.done = true
		err = safely(ctx, conn, j.run)
	}
	if err == nil {
		err = raw(conn, func(c *pgx.Conn) error { return w.end(ctx, c, o.last) })
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

func (w *writer) open(ctx context.Context, conn *pgx.Conn, o *opening) error {
	if !w.start.prepares(conn) {
		return errUnprepared
	}
	var batch pgconn.Batch
	if err := w.start.queue(ctx, conn, &batch, nil); err != nil {
		return err
	}
	for _, a := range o.asks {
		if err := a.stmt.queue(ctx, conn, &batch, a.args); err != nil {
			return err
		}
	}
	results, err := conn.PgConn().ExecBatch(ctx, &batch).ReadAll()
	if err != nil {
		return err
	}
	o.reset()
	for i, a := range o.asks {
		if err := a.read(conn, results[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (a *ask) read(conn *pgx.Conn, result *pgconn.Result) error {
	if a.dest == nil || len(result.Rows) == 0 {
		return nil
	}
	for i, f := range result.FieldDescriptions {
		if err := conn.TypeMap().Scan(f.DataTypeOID, f.Format, result.Rows[0][i], a.dest[i]); err != nil {
			return fmt.Errorf("reading %s: %w", f.Name, err)
		}
	}
	return nil
}

func (w *writer) end(ctx context.Context, conn *pgx.Conn, last *ask) error {
	var batch pgconn.Batch
	if last != nil {
		if err := last.stmt.queue(ctx, conn, &batch, last.args); err != nil {
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
