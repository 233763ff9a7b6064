package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/uptrace/bun"
)

// Versions tells what of an organization has moved: whoever keeps something
// made of its policy or its connectors compares them with those it had then.
type Versions struct {
	Organization string `bun:"id"`
	Policy       int64  `bun:"policy_version"`
	Catalog      int64  `bun:"catalog_version"`
}

// Versions returns the versions of all organizations, in one query that is
// cheap enough for every second.
func (db *DB) Versions(ctx context.Context) ([]Versions, error) {
	var list []Versions
	if err := versions(db.read).Scan(ctx, &list); err != nil {
		return nil, fmt.Errorf("reading the versions: %w", err)
	}
	return list, nil
}

func versions(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().Table("organizations").Column("id", "policy_version", "catalog_version").Order("id")
}

// catalogMoved counts a change of connectors, or of a secret that one uses:
// what an instance knows of them is read again. It belongs into the
// transaction of the change.
func catalogMoved(ctx context.Context, tx bun.Tx, organization string) error {
	n, err := affected(tx.NewUpdate().Table("organizations").Set("catalog_version = catalog_version + 1").
		Where("id = ?", organization).Exec(ctx))
	if err != nil {
		return fmt.Errorf("counting a change of connectors: %w", err)
	}
	if n == 0 {
		return noOrganization()
	}
	return nil
}

// affected returns how many rows a statement changed.
func affected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
