package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"
)

// stale is rows of a table that mean nothing once their time is over.
type stale struct {
	table  string
	key    string // columns of the primary key, with commas between
	time   string // the column that tells
	before stamp
}

// find selects the keys of the oldest such rows.
func (s stale) find(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return s.oldest(q.ColumnExpr(s.key), limit)
}

func (s stale) oldest(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return q.Table(s.table).Where("? < ?", bun.Ident(s.time), s.before).Order(s.time).Limit(int64(limit))
}

// remove deletes them. On PostgreSQL rows that another process holds are left
// to it, and the others, which the inner query has locked, are found by where
// they lie: another condition would have the server read more of the index.
func (s stale) remove(db bun.IDB, limit int) *bun.DeleteQuery {
	q := db.NewDelete().Table(s.table)
	if shared(db) {
		return q.Where("ctid = ANY (ARRAY(?))", s.oldest(db.NewSelect().ColumnExpr("ctid"), limit).For("UPDATE SKIP LOCKED"))
	}
	return q.Where("("+s.key+") IN (?)", s.find(db.NewSelect(), limit))
}

// orHundred returns the limit, or what it is when none was said.
func orHundred(limit int) int {
	if limit <= 0 {
		return 100
	}
	return limit
}

// exists reports whether q finds a row. bun's own way asks for a [sql.Row],
// which hides that the database was away.
func exists(ctx context.Context, q *bun.SelectQuery) (found bool, err error) {
	err = q.NewSelect().ColumnExpr("EXISTS (?)", q).Scan(ctx, &found)
	return found, err
}

// forget deletes at most limit of the rows and returns how many it were.
func (db *DB) forget(ctx context.Context, s stale, limit int) (n int, err error) {
	// A reader looks first, as in a sweep: mostly there is nothing.
	some, err := exists(ctx, s.find(db.read.NewSelect(), 1))
	if err == nil && some {
		err = db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
			n, err = affected(s.remove(tx, orHundred(limit)).Exec(ctx))
			return err
		}})
	}
	if err != nil {
		return 0, fmt.Errorf("sweeping %s: %w", s.table, err)
	}
	return n, nil
}
