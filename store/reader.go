package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"
)

// reader is the way to PostgreSQL for statements that only read: they are
// asked again while it cannot be reached. Rows outlive the functions here, and
// the caller's context is theirs, so that context must end: [bound] sees to it
// for bun's queries, and [DB.lookup] for others.
type reader struct {
	pool  *sql.DB
	retry retrier
}

// ResolveConn implements bun.ConnResolver.
func (r reader) ResolveConn(context.Context, bun.Query) bun.IConn { return r }

// Close implements bun.ConnResolver.
func (r reader) Close() error { return nil }

// QueryContext implements bun.IConn.
func (r reader) QueryContext(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	err = r.retry.do(ctx, false, func(context.Context, bool) error {
		rows, err = r.pool.QueryContext(ctx, query, args...) //nolint:sqlclosecheck,rowserrcheck // the caller reads and closes them
		return err
	})
	return rows, err
}

// QueryRowContext implements bun.IConn.
func (r reader) QueryRowContext(ctx context.Context, query string, args ...any) (row *sql.Row) {
	_ = r.retry.do(ctx, false, func(context.Context, bool) error {
		row = r.pool.QueryRowContext(ctx, query, args...)
		return row.Err()
	})
	if row == nil { // ctx had ended before the first attempt; the row says so
		row = r.pool.QueryRowContext(ctx, query, args...)
	}
	return row
}

// ExecContext implements bun.IConn.
func (r reader) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return r.pool.ExecContext(ctx, query, args...)
}

// bound ends a query that a server does not answer, and the reading of its
// rows: who asks in the background has a context that never ends.
type bound struct{ limit time.Duration }

// stopKey is where a query's context has the function that ends it.
type stopKey struct{}

// BeforeQuery implements bun.QueryHook.
func (b bound) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	ctx, stop := context.WithTimeout(ctx, b.limit)
	return context.WithValue(ctx, stopKey{}, stop)
}

// AfterQuery implements bun.QueryHook. The rows have been read.
func (b bound) AfterQuery(ctx context.Context, _ *bun.QueryEvent) {
	if stop, ok := ctx.Value(stopKey{}).(context.CancelFunc); ok {
		stop()
	}
}
