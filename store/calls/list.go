package calls

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// ListInvocations returns a page of invocations, newest first. Reads that are still queued
// may be missing for a moment.
//
// If no index lists the matches in order, a bounded number of calls is scanned. Such a page
// may be short or empty and reports how far back it searched. Its total covers the same
// number of the newest calls.
func (st *Store) ListInvocations(ctx context.Context, f action.InvocationFilter) (action.Page[action.Invocation], error) {
	var page action.Page[action.Invocation]
	after, err := database.ParseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	s, err := st.Search(ctx, f)
	if err != nil {
		return page, err
	}
	if s.usesOneIndex() {
		return st.listDirect(ctx, s, after)
	}
	return st.listScanned(ctx, s, after)
}

// InvocationFilter is a filter together with the sessions of its run.
type InvocationFilter struct {
	action.InvocationFilter
	Sessions []string
}

// Search checks a filter and looks up the sessions of its run.
func (st *Store) Search(ctx context.Context, filter action.InvocationFilter) (*Search, error) {
	f := &InvocationFilter{InvocationFilter: filter}
	for _, s := range f.Statuses {
		if !s.Valid() {
			return nil, database.Invalid("/status", fmt.Sprintf("There is no status %q.", s))
		}
	}
	switch f.Risk {
	case "", action.RiskRead, action.RiskWrite, action.RiskDanger:
	default:
		return nil, database.Invalid("/risk", fmt.Sprintf("There is no risk %q; take read, write or danger.", f.Risk))
	}
	switch f.Mode {
	case "", action.ModeAllow, action.ModeDeny, action.ModeRequireApproval:
	default:
		return nil, database.Invalid("/mode", fmt.Sprintf("There is no mode %q; take allow, deny or require_approval.", f.Mode))
	}
	if f.Run != "" {
		sessions, err := st.sessions.SessionsOfRun(ctx, f.Organization, f.Run)
		if err != nil {
			return nil, err
		}
		f.Sessions = sessions
	}
	return f.Search(), nil
}

// listDirect returns a page of matches that one index lists in order.
func (st *Store) listDirect(ctx context.Context, s *Search, after database.Cursor) (page action.Page[action.Invocation], err error) {
	limit := database.PageSize(s.F.Limit)
	rows, err := st.list(ctx, s.SelectPage(st.db.Read, s.F.TimeRange().Until(after), limit+1))
	if err != nil {
		return page, fmt.Errorf("listing invocations: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, s.Lists[0].Match(st.db.Read.NewSelect(), s.F.Organization, s.F.TimeRange()))
	if err != nil {
		return page, fmt.Errorf("counting invocations: %w", err)
	}
	return database.NewPage(rows, limit, total, capped, func(i action.Invocation) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(i.CreatedAt), ID: i.ID}
	}), nil
}

// listScanned returns a page of matches found by a scan.
func (st *Store) listScanned(ctx context.Context, s *Search, after database.Cursor) (page action.Page[action.Invocation], err error) {
	limit := database.PageSize(s.F.Limit)
	result, err := st.scan(ctx, s, s.F.TimeRange(), database.MaxCount+1)
	if err != nil {
		return page, fmt.Errorf("counting invocations: %w", err)
	}
	page.Total, page.Capped = min(len(result.found), database.MaxCount), len(result.found) > database.MaxCount || !result.all
	if after.ID != "" {
		if result, err = st.scan(ctx, s, s.F.TimeRange().Until(after), limit+1); err != nil {
			return page, fmt.Errorf("looking for invocations: %w", err)
		}
	}
	switch {
	case len(result.found) > limit:
		result.found = result.found[:limit]
		page.Next = result.found[limit-1].String()
	case !result.all:
		page.Next, page.SearchedSince = result.last.String(), result.last.Time.Time
	}
	if page.Items, err = st.InvocationsAt(ctx, s, result.found); err != nil {
		return page, fmt.Errorf("listing invocations: %w", err)
	}
	return page, nil
}

// InvocationsAt returns the invocations that the cursors point to, in the same order.
func (st *Store) InvocationsAt(ctx context.Context, s *Search, cursors []database.Cursor) ([]action.Invocation, error) {
	if len(cursors) == 0 {
		return nil, nil
	}
	rows, err := st.list(ctx, s.SelectMatching(st.db.Read.NewSelect().Model((*InvocationRow)(nil)), cursors))
	if err != nil {
		return nil, err
	}
	known := make(map[string]action.Invocation, len(rows))
	for _, inv := range rows {
		known[inv.ID] = inv
	}
	list := make([]action.Invocation, 0, len(rows))
	for _, cursor := range cursors {
		if inv, ok := known[cursor.ID]; ok { // otherwise it has changed since
			list = append(list, inv)
		}
	}
	return list, nil
}

// SelectPage selects a page of matches that one index lists in order.
func (s *Search) SelectPage(db bun.IDB, interval TimeRange, n int) *bun.SelectQuery {
	list := s.Lists[0]
	return list.order(list.Match(db.NewSelect().Model((*InvocationRow)(nil)), s.F.Organization, interval), false).Limit(int64(n))
}
