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

// Load implements [action.Keeper].
func (db *DB) Load(ctx context.Context, organization, id string) (action.Record, error) {
	if err := db.write.flush(ctx, id); err != nil {
		return action.Record{}, err
	}
	// Without the end of ctx: the driver starts a goroutine to watch it, which
	// costs more than this look-up.
	row, err := loadRow(context.WithoutCancel(ctx), db.stmts.load, organization, id)
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

// inTx reads one row within the transaction.
func (db *DB) inTx(ctx context.Context, tx bun.Tx, organization, id string) (*invocationRow, error) {
	return loadRow(ctx, tx.StmtContext(ctx, db.stmts.one), organization, id)
}

func loadRow(ctx context.Context, stmt *sql.Stmt, organization, id string) (*invocationRow, error) {
	r := &invocationRow{}
	err := stmt.QueryRowContext(ctx, organization, id).Scan(r.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("reading invocation %s: %w", id, err)
	}
	return r, nil
}
