package database

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// RowsOf selects the rows of an organization.
func RowsOf[R any](db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Model((*R)(nil)).Where("organization_id = ?", organization)
}

// One returns the row of a query, or the error missing if there is none.
func One[T any](ctx context.Context, q *bun.SelectQuery, missing error) (T, error) {
	r, err := Optional[T](ctx, q)
	if err == nil && r == nil {
		err = missing
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return *r, nil
}

// Optional returns the row of a query, or nil if there is none.
func Optional[T any](ctx context.Context, q *bun.SelectQuery) (*T, error) {
	r := new(T)
	err := q.Scan(ctx, r)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", q.GetTableName(), err)
	}
	return r, nil
}

// ListAs returns the values of the rows of a query, never nil.
func ListAs[R, T any](ctx context.Context, q *bun.SelectQuery, value func(*R) T) ([]T, error) {
	rows, err := List[R](ctx, q)
	return Values(rows, value), err
}

// Values returns the values of rows, never nil.
func Values[R, T any](rows []R, value func(*R) T) []T {
	list := make([]T, 0, len(rows))
	for i := range rows {
		list = append(list, value(&rows[i]))
	}
	return list
}

// List returns the rows of a query, never nil. T is a row type or the type of a
// single column.
func List[T any](ctx context.Context, q *bun.SelectQuery) ([]T, error) {
	rows := []T{}
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing %s: %w", q.GetTableName(), err)
	}
	return rows, nil
}

const (
	defaultPageSize = 50
	maxPageSize     = 500

	// MaxCount is the number up to which the rows of a list are counted.
	MaxCount = 1000
)

// PageSize returns the limit of a page: the default if none is given, and at most
// the maximum.
func PageSize(limit int) int {
	if limit <= 0 {
		return defaultPageSize
	}
	return min(limit, maxPageSize)
}

// Cursor identifies the last row of a page. It is a position in the sort order
// rather than an offset, so that new rows do not shift the pages.
type Cursor struct {
	Time Timestamp
	ID   string
}

// String returns the cursor as opaque text for clients.
func (c Cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.Time.Time.Format(Layout) + c.ID))
}

// ParseCursor parses the result of [Cursor.String]. Empty text is the zero cursor.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	bad := Invalid("/cursor", "This cursor does not belong to this list. Leave it out to start from the newest.")
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

// NewestFirst sorts q and limits it to the page after the cursor, plus one row that
// shows whether another page follows.
func NewestFirst(q *bun.SelectQuery, after Cursor, limit int) *bun.SelectQuery {
	if after.ID != "" {
		q = q.Where("(created_at, id) < (?, ?)", after.Time, after.ID)
	}
	return q.OrderExpr("created_at DESC, id DESC").Limit(int64(limit) + 1)
}

// CountUpTo counts the rows of q up to [MaxCount].
func CountUpTo(ctx context.Context, q *bun.SelectQuery) (total int, capped bool, err error) {
	err = q.NewSelect().TableExpr("(?) AS part", q.ColumnExpr("1").Limit(MaxCount+1)).ColumnExpr("count(*)").Scan(ctx, &total)
	return min(total, MaxCount), total > MaxCount, err
}

// ListQuery is a list that is read in pages, newest first.
type ListQuery[R, T any] struct {
	Cursor   string
	Limit    int
	Rows     func(after Cursor, limit int) *bun.SelectQuery // of a page, and one more
	All      *bun.SelectQuery                               // what is counted
	Value    func(*R) T
	Position func(*R) Cursor
}

// Page reads the page of the cursor.
func (l ListQuery[R, T]) Page(ctx context.Context) (page action.Page[T], err error) {
	after, err := ParseCursor(l.Cursor)
	if err != nil {
		return page, err
	}
	limit := PageSize(l.Limit)
	rows, err := List[R](ctx, l.Rows(after, limit))
	if err != nil {
		return page, err
	}
	if page.Total, page.Capped, err = CountUpTo(ctx, l.All); err != nil {
		return page, fmt.Errorf("counting %s: %w", l.All.GetTableName(), err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = l.Position(&rows[limit-1]).String()
	}
	page.Items = Values(rows, l.Value)
	return page, nil
}

// NewPage returns a page of the rows without the extra one.
func NewPage[T any](rows []T, limit, total int, capped bool, cursorOf func(T) Cursor) action.Page[T] {
	p := action.Page[T]{Items: rows, Total: total, Capped: capped}
	if len(rows) > limit {
		p.Items = rows[:limit]
		p.Next = cursorOf(rows[limit-1]).String()
	}
	return p
}

// MaxIDsPerStatement bounds the number of IDs in one statement.
const MaxIDsPerStatement = 250

// ForEachRow calls f with every row of q. It returns sql.ErrNoRows if there is none.
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

// WhereIDs selects rows of an organization by primary key. The organization is an
// expression so that the planner does not use the organization's index instead.
const WhereIDs = "id IN (?) AND organization_id || '' = ?"

// Invalid returns the error for invalid input in a field.
func Invalid(field, message string) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid", Field: field, Message: message}
}

// ConnectorNotFound returns the error for an unknown connector.
func ConnectorNotFound(name string) error {
	return action.NewError("connector_not_found", name)
}

// InvocationNotFound returns the error for an unknown invocation.
func InvocationNotFound(id string) error {
	return action.NewError("invocation_not_found").WithInvocation(id)
}
