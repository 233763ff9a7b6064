package evidence

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/database"
	"sallyport/store/history"
)

const (
	// exportRows bounds the rows that an export keeps in memory.
	exportRows = 100

	// ExportStep is the number of rows that one statement scans.
	ExportStep = 1000
)

// Export calls yield with every invocation that matches the filter, oldest first, and
// stops at the first error of yield. It ignores the filter's limit and cursor. It reads in
// batches and keeps no transaction open, so that yield may be slow. Reads that are still
// queued may be missing.
func (st *Store) Export(ctx context.Context, f action.InvocationFilter, yield func(action.Invocation) error) error {
	s, err := st.calls.Search(ctx, f)
	if err != nil {
		return err
	}
	interval := s.F.TimeRange()
	s.OldestFirst = true
	for n := exportRows; ; n = ExportStep { // a small first step, so that output starts soon
		cursors, err := st.calls.NextCursors(ctx, s, &interval, n)
		if err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		last := len(cursors) < n
		if cursors, err = st.calls.FilterMatching(ctx, s, cursors); err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		if err := st.exportPages(ctx, s, cursors, yield); err != nil || last {
			return err
		}
	}
}

// exportPages yields the invocations that the cursors point to.
func (st *Store) exportPages(ctx context.Context, s *calls.Search, cursors []database.Cursor, yield func(action.Invocation) error) error {
	for page := range slices.Chunk(cursors, exportRows) {
		list, err := st.calls.InvocationsAt(ctx, s, page)
		if err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		for _, inv := range list {
			if err := yield(inv); err != nil {
				return err
			}
		}
	}
	return nil
}

// PolicyEventsPage selects policy changes after a cursor, oldest first.
func PolicyEventsPage(db bun.IDB, organization string, after database.Cursor, from, to time.Time) *bun.SelectQuery {
	q := db.NewSelect().Model((*history.PolicyEventRow)(nil)).Where("organization_id = ?", organization).OrderExpr("at, id").Limit(exportRows)
	if !to.IsZero() {
		q = q.Where("at < ?", database.NewTimestamp(to))
	}
	if after.ID != "" {
		return q.Where("(at, id) > (?, ?)", after.Time, after.ID)
	}
	return q.Where("at >= ?", database.NewTimestamp(from).Or(database.Epoch))
}

// ExportPolicy calls yield with every policy change of the organization in [from, to), as
// [Store.Export] does. A zero time is no bound.
func (st *Store) ExportPolicy(ctx context.Context, organization string, from, to time.Time, yield func(action.PolicyEvent) error) error {
	for after, n := (database.Cursor{}), exportRows; n == exportRows; {
		var rows []history.PolicyEventRow
		if err := PolicyEventsPage(st.db.Read, organization, after, from, to).Scan(ctx, &rows); err != nil {
			return fmt.Errorf("exporting changes of policy: %w", err)
		}
		for _, r := range rows {
			after = database.Cursor{Time: r.At, ID: r.ID}
			if err := yield(r.Event()); err != nil {
				return err
			}
		}
		n = len(rows)
	}
	return nil
}
