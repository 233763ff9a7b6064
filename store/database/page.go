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
	defaultPageSize = 50
	maxPageSize     = 500
	MaxCount        = 1000
)

func PageSize(limit int) int {
	if limit <= 0 {
		return defaultPageSize
	}
	return min(limit, maxPageSize)
}

// Cursor is the last row of a page. It names a place in the order and not a
// number of rows, so that new rows shift nothing.
type Cursor struct {
	Time Timestamp
	ID   string
}

func (c Cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.Time.Time.Format(Layout) + c.ID))
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
	if err := c.Time.parse(string(raw[:len(Layout)])); err != nil || c.Time.Time.IsZero() {
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
		q = q.Where("(created_at, id) < (?, ?)", after.Time, after.ID)
	}
	return q.OrderExpr("created_at DESC, id DESC").Limit(int64(limit) + 1)
}

// CountUpTo counts the rows of q, but not further than a person would read.
func CountUpTo(ctx context.Context, q *bun.SelectQuery) (total int, capped bool, err error) {
	err = q.NewSelect().TableExpr("(?) AS part", q.ColumnExpr("1").Limit(MaxCount+1)).ColumnExpr("count(*)").Scan(ctx, &total)
	return min(total, MaxCount), total > MaxCount, err
}

// NewPage cuts the extra row off.
func NewPage[T any](rows []T, limit, total int, capped bool, cursorOf func(T) Cursor) action.Page[T] {
	p := action.Page[T]{Items: rows, Total: total, Capped: capped}
	if len(rows) > limit {
		p.Items = rows[:limit]
		p.Next = cursorOf(rows[limit-1]).String()
	}
	return p
}

// MaxIDsPerStatement bounds the ids in one statement.
const MaxIDsPerStatement = 250

// ForEachRow gives f every row that q finds; sql.ErrNoRows when there is none.
func (db *DB) ForEachRow(ctx context.Context, q fmt.Stringer, f func(*sql.Rows) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := db.ReadContext(ctx)
	defer cancel()
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

const WhereIDs = "id IN (?) AND organization_id || '' = ?"
