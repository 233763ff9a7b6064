package store

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
)

const (
	defaultPage = 50
	maxPage     = 500
	maxTotal    = 1000
)

func pageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

// cursor is the last row of a page. It names a place in the order and not a
// number of rows, so that new rows shift nothing.
type cursor struct {
	at stamp
	id string
}

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.at.t.Format(layout) + c.id))
}

// parseCursor reads what String wrote. The empty text is the zero cursor.
func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	bad := invalid("/cursor", "This cursor is not one of this list; leave it out to start from the newest.")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) <= len(layout) || len(raw) > len(layout)+64 {
		return cursor{}, bad
	}
	var c cursor
	if err := c.at.parse(string(raw[:len(layout)])); err != nil || c.at.t.IsZero() {
		return cursor{}, bad
	}
	if c.id = string(raw[len(layout):]); strings.ContainsFunc(c.id, func(r rune) bool { return r < '!' || r > '~' }) {
		return cursor{}, bad
	}
	if c.String() != text {
		return cursor{}, bad
	}
	return c, nil
}

// newestFirst orders q and cuts it after the cursor, with one row more than
// the page to tell whether another page follows.
func newestFirst(q *bun.SelectQuery, after cursor, limit int) *bun.SelectQuery {
	if after.id != "" {
		q = q.Where("(created_at, id) < (?, ?)", after.at, after.id)
	}
	return q.OrderExpr("created_at DESC, id DESC").Limit(int64(limit) + 1)
}

// countUpTo counts the rows of q, but not further than a person would read.
func countUpTo(ctx context.Context, q *bun.SelectQuery) (total int, capped bool, err error) {
	err = q.NewSelect().TableExpr("(?) AS part", q.ColumnExpr("1").Limit(maxTotal+1)).ColumnExpr("count(*)").Scan(ctx, &total)
	return min(total, maxTotal), total > maxTotal, err
}

// newPage cuts the extra row off.
func newPage[T any](rows []T, limit, total int, capped bool, place func(T) cursor) action.Page[T] {
	p := action.Page[T]{Items: rows, Total: total, Capped: capped}
	if len(rows) > limit {
		p.Items = rows[:limit]
		p.Next = place(rows[limit-1]).String()
	}
	return p
}
