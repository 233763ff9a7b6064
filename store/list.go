package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// ListInvocations returns a page of invocations, newest first. A read that is
// still queued may be missing for a moment.
//
// What no index has in order is looked for among so many calls, and no more:
// such a page may be short, or empty, and says how far back it looked. Its
// total is of as many of the newest calls.
func (db *DB) ListInvocations(ctx context.Context, f action.InvocationFilter) (action.Page[action.Invocation], error) {
	var page action.Page[action.Invocation]
	after, err := parseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	s, err := db.search(ctx, f)
	if err != nil {
		return page, err
	}
	if s.direct() {
		return db.listDirect(ctx, s, after)
	}
	return db.listFound(ctx, s, after)
}

// invocationFilter is a filter with the sessions of its run.
type invocationFilter struct {
	action.InvocationFilter
	sessions []string
}

// search checks a filter and looks up the sessions of its run.
func (db *DB) search(ctx context.Context, wanted action.InvocationFilter) (*search, error) {
	f := &invocationFilter{InvocationFilter: wanted}
	for _, s := range f.Statuses {
		if !s.Valid() {
			return nil, invalid("/status", fmt.Sprintf("There is no status %q.", s))
		}
	}
	switch f.Risk {
	case "", action.RiskRead, action.RiskWrite, action.RiskDanger:
	default:
		return nil, invalid("/risk", fmt.Sprintf("There is no risk %q; take read, write or danger.", f.Risk))
	}
	switch f.Mode {
	case "", action.ModeAllow, action.ModeDeny, action.ModeRequireApproval:
	default:
		return nil, invalid("/mode", fmt.Sprintf("There is no mode %q; take allow, deny or require_approval.", f.Mode))
	}
	if f.Run != "" {
		sessions, err := db.sessionsOfRun(ctx, f.Organization, f.Run)
		if err != nil {
			return nil, err
		}
		f.sessions = sessions
	}
	return f.search(), nil
}

// listDirect is a page of what one index has, in order.
func (db *DB) listDirect(ctx context.Context, s *search, after cursor) (page action.Page[action.Invocation], err error) {
	limit := pageSize(s.f.Limit)
	rows, err := db.list(ctx, s.find(db.read, s.f.span().upTo(after), limit+1))
	if err != nil {
		return page, fmt.Errorf("listing invocations: %w", err)
	}
	total, capped, err := countUpTo(ctx, s.lists[0].match(db.read.NewSelect(), s.f.Organization, s.f.span()))
	if err != nil {
		return page, fmt.Errorf("counting invocations: %w", err)
	}
	return newPage(rows, limit, total, capped, func(i action.Invocation) cursor { return cursor{at(i.CreatedAt), i.ID} }), nil
}

// listFound is a page of what has to be looked for.
func (db *DB) listFound(ctx context.Context, s *search, after cursor) (page action.Page[action.Invocation], err error) {
	limit := pageSize(s.f.Limit)
	seen, err := db.look(ctx, s, s.f.span(), maxTotal+1)
	if err != nil {
		return page, fmt.Errorf("counting invocations: %w", err)
	}
	page.Total, page.Capped = min(len(seen.found), maxTotal), len(seen.found) > maxTotal || !seen.all
	if after.id != "" {
		if seen, err = db.look(ctx, s, s.f.span().upTo(after), limit+1); err != nil {
			return page, fmt.Errorf("looking for invocations: %w", err)
		}
	}
	switch {
	case len(seen.found) > limit:
		seen.found = seen.found[:limit]
		page.Next = seen.found[limit-1].String()
	case !seen.all:
		page.Next, page.LookedBack = seen.last.String(), seen.last.at.t
	}
	if page.Items, err = db.at(ctx, s, seen.found); err != nil {
		return page, fmt.Errorf("listing invocations: %w", err)
	}
	return page, nil
}

// at reads the invocations at the places, in their order.
func (db *DB) at(ctx context.Context, s *search, places []cursor) ([]action.Invocation, error) {
	if len(places) == 0 {
		return nil, nil
	}
	rows, err := db.list(ctx, s.among(db.read.NewSelect().Model((*invocationRow)(nil)), places))
	if err != nil {
		return nil, err
	}
	known := make(map[string]action.Invocation, len(rows))
	for _, inv := range rows {
		known[inv.ID] = inv
	}
	list := make([]action.Invocation, 0, len(rows))
	for _, place := range places {
		if inv, ok := known[place.id]; ok { // otherwise it has changed since
			list = append(list, inv)
		}
	}
	return list, nil
}

// find is the query of a page of what one index has.
func (s *search) find(db bun.IDB, within span, n int) *bun.SelectQuery {
	list := s.lists[0]
	return list.order(list.match(db.NewSelect().Model((*invocationRow)(nil)), s.f.Organization, within), false).Limit(int64(n))
}
