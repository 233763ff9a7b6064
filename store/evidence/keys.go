package evidence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

type keyCheckRow struct {
	bun.BaseModel `bun:"table:key_checks"`

	Name        string             `bun:"name,pk"`
	Fingerprint string             `bun:"fingerprint"`
	CreatedAt   database.Timestamp `bun:"created_at"`
}

// CheckKeys ensures that all instances use the same keys. It receives fingerprints by key
// name ("master", "token"), which must not reveal anything about the keys. The first call
// records all of them atomically; a later call with a different key gets ErrConflict.
func (st *Store) CheckKeys(ctx context.Context, fingerprints map[string]string) error {
	names := slices.Sorted(maps.Keys(fingerprints))
	if len(names) == 0 {
		return nil
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		var rows []keyCheckRow
		if err := tx.NewSelect().Model(&rows).Where("name IN (?)", bun.List(names)).Order("name").Scan(ctx); err != nil {
			return fmt.Errorf("checking the keys: %w", err)
		}
		known := map[string]bool{}
		for _, r := range rows {
			known[r.Name] = true
			if r.Fingerprint != fingerprints[r.Name] {
				return keyDiffers(r.Name)
			}
		}
		for _, name := range names {
			if known[name] {
				continue
			}
			r := &keyCheckRow{Name: name, Fingerprint: fingerprints[name], CreatedAt: database.NewTimestamp(st.db.Now())}
			if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
				return fmt.Errorf("noting the %s key: %w", name, err)
			}
		}
		return nil
	})
}

// CheckedKey returns the fingerprint that [Store.CheckKeys] recorded for a key, or "".
func (st *Store) CheckedKey(ctx context.Context, name string) (fingerprint string, err error) {
	err = st.db.Read.NewSelect().Table("key_checks").Column("fingerprint").Where("name = ?", name).Scan(ctx, &fingerprint)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading the fingerprint of the %s key: %w", name, err)
	}
	return fingerprint, nil
}

// ReplaceKey replaces one of the previous fingerprints of a key. It returns ErrConflict if
// the recorded fingerprint is neither a previous one nor the new one.
func (st *Store) ReplaceKey(ctx context.Context, name, fingerprint string, previous ...string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := database.RowsAffected(tx.NewUpdate().Table("key_checks").Set("fingerprint = ?", fingerprint).
			Where("name = ?", name).Where("fingerprint IN (?)", bun.List(append(previous, fingerprint))).Exec(ctx))
		switch {
		case err != nil:
			return fmt.Errorf("noting the new %s key: %w", name, err)
		case n == 0:
			return keyDiffers(name)
		}
		return nil
	})
}

func keyDiffers(name string) error {
	return action.NewError("key_differs", name, strings.ToUpper(name))
}

// vaultKeyRow is a key encrypted with the master key, which survives a rotation of the
// master key.
type vaultKeyRow struct {
	bun.BaseModel `bun:"table:vault_keys"`

	Name      string             `bun:"name,pk"`
	Sealed    []byte             `bun:"sealed"`
	CreatedAt database.Timestamp `bun:"created_at"`
}

// VaultKey returns a sealed key of the deployment, or ErrNotFound.
func (st *Store) VaultKey(ctx context.Context, name string) ([]byte, error) {
	r := &vaultKeyRow{Name: name}
	err := st.db.Read.NewSelect().Model(r).WherePK().Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, action.NewError("vault_key_not_found", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading key %s: %w", name, err)
	}
	return r.Sealed, nil
}

// PutVaultKey creates or replaces a sealed key.
func (st *Store) PutVaultKey(ctx context.Context, name string, sealed []byte) error {
	r := &vaultKeyRow{Name: name, Sealed: sealed, CreatedAt: database.NewTimestamp(st.db.Now())}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(r).On("CONFLICT (name) DO UPDATE").Set("sealed = EXCLUDED.sealed").Exec(ctx)
		if err != nil {
			return fmt.Errorf("writing key %s: %w", name, err)
		}
		return nil
	})
}
