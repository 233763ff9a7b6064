package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

var loadSQL = "SELECT " + keptList + " FROM invocations WHERE organization_id = ?1 AND id = ?2"

// Load implements [action.Ledger].
func (db *DB) Load(ctx context.Context, organization, id string) (action.Record, error) {
	if err := db.write.flush(ctx, id); err != nil {
		return action.Record{}, err
	}
	ctx, stop := db.lookup(ctx)
	defer stop()
	row, err := loadRow(ctx, &db.stmts.load, db.read, organization, id)
	if err != nil {
		return action.Record{}, err
	}
	return row.record()
}

// Invocation returns one row as people see it.
func (db *DB) Invocation(ctx context.Context, organization, id string) (action.Invocation, error) {
	rec, err := db.Load(ctx, organization, id)
	return rec.Invocation, err
}

// lookup is the context of a short read. The caller's end is left out of it. On
// SQLite the driver starts a goroutine to watch a context, which costs more
// than the read; on PostgreSQL a connection that is left in the middle must be
// closed, and the read only be bounded.
func (db *DB) lookup(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if !db.Shared() {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, db.retry.limit)
}

// inTx reads one row within the transaction.
func (db *DB) inTx(ctx context.Context, tx bun.IDB, organization, id string) (*invocationRow, error) {
	return loadRow(ctx, &db.stmts.one, tx, organization, id)
}

func loadRow(ctx context.Context, load *statement, db bun.IDB, organization, id string) (*invocationRow, error) {
	r := &invocationRow{}
	err := load.one(ctx, db, []any{organization, id}, keptColumns.scan(r))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("reading invocation %s: %w", id, err)
	}
	return r, nil
}
