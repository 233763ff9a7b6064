package store

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"
)

// reader is the way to PostgreSQL for statements that only read: they are
// asked again while it cannot be reached.
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
		// The caller's context, because the rows outlive this function.
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
