package database

import (
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
)

const (
	defaultPage = 50
	maxPage     = 500
	MaxTotal    = 1000
)

func PageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

// Cursor is the last row of a page. It names a place in the order and not a
// number of rows, so that new rows shift nothing.
type Cursor struct {
	At Stamp
	ID string
}

func (c Cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.At.T.Format(Layout) + c.ID))
}

// ParseCursor reads what String wrote. The empty text is the zero cursor.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	bad := Invalid("/cursor", "This cursor is not one of this list; leave it out to start from the newest.")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) <= len(Layout) || len(raw) > len(Layout)+64 {
		return Cursor{}, bad
	}
	var c Cursor
	if err := c.At.parse(string(raw[:len(Layout)])); err != nil || c.At.T.IsZero() {
		return Cursor{}, bad
	}
	if c.ID = string(raw[len(Layout):]); strings.ContainsFunc(c.ID, func(r rune) bool { return r < '!' || r > '~' }) {
		return Cursor{}, bad
	}
	if c.String() != text {
		return Cursor{}, bad
	}
	return c, nil
}

// NewestFirst orders q and cuts it after the cursor, with one row more than
// the page to tell whether another page follows.
func NewestFirst(q *bun.SelectQuery, after Cursor, limit int) *bun.SelectQuery {
	if after.ID != "" {
		q = q.Where("(created_at, id) < (?, ?)", after.At, after.ID)
	}
	return q.OrderExpr("created_at DESC, id DESC").Limit(int64(limit) + 1)
}

// CountUpTo counts the rows of q, but not further than a person would read.
func CountUpTo(ctx context.Context, q *bun.SelectQuery) (total int, capped bool, err error) {
	err = q.NewSelect().TableExpr("(?) AS part", q.ColumnExpr("1").Limit(MaxTotal+1)).ColumnExpr("count(*)").Scan(ctx, &total)
	return min(total, MaxTotal), total > MaxTotal, err
}

// NewPage cuts the extra row off.
func NewPage[T any](rows []T, limit, total int, capped bool, place func(T) Cursor) action.Page[T] {
	p := action.Page[T]{Items: rows, Total: total, Capped: capped}
	if len(rows) > limit {
		p.Items = rows[:limit]
		p.Next = place(rows[limit-1]).String()
	}
	return p
}

// Chunk bounds the ids in one statement.
const Chunk = 250

// Each gives f every row that q finds; sql.ErrNoRows when there is none.
func (db *DB) Each(ctx context.Context, q fmt.Stringer, f func(*sql.Rows) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, stop := db.Lookup(ctx)
	defer stop()
	rows, err := reader{db.Read.DB, db.Retry}.QueryContext(ctx, q.String())
	if err != nil {
		return err
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		found = true
		if err := f(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !found {
		return sql.ErrNoRows
	}
	return nil
}

const WithIDs = "id IN (?) AND organization_id || '' = ?"
