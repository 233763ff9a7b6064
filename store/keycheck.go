package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type keyCheckRow struct {
	bun.BaseModel `bun:"table:key_checks"`

	Name        string `bun:"name,pk"`
	Fingerprint string `bun:"fingerprint"`
	CreatedAt   stamp  `bun:"created_at"`
}

// CheckKey makes sure that all who use these rows have the same key of that
// name ("master", "token"). The first caller ever writes its fingerprint down;
// whoever comes with another one gets ErrConflict. A fingerprint must not tell
// anything of its key.
func (db *DB) CheckKey(ctx context.Context, name, fingerprint string) error {
	mine := &keyCheckRow{Name: name, Fingerprint: fingerprint, CreatedAt: at(db.now())}
	first := &keyCheckRow{Name: name}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		// Of two first callers one inserts; the other waits for it here, and
		// reads what it wrote in the next statement.
		if _, err := tx.NewInsert().Model(mine).On("CONFLICT (name) DO NOTHING").Exec(ctx); err != nil {
			return err
		}
		return tx.NewSelect().Model(first).WherePK().Scan(ctx)
	})
	if err != nil {
		return fmt.Errorf("checking the %s key: %w", name, err)
	}
	if first.Fingerprint != fingerprint {
		return action.Errorf(action.ErrConflict, "key_differs",
			"This database was written with another %s key: set the same SALLYPORT_%s_KEY on every instance, or restore the old key file.",
			name, strings.ToUpper(name))
	}
	return nil
}
