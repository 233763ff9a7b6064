package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// exportRows is how many rows an export looks at in one statement, and holds
// at most.
const exportRows = 100

// ExportFilter says which invocations are exported. Empty fields match all.
type ExportFilter struct {
	Organization string    // required
	From, To     time.Time // created in this time: From is part of it, To is not
	Session      string
	Source       string
	Action       string
	Statuses     []action.Status
}

// Export gives yield every invocation that the filter matches, oldest first,
// and stops at yield's error, which it returns. It reads in parts and holds
// nothing open meanwhile, so that yield may take its time. A read that is
// still queued may be missing.
func (db *DB) Export(ctx context.Context, f ExportFilter, yield func(action.Invocation) error) error {
	for _, s := range f.Statuses {
		if !s.Valid() {
			return invalid("/status", fmt.Sprintf("There is no status %q.", s))
		}
	}
	for after := (cursor{}); ; {
		last, err := db.exportEnd(ctx, f, after)
		if err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		list, err := db.list(ctx, f.part(db.read, after, last))
		if err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		for _, inv := range list {
			if err := yield(inv); err != nil {
				return err
			}
		}
		if after = last; last.id == "" {
			return nil
		}
	}
}

// window selects from the organization's or the session's rows, by their index.
func (f ExportFilter) window(q *bun.SelectQuery, after cursor) *bun.SelectQuery {
	q = q.Where("organization_id = ?", f.Organization).OrderExpr("created_at, id")
	if f.Session != "" {
		q = q.Where("session_id = ?", f.Session)
	}
	if !f.To.IsZero() {
		q = q.Where("created_at < ?", at(f.To))
	}
	if after.id != "" {
		return q.Where("(created_at, id) > (?, ?)", after.at, after.id)
	}
	return q.Where("created_at >= ?", at(f.From).or(epoch))
}

// end selects the last row of the next part. Parts are counted before the rest
// of the filter is asked: however few rows match, each statement is short.
func (f ExportFilter) end(db bun.IDB, after cursor) *bun.SelectQuery {
	return f.window(db.NewSelect().Table("invocations").Column("created_at", "id"), after).Limit(1).Offset(exportRows - 1)
}

// exportEnd returns it; the zero cursor when the next part is the last one.
func (db *DB) exportEnd(ctx context.Context, f ExportFilter, after cursor) (end cursor, err error) {
	err = db.each(ctx, f.end(db.read, after), func(rows *sql.Rows) error { return rows.Scan(&end.at, &end.id) })
	if errors.Is(err, sql.ErrNoRows) {
		return cursor{}, nil
	}
	return end, err
}

// part selects what matches of the rows up to last.
func (f ExportFilter) part(db bun.IDB, after, last cursor) *bun.SelectQuery {
	q := f.window(db.NewSelect().Model((*invocationRow)(nil)), after).Limit(exportRows)
	if last.id != "" {
		q = q.Where("(created_at, id) <= (?, ?)", last.at, last.id)
	}
	if f.Source != "" {
		q = q.Where("source_id = ?", f.Source)
	}
	if f.Action != "" {
		q = q.Where("action = ?", f.Action)
	}
	if len(f.Statuses) > 0 {
		q = q.Where("status || '' IN (?)", bun.List(f.Statuses)) // an expression: see [Filter.match]
	}
	return q
}

// policyPart selects changes of policy, oldest first.
func policyPart(db bun.IDB, organization string, after cursor, from, to time.Time) *bun.SelectQuery {
	q := db.NewSelect().Model((*policyEventRow)(nil)).Where("organization_id = ?", organization).OrderExpr("at, id").Limit(exportRows)
	if !to.IsZero() {
		q = q.Where("at < ?", at(to))
	}
	if after.id != "" {
		return q.Where("(at, id) > (?, ?)", after.at, after.id)
	}
	return q.Where("at >= ?", at(from).or(epoch))
}

// ExportPolicy gives yield every change of the organization's policy from one
// time, which is part of it, to another, which is not, in the same way as
// [DB.Export]. A zero time is no bound.
func (db *DB) ExportPolicy(ctx context.Context, organization string, from, to time.Time, yield func(action.PolicyEvent) error) error {
	for after, n := (cursor{}), exportRows; n == exportRows; {
		var rows []policyEventRow
		if err := policyPart(db.read, organization, after, from, to).Scan(ctx, &rows); err != nil {
			return fmt.Errorf("exporting changes of policy: %w", err)
		}
		for _, r := range rows {
			after = cursor{r.At, r.ID}
			if err := yield(r.event()); err != nil {
				return err
			}
		}
		n = len(rows)
	}
	return nil
}
