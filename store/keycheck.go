package store

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
)

type keyCheckRow struct {
	bun.BaseModel `bun:"table:key_checks"`

	Name        string `bun:"name,pk"`
	Fingerprint string `bun:"fingerprint"`
	CreatedAt   stamp  `bun:"created_at"`
}

// CheckKeys makes sure that all who use these rows have the same keys. It is
// given fingerprints by name ("master", "token"); one must not tell anything of
// its key. The first caller ever writes its own down, all of them or none, so
// that of two first callers with different keys one finds all as it has them;
// the other, and whoever comes with another key later, gets ErrConflict.
func (db *DB) CheckKeys(ctx context.Context, fingerprints map[string]string) error {
	names := slices.Sorted(maps.Keys(fingerprints))
	if len(names) == 0 {
		return nil
	}
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
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
			r := &keyCheckRow{Name: name, Fingerprint: fingerprints[name], CreatedAt: at(db.now())}
			if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
				return fmt.Errorf("noting the %s key: %w", name, err)
			}
		}
		return nil
	})
}

// CheckedKey returns the fingerprint of a key that [DB.CheckKeys] wrote down; ""
// when nobody has yet.
func (db *DB) CheckedKey(ctx context.Context, name string) (fingerprint string, err error) {
	err = db.read.NewSelect().Table("key_checks").Column("fingerprint").Where("name = ?", name).Scan(ctx, &fingerprint)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading the fingerprint of the %s key: %w", name, err)
	}
	return fingerprint, nil
}

// ReplaceKey writes down the fingerprint of the key that replaced one of those
// that have the olds, or is there already; ErrConflict when it is a third one's.
func (db *DB) ReplaceKey(ctx context.Context, name, fingerprint string, olds ...string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := affected(tx.NewUpdate().Table("key_checks").Set("fingerprint = ?", fingerprint).
			Where("name = ?", name).Where("fingerprint IN (?)", bun.List(append(olds, fingerprint))).Exec(ctx))
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
