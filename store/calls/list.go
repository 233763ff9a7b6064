package calls

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// ListInvocations returns a page of invocations, newest first. A read that is
// still queued may be missing for a moment.
//
// What no index has in order is looked for among so many calls, and no more:
// such a page may be short, or empty, and says how far back it looked. Its
// total is of as many of the newest calls.
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
	if s.direct() {
		return st.listDirect(ctx, s, after)
	}
	return st.listFound(ctx, s, after)
}

// InvocationFilter is a filter with the sessions of its run.
type InvocationFilter struct {
	action.InvocationFilter
	Sessions []string
}

// Search checks a filter and looks up the sessions of its run.
func (st *Store) Search(ctx context.Context, wanted action.InvocationFilter) (*Search, error) {
	f := &InvocationFilter{InvocationFilter: wanted}
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

// listDirect is a page of what one index has, in order.
func (st *Store) listDirect(ctx context.Context, s *Search, after database.Cursor) (page action.Page[action.Invocation], err error) {
	limit := database.PageSize(s.F.Limit)
	rows, err := st.list(ctx, s.Find(st.db.Read, s.F.Span().UpTo(after), limit+1))
	if err != nil {
		return page, fmt.Errorf("listing invocations: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, s.Lists[0].Match(st.db.Read.NewSelect(), s.F.Organization, s.F.Span()))
	if err != nil {
		return page, fmt.Errorf("counting invocations: %w", err)
	}
	return database.NewPage(rows, limit, total, capped, func(i action.Invocation) database.Cursor {
		return database.Cursor{At: database.At(i.CreatedAt), ID: i.ID}
	}), nil
}

// listFound is a page of what has to be looked for.
func (st *Store) listFound(ctx context.Context, s *Search, after database.Cursor) (page action.Page[action.Invocation], err error) {
	limit := database.PageSize(s.F.Limit)
	seen, err := st.look(ctx, s, s.F.Span(), database.MaxTotal+1)
	if err != nil {
		return page, fmt.Errorf("counting invocations: %w", err)
	}
	page.Total, page.Capped = min(len(seen.found), database.MaxTotal), len(seen.found) > database.MaxTotal || !seen.all
	if after.ID != "" {
		if seen, err = st.look(ctx, s, s.F.Span().UpTo(after), limit+1); err != nil {
			return page, fmt.Errorf("looking for invocations: %w", err)
		}
	}
	switch {
	case len(seen.found) > limit:
		seen.found = seen.found[:limit]
		page.Next = seen.found[limit-1].String()
	case !seen.all:
		page.Next, page.LookedBack = seen.last.String(), seen.last.At.T
	}
	if page.Items, err = st.At(ctx, s, seen.found); err != nil {
		return page, fmt.Errorf("listing invocations: %w", err)
	}
	return page, nil
}

// At reads the invocations at the places, in their order.
func (st *Store) At(ctx context.Context, s *Search, places []database.Cursor) ([]action.Invocation, error) {
	if len(places) == 0 {
		return nil, nil
	}
	rows, err := st.list(ctx, s.Among(st.db.Read.NewSelect().Model((*InvocationRow)(nil)), places))
	if err != nil {
		return nil, err
	}
	known := make(map[string]action.Invocation, len(rows))
	for _, inv := range rows {
		known[inv.ID] = inv
	}
	list := make([]action.Invocation, 0, len(rows))
	for _, place := range places {
		if inv, ok := known[place.ID]; ok { // otherwise it has changed since
			list = append(list, inv)
		}
	}
	return list, nil
}

// Find is the query of a page of what one index has.
func (s *Search) Find(db bun.IDB, within Span, n int) *bun.SelectQuery {
	list := s.Lists[0]
	return list.order(list.Match(db.NewSelect().Model((*InvocationRow)(nil)), s.F.Organization, within), false).Limit(int64(n))
}
