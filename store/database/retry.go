package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"

	"sallyport/action"
)

// reader runs read-only statements on PostgreSQL and retries them while the server
// is unreachable. The rows outlive these methods and use the caller's context, so
// that context needs a deadline: [queryTimeout] sets it for bun's queries,
// [DB.ReadContext] for all others.
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
	err = r.retry.Do(ctx, false, func(context.Context, bool) error {
		rows, err = r.pool.QueryContext(ctx, query, args...) //nolint:sqlclosecheck,rowserrcheck // the caller reads and closes them
		return err
	})
	return rows, err
}

// QueryRowContext implements bun.IConn.
func (r reader) QueryRowContext(ctx context.Context, query string, args ...any) (row *sql.Row) {
	_ = r.retry.Do(ctx, false, func(context.Context, bool) error {
		row = r.pool.QueryRowContext(ctx, query, args...)
		return row.Err()
	})
	if row == nil { // ctx ended before the first attempt; the row has the error
		row = r.pool.QueryRowContext(ctx, query, args...)
	}
	return row
}

// ExecContext implements bun.IConn.
func (r reader) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return r.pool.ExecContext(ctx, query, args...)
}

// queryTimeout bounds a query and the reading of its rows: the contexts of
// background jobs have no deadline.
type queryTimeout struct{ limit time.Duration }

// cancelKey is the context key of a query's cancel function.
type cancelKey struct{}

// BeforeQuery implements bun.QueryHook.
func (b queryTimeout) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

// AfterQuery implements bun.QueryHook. The rows have been read.
func (b queryTimeout) AfterQuery(ctx context.Context, _ *bun.QueryEvent) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
		cancel()
	}
}

// Delays between two attempts.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// retrier retries what failed because the connection was lost, so that callers wait
// for a restart or failover of PostgreSQL instead of failing.
type retrier struct {
	limit          time.Duration
	statementsLost *atomic.Bool // prepared statements do not survive on their connection
	log            *slog.Logger
}

func newRetrier(limit time.Duration) retrier {
	return retrier{limit, new(atomic.Bool), slog.New(slog.DiscardHandler)}
}

// Do calls f until it succeeds, fails for another reason, or the limit is reached.
// retried tells f that an earlier attempt may have been committed without
// confirmation. With untilCanceled there is no limit but the context.
func (r retrier) Do(ctx context.Context, untilCanceled bool, f func(ctx context.Context, retried bool) error) error {
	started, backoff, retried := time.Now(), minBackoff, false
	for {
		err := r.attempt(ctx, retried, f)
		if preparedStatementLost(err) && r.statementsLost.CompareAndSwap(false, true) {
			r.log.Warn("PostgreSQL or its pooler lost the prepared statements; statements are sent as text until a restart, which is slower", "error", err)
		}
		if !connectionLost(err) && !transactionConflict(err) {
			return err
		}
		// The lost prepared statement may follow one that was already executed.
		retried = retried || preparedStatementLost(err) || connectionLost(err) && !neverSent(err)
		if !untilCanceled && time.Since(started)+backoff > r.limit {
			return unavailable(err)
		}
		select {
		case <-ctx.Done():
			return unavailable(err)
		case <-time.After(backoff/2 + rand.N(backoff)):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// attempt bounds one attempt. It ignores cancellation by the caller once begun:
// an interrupted connection would have to be closed.
func (r retrier) attempt(ctx context.Context, retried bool, f func(ctx context.Context, retried bool) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limit)
	defer cancel()
	return f(ctx, retried)
}

// unavailable returns the error for a database that did not recover in time.
func unavailable(err error) error {
	return action.NewError("database_unavailable").WithRetry(5 * time.Second).WithCause(err)
}

// connectionLost reports whether err concerns the connection rather than the
// statement.
func connectionLost(err error) bool {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		switch p.Code {
		case "57P01", "57P02", "57P03", "57P05", // shut down, crashed, starting, idle
			"25P03", "25006", // cut off in a transaction; a standby, in a failover
			"53300": // too many connections
			return true
		}
		return strings.HasPrefix(p.Code, "08")
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.Timeout(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone)
}

// neverSent reports whether the statement certainly did not reach the server.
// ErrBadConn does not prove that; see [writer.runAutocommit].
func neverSent(err error) bool {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code == "57P03" || p.Code == "53300" || p.Code == "25006"
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect)
}

// transactionConflict reports whether PostgreSQL rolled a transaction back because
// of a serialization failure, a deadlock or a lost prepared statement.
func transactionConflict(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && (p.Code == "40001" || p.Code == "40P01") || preparedStatementLost(err)
}
