package policy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

// ListGrants returns a page of grants, newest first.
func (st *Store) ListGrants(ctx context.Context, f action.GrantFilter) (action.Page[action.Grant], error) {
	var page action.Page[action.Grant]
	after, err := database.ParseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	now, limit := st.db.Now(), database.PageSize(f.Limit)
	var rows []GrantRow
	if err := database.NewestFirst(MatchGrants(f, st.db.Read.NewSelect().Model(&rows), now), after, limit).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing grants: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, MatchGrants(f, st.db.Read.NewSelect().Table("grants"), now))
	if err != nil {
		return page, fmt.Errorf("counting grants: %w", err)
	}
	list, err := grants(rows)
	if err != nil {
		return page, err
	}
	return database.NewPage(list, limit, total, capped, func(g action.Grant) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(g.CreatedAt), ID: g.ID}
	}), nil
}

// match restricts q to what the filter wants.
func MatchGrants(f action.GrantFilter, q *bun.SelectQuery, now time.Time) *bun.SelectQuery {
	q = q.Where("organization_id = ?", f.Organization)
	switch { // in the words of the index
	case f.Session != "" && f.Covering:
		q = q.Where("coalesce(session_id, '') IN (?, '')", f.Session)
	case f.Session != "":
		q = q.Where("coalesce(session_id, '') = ?", f.Session)
	}
	switch f.Scope {
	case action.ScopeOrganization:
		q = q.Where("coalesce(session_id, '') = ''")
	case action.ScopeSession:
		q = q.Where("session_id IS NOT NULL")
	}
	if f.Source != "" {
		q = q.Where("source_id = ?", f.Source)
	}
	if f.Action != "" {
		q = q.Where("action = ?", f.Action)
	}
	if f.Usable {
		q = q.Where("revoked_at IS NULL").Where("spent_at IS NULL").Where("expires_at IS NULL OR expires_at > ?", database.NewTimestamp(now))
	}
	return q
}

func grants(rows []GrantRow) ([]action.Grant, error) {
	var errs []error
	list := make([]action.Grant, 0, len(rows))
	for i := range rows {
		g, err := rows[i].grant()
		list, errs = append(list, g), append(errs, err)
	}
	return list, errors.Join(errs...)
}

// maxGrants is how many usable grants there may be in one place, which is a
// session or the organization, with a source and action or any. A call has six
// places where it may be covered, and looks at all that is there.
const maxGrants = 100

// hasRoom refuses a grant in a place that is full.
func (r *GrantRow) hasRoom(ctx context.Context, tx bun.IDB) error {
	usable, err := r.Beside(tx).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting grants: %w", err)
	}
	if usable >= maxGrants {
		return action.NewError("too_many_grants", usable)
	}
	return nil
}

// Beside finds the usable grants in the place of r, in the words of the index.
func (r *GrantRow) Beside(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().Table("grants").Where("organization_id = ?", r.Organization).
		Where("source_id = ?", r.Source).Where("action = ?", r.Action).Where("coalesce(session_id, '') = ?", string(r.Session)).
		Where("revoked_at IS NULL").Where("spent_at IS NULL").Where("expires_at IS NULL OR expires_at > ?", r.CreatedAt)
}

// GrantsForSQL finds what may cover a call, narrowest first. Who may not
// approve the calls of a session has no grant that covers them, either.
//
//	?1 organization, ?2 session, ?3 source, ?4 action, ?5 now
var GrantsForSQL = `SELECT ` + grantColumns + ` FROM grants
WHERE organization_id = ?1 AND source_id IN (?3, '') AND action IN (?4, '') AND coalesce(session_id, '') IN (?2, '')
  AND revoked_at IS NULL AND spent_at IS NULL AND (expires_at IS NULL OR expires_at > ?5)
  AND created_by <> ` + sessions.CreatorSQL("?1", "?2") + `
ORDER BY covers_any, scope DESC, max_calls IS NULL, created_at, id LIMIT ` + strconv.Itoa(6*maxGrants)

// GrantsFor returns the usable grants that may cover a call of the action in
// the session, in the order in which they are to be used up: those of exactly
// this action before those of any, the session's before the organization's,
// those with a budget before those without, older before newer. Pins and
// hashes are for the caller to look at. There are at most 600.
func (st *Store) GrantsFor(ctx context.Context, organization, session, source, act string, now time.Time) ([]action.Grant, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	found, err := st.stmts.grants.Query(ctx, st.db.Read, organization, session, source, act, database.NewTimestamp(now))
	if err != nil {
		return nil, fmt.Errorf("looking for grants: %w", err)
	}
	defer found.Close()
	var rows []GrantRow
	for found.Next() {
		var r GrantRow
		if err := found.Scan(r.fields()...); err != nil {
			return nil, fmt.Errorf("looking for grants: %w", err)
		}
		rows = append(rows, r)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("looking for grants: %w", err)
	}
	return grants(rows)
}
