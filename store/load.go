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
	row, err := loadRow(db.stmts.load.QueryRowContext(context.WithoutCancel(ctx), organization, id), id)
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
	return loadRow(queryRow(ctx, tx, db.stmts.one, organization, id), id)
}

func loadRow(found *sql.Row, id string) (*invocationRow, error) {
	r := &invocationRow{}
	err := found.Scan(r.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("reading invocation %s: %w", id, err)
	}
	return r, nil
}
