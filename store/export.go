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
	for after, end := f.begin(), f.end(); after != end; {
		last := end // unless another part follows
		err := db.each(ctx, f.turn(db.read, after), func(rows *sql.Rows) error { return rows.Scan(&last.at, &last.id) })
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
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
		after = last
	}
	return nil
}

// begin and end are places before and behind all that the filter wants.
func (f ExportFilter) begin() cursor { return cursor{at: at(f.From).or(epoch)} }

func (f ExportFilter) end() cursor {
	return cursor{at: at(f.To).or(stamp{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})}
}

// between selects from the organization's or the session's rows, oldest first,
// those behind one place and not behind another. The session is part of the
// places and of the order: so the index is taken that has it.
func (f ExportFilter) between(q *bun.SelectQuery, after, last cursor) *bun.SelectQuery {
	q = q.Where("organization_id = ?", f.Organization)
	if f.Session != "" {
		return q.OrderExpr("session_id, created_at, id").Where("(session_id, created_at, id) > (?, ?, ?)", f.Session, after.at, after.id).
			Where("(session_id, created_at, id) <= (?, ?, ?)", f.Session, last.at, last.id)
	}
	return q.OrderExpr("created_at, id").Where("(created_at, id) > (?, ?)", after.at, after.id).Where("(created_at, id) <= (?, ?)", last.at, last.id)
}

// turn selects the last row of the next part. Parts are counted before the rest
// of the filter is asked: however few rows match, each statement is short.
func (f ExportFilter) turn(db bun.IDB, after cursor) *bun.SelectQuery {
	return f.between(db.NewSelect().Table("invocations").Column("created_at", "id"), after, f.end()).Limit(1).Offset(exportRows - 1)
}

// part selects what matches of the rows up to last. It has no limit: a row may
// have come between the others meanwhile.
func (f ExportFilter) part(db bun.IDB, after, last cursor) *bun.SelectQuery {
	q := f.between(db.NewSelect().Model((*invocationRow)(nil)), after, last)
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
