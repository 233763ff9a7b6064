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
	if err := database.NewestFirst(FilterGrants(f, st.db.Read.NewSelect().Model(&rows), now), after, limit).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing grants: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, FilterGrants(f, st.db.Read.NewSelect().Table("grants"), now))
	if err != nil {
		return page, fmt.Errorf("counting grants: %w", err)
	}
	list, err := grantsOf(rows)
	if err != nil {
		return page, err
	}
	return database.NewPage(list, limit, total, capped, func(g action.Grant) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(g.CreatedAt), ID: g.ID}
	}), nil
}

// FilterGrants applies a filter to a query.
func FilterGrants(f action.GrantFilter, q *bun.SelectQuery, now time.Time) *bun.SelectQuery {
	q = q.Where("organization_id = ?", f.Organization)
	switch { // in the expression of the index
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

func grantsOf(rows []GrantRow) ([]action.Grant, error) {
	var errs []error
	list := make([]action.Grant, 0, len(rows))
	for i := range rows {
		g, err := rows[i].grant()
		list, errs = append(list, g), append(errs, err)
	}
	return list, errors.Join(errs...)
}

// maxGrants bounds the usable grants with the same target: a session or the
// organization, with a source and action or any. Up to six targets cover a call, and
// the decision reads all of their grants.
const maxGrants = 100

// checkLimit refuses a grant whose target has the maximum number.
func (r *GrantRow) checkLimit(ctx context.Context, tx bun.IDB) error {
	usable, err := r.SameTargetQuery(tx).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting grants: %w", err)
	}
	if usable >= maxGrants {
		return action.NewError("too_many_grants", usable)
	}
	return nil
}

// SameTargetQuery selects the usable grants with the target of r, in the expressions
// of the index.
func (r *GrantRow) SameTargetQuery(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().Table("grants").Where("organization_id = ?", r.Organization).
		Where("source_id = ?", r.Source).Where("action = ?", r.Action).Where("coalesce(session_id, '') = ?", string(r.Session)).
		Where("revoked_at IS NULL").Where("spent_at IS NULL").Where("expires_at IS NULL OR expires_at > ?", r.CreatedAt)
}

// GrantsForSQL selects the grants that may cover a call, narrowest first. It omits
// those of a user that may not approve the calls of the session.
//
//	?1 organization, ?2 session, ?3 source, ?4 action, ?5 now
var GrantsForSQL = `SELECT ` + grantColumns + ` FROM grants
WHERE organization_id = ?1 AND source_id IN (?3, '') AND action IN (?4, '') AND coalesce(session_id, '') IN (?2, '')
  AND revoked_at IS NULL AND spent_at IS NULL AND (expires_at IS NULL OR expires_at > ?5)
  AND created_by <> ` + sessions.ExcludedApproverSQL("?1", "?2") + `
ORDER BY covers_any, scope DESC, max_calls IS NULL, created_at, id LIMIT ` + strconv.Itoa(6*maxGrants)

// GrantsFor returns the usable grants that may cover a call of the action in the
// session, at most 600, in the order of use: exact action before any, session before
// organization, with a budget before without, older before newer. The caller checks
// pins and hashes.
func (st *Store) GrantsFor(ctx context.Context, organization, session, source, act string, now time.Time) ([]action.Grant, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	found, err := st.stmts.grants.Query(ctx, st.db.Read, organization, session, source, act, database.NewTimestamp(now))
	if err != nil {
		return nil, fmt.Errorf("reading grants: %w", err)
	}
	defer found.Close()
	var rows []GrantRow
	for found.Next() {
		var r GrantRow
		if err := found.Scan(r.fields()...); err != nil {
			return nil, fmt.Errorf("reading grants: %w", err)
		}
		rows = append(rows, r)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("reading grants: %w", err)
	}
	return grantsOf(rows)
}
