package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// Returns implements [action.Ledger]. Of several callers of a call each may be
// asked, so what they can adds up.
func (db *DB) Returns(ctx context.Context, organization, invocation string, can action.ClientFeatures) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewRaw(returnsSQL, int(can), organization, invocation).Exec(ctx); err != nil {
			return fmt.Errorf("noting who comes back for invocation %s: %w", invocation, err)
		}
		return nil
	})
}

const returnsSQL = `INSERT INTO returning_callers (invocation_id, can)
SELECT id, ? FROM invocations WHERE organization_id = ? AND id = ? AND status IN ('pending', 'approved')
ON CONFLICT (invocation_id) DO UPDATE SET can = returning_callers.can | excluded.can`

const returningSQL = `SELECT c.can FROM returning_callers c JOIN invocations i ON i.id = c.invocation_id
WHERE c.invocation_id = ?2 AND i.organization_id = ?1`

// Returning implements [action.Ledger].
func (db *DB) Returning(ctx context.Context, organization, invocation string) (action.ClientFeatures, error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	var can int
	err := db.stmts.returning.one(ctx, db.read, []any{organization, invocation}, []any{&can})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("reading who comes back for invocation %s: %w", invocation, err)
	}
	return action.ClientFeatures(can), nil
}
