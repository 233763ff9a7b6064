package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

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

// Digest is what an organization's pending invocations look like from afar.
// Two are equal (==) when nothing came and nothing left between them.
type Digest struct {
	Pending int
	Newest  time.Time // when the newest of them was made, in UTC
}

// OpenDigest returns the digests by organization; one without pending
// invocations is missing. It reads the rows that are pending and no others.
func (db *DB) OpenDigest(ctx context.Context) (map[string]Digest, error) {
	var rows []struct {
		Organization string `bun:"organization_id"`
		Pending      int    `bun:"pending"`
		Newest       stamp  `bun:"newest"`
	}
	if err := openDigest(db.read).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("counting what is pending: %w", err)
	}
	digests := make(map[string]Digest, len(rows))
	for _, r := range rows {
		digests[r.Organization] = Digest{Pending: r.Pending, Newest: r.Newest.t}
	}
	return digests, nil
}

// openDigest asks for a time of expiry too, which all pending rows have: with
// it SQLite takes the index of pending rows, and without it one of all rows.
func openDigest(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().Table("invocations").Column("organization_id").
		ColumnExpr("count(*) AS pending").ColumnExpr("max(created_at) AS newest").
		Where("status = 'pending'").Where("expires_at > ?", epoch).Group("organization_id")
}
