package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// Filter says which invocations are wanted. Empty fields match all.
type Filter struct {
	Organization string // required
	Session      string
	Statuses     []action.Status
	Source       string
	Action       string
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: from the newest
}

// ListInvocations returns a page of invocations, newest first. A read that is
// still queued may be missing for a moment.
func (db *DB) ListInvocations(ctx context.Context, f Filter) (Page[action.Invocation], error) {
	var page Page[action.Invocation]
	after, err := parseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	for _, s := range f.Statuses {
		if !s.Valid() {
			return page, invalid("/status", fmt.Sprintf("There is no status %q.", s))
		}
	}
	limit := pageSize(f.Limit)
	rows, err := db.list(ctx, f.find(db.read, after, limit))
	if err != nil {
		return page, fmt.Errorf("listing invocations: %w", err)
	}
	total, capped, err := countUpTo(ctx, f.match(db.read.NewSelect().Table("invocations")))
	if err != nil {
		return page, fmt.Errorf("counting invocations: %w", err)
	}
	return newPage(rows, limit, total, capped, func(i action.Invocation) cursor { return cursor{at(i.CreatedAt), i.ID} }), nil
}

// find is the query of one page.
func (f Filter) find(db bun.IDB, after cursor, limit int) *bun.SelectQuery {
	rows := db.NewSelect().Model((*invocationRow)(nil))
	if f.Session != "" || len(f.Statuses) < 2 {
		return newestFirst(f.match(rows), after, limit)
	}
	// Each status by itself is in order in the index, several are not: so the
	// first rows of each are looked up, and then the first of these.
	var some *bun.SelectQuery
	for _, s := range f.Statuses {
		one := f
		one.Statuses = []action.Status{s}
		part := db.NewSelect().TableExpr("(?) AS part",
			newestFirst(one.match(db.NewSelect().Table("invocations").Column("id")), after, limit)).Column("id")
		if some == nil {
			some = part
		} else {
			some = some.UnionAll(part)
		}
	}
	return newestFirst(rows.Where("id IN (?)", some), cursor{}, limit)
}

// match restricts q to what the filter wants.
func (f Filter) match(q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("organization_id = ?", f.Organization)
	switch {
	case len(f.Statuses) > 0 && f.Session != "":
		// As an expression, so that the index of sessions is taken and not
		// that of statuses, which is long.
		q = q.Where("session_id = ?", f.Session).Where("status || '' IN (?)", bun.List(f.Statuses))
	case f.Session != "":
		q = q.Where("session_id = ?", f.Session)
	case len(f.Statuses) > 0:
		q = q.Where("status IN (?)", bun.List(f.Statuses))
	}
	if f.Source != "" {
		q = q.Where("source_id = ?", f.Source)
	}
	if f.Action != "" {
		q = q.Where("action = ?", f.Action)
	}
	return q
}
