package database

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/uptrace/bun"
)

// Expired describes the rows of a table that can be deleted after some time.
type Expired struct {
	Table  string
	Key    string // columns of the primary key, with commas between
	Time   string // the column compared with Before
	Before Timestamp
}

// Find selects the keys of the oldest expired rows.
func (s Expired) Find(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return s.oldest(q.ColumnExpr(s.Key), limit)
}

func (s Expired) oldest(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return q.Table(s.Table).Where("? < ?", bun.Ident(s.Time), s.Before).Order(s.Time).Limit(int64(limit))
}

// Remove deletes the oldest expired rows. On PostgreSQL it skips rows that another
// process has locked. It addresses the rows locked by the inner query by ctid,
// because any other condition makes the server read more of the index.
func (s Expired) Remove(db bun.IDB, limit int) *bun.DeleteQuery {
	q := db.NewDelete().Table(s.Table)
	if Shared(db) {
		return q.Where("ctid = ANY (ARRAY(?))", s.oldest(db.NewSelect().ColumnExpr("ctid"), limit).For("UPDATE SKIP LOCKED"))
	}
	return q.Where("("+s.Key+") IN (?)", s.Find(db.NewSelect(), limit))
}

// LimitOrDefault returns the limit, or 100 if none is given.
func LimitOrDefault(limit int) int {
	if limit <= 0 {
		return 100
	}
	return limit
}

// Exists reports whether q has a row. bun's own Exists uses a [sql.Row], which
// hides a lost connection.
func Exists(ctx context.Context, q *bun.SelectQuery) (found bool, err error) {
	err = q.NewSelect().ColumnExpr("EXISTS (?)", q).Scan(ctx, &found)
	return found, err
}

// DeleteExpired deletes up to limit of the rows and returns their number.
func (db *DB) DeleteExpired(ctx context.Context, s Expired, limit int) (n int, err error) {
	// Check with a read first: usually there is nothing to delete.
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

// RowsAffected returns the number of rows that a statement changed.
func RowsAffected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
