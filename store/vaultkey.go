package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// vaultKeyRow is a key that a rotation of the master key does not change, sealed
// with that one.
type vaultKeyRow struct {
	bun.BaseModel `bun:"table:vault_keys"`

	Name      string `bun:"name,pk"`
	Sealed    []byte `bun:"sealed"`
	CreatedAt stamp  `bun:"created_at"`
}

// VaultKey returns a sealed key of the deployment; ErrNotFound.
func (db *DB) VaultKey(ctx context.Context, name string) ([]byte, error) {
	r := &vaultKeyRow{Name: name}
	err := db.read.NewSelect().Model(r).WherePK().Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, action.NewError("vault_key_not_found", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading key %s: %w", name, err)
	}
	return r.Sealed, nil
}

// PutVaultKey writes a sealed key, or replaces it.
func (db *DB) PutVaultKey(ctx context.Context, name string, sealed []byte) error {
	r := &vaultKeyRow{Name: name, Sealed: sealed, CreatedAt: at(db.now())}
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(r).On("CONFLICT (name) DO UPDATE").Set("sealed = EXCLUDED.sealed").Exec(ctx)
		if err != nil {
			return fmt.Errorf("writing key %s: %w", name, err)
		}
		return nil
	})
}
