package database

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/uptrace/bun"
)

// Expired is rows of a table that mean nothing once their time is over.
type Expired struct {
	Table  string
	Key    string // columns of the primary key, with commas between
	Time   string // the column that tells
	Before Timestamp
}

// Find selects the keys of the oldest such rows.
func (s Expired) Find(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return s.oldest(q.ColumnExpr(s.Key), limit)
}

func (s Expired) oldest(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return q.Table(s.Table).Where("? < ?", bun.Ident(s.Time), s.Before).Order(s.Time).Limit(int64(limit))
}

// Remove deletes them. On PostgreSQL rows that another process holds are left
// to it, and the others, which the inner query has locked, are found by where
// they lie: another condition would have the server read more of the index.
func (s Expired) Remove(db bun.IDB, limit int) *bun.DeleteQuery {
	q := db.NewDelete().Table(s.Table)
	if Shared(db) {
		return q.Where("ctid = ANY (ARRAY(?))", s.oldest(db.NewSelect().ColumnExpr("ctid"), limit).For("UPDATE SKIP LOCKED"))
	}
	return q.Where("("+s.Key+") IN (?)", s.Find(db.NewSelect(), limit))
}

// LimitOrDefault returns the limit, or what it is when none was said.
func LimitOrDefault(limit int) int {
	if limit <= 0 {
		return 100
	}
	return limit
}

// Exists reports whether q finds a row. bun's own way asks for a [sql.Row],
// which hides that the database was away.
func Exists(ctx context.Context, q *bun.SelectQuery) (found bool, err error) {
	err = q.NewSelect().ColumnExpr("EXISTS (?)", q).Scan(ctx, &found)
	return found, err
}

// DeleteExpired deletes at most limit of the rows and returns how many it were.
func (db *DB) DeleteExpired(ctx context.Context, s Expired, limit int) (n int, err error) {
	// A reader looks first, as in a sweep: mostly there is nothing.
	found, err := Exists(ctx, s.Find(db.Read.NewSelect(), 1))
	if err == nil && found {
		err = db.Write.Do(ctx, &Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
			n, err = RowsAffected(s.Remove(tx, LimitOrDefault(limit)).Exec(ctx))
			return err
		}})
	}
	if err != nil {
		return 0, fmt.Errorf("sweeping %s: %w", s.Table, err)
	}
	return n, nil
}

// RowsAffected returns how many rows a statement changed.
func RowsAffected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
