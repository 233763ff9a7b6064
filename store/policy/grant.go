package policy

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

// GrantRow is a row of the table grants.
type GrantRow struct {
	bun.BaseModel `bun:"table:grants"`

	ID           string                                        `bun:"id,pk"`
	Organization string                                        `bun:"organization_id"`
	Scope        string                                        `bun:"scope"`
	Session      database.NullString                           `bun:"session_id"`
	Source       string                                        `bun:"source_id"`
	Action       string                                        `bun:"action"`
	Any          int                                           `bun:"covers_any"`
	Pins         database.JSONText[map[string]json.RawMessage] `bun:"pins"`
	ToolHash     database.NullString                           `bun:"tool_hash"`
	MaxCalls     *int64                                        `bun:"max_calls"`
	UsedCalls    int64                                         `bun:"used_calls"`
	ExpiresAt    database.Timestamp                            `bun:"expires_at"`
	CreatedBy    string                                        `bun:"created_by"`
	CreatedAt    database.Timestamp                            `bun:"created_at"`
	RevokedAt    database.Timestamp                            `bun:"revoked_at"`
	RevokedBy    database.NullString                           `bun:"revoked_by"`
	Invocation   database.NullString                           `bun:"invocation_id"`
	Request      database.NullString                           `bun:"request_id"`
}

// grantColumns lists the columns of fields, in order.
const grantColumns = `id, organization_id, scope, session_id, source_id, action, covers_any, pins, tool_hash, max_calls, used_calls,
  expires_at, created_by, created_at, revoked_at, revoked_by, invocation_id, request_id`

func (r *GrantRow) fields() []any {
	return []any{
		&r.ID, &r.Organization, &r.Scope, &r.Session, &r.Source, &r.Action, &r.Any, &r.Pins, &r.ToolHash, &r.MaxCalls, &r.UsedCalls,
		&r.ExpiresAt, &r.CreatedBy, &r.CreatedAt, &r.RevokedAt, &r.RevokedBy, &r.Invocation, &r.Request,
	}
}

func newGrantRow(g *action.Grant) (r *GrantRow, err error) {
	r = &GrantRow{
		ID: g.ID, Organization: g.Organization, Scope: string(g.Scope), Session: database.NullString(g.Session), Source: g.Source, Action: g.Action,
		Any: database.BoolToInt(g.Any), ToolHash: database.NullString(g.ToolHash), MaxCalls: g.MaxCalls, ExpiresAt: database.TimestampFromPtr(g.ExpiresAt),
		CreatedBy: g.CreatedBy, CreatedAt: database.NewTimestamp(g.CreatedAt), Invocation: database.NullString(g.Invocation), Request: database.NullString(g.Request),
	}
	if len(g.Pins) > 0 {
		if r.Pins, err = database.NewJSONText(g.Pins); err != nil {
			return nil, fmt.Errorf("writing the pins of a grant: %w", err)
		}
	}
	return r, nil
}

func (r *GrantRow) grant() action.Grant {
	return action.Grant{
		ID: r.ID, Organization: r.Organization, Session: string(r.Session), ToolHash: string(r.ToolHash), UsedCalls: r.UsedCalls,
		Invocation: string(r.Invocation), Request: string(r.Request),
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.Time, RevokedAt: r.RevokedAt.Ptr(), RevokedBy: string(r.RevokedBy),
		Terms: action.Terms{
			Scope: action.GrantScope(r.Scope), Source: r.Source, Action: r.Action, Any: r.Any == 1, Pins: r.Pins.V,
			MaxCalls: r.MaxCalls, ExpiresAt: r.ExpiresAt.Ptr(),
		},
	}
}

// CreateGrant stores a grant of a person, and returns it with its id and, if it was
// zero, its creation time. Errors: ErrInvalid with the field; ErrTooMany (code
// "too_many_grants"); for a session grant also ErrNotFound, ErrConflict if the
// session has ended, and ErrForbidden (code "self_approval") if g.CreatedBy created
// the session and may not approve its calls.
func (st *Store) CreateGrant(ctx context.Context, g action.Grant) (action.Grant, error) {
	var err error
	if g.ID, err = database.NewID(); err != nil {
		return action.Grant{}, err
	}
	if g.CreatedAt.IsZero() {
		g.CreatedAt = st.db.Now()
	}
	g.Invocation, g.Request = "", ""
	if err := g.Check(); err != nil {
		return action.Grant{}, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if g.Scope == action.ScopeSession {
			if err := sessions.CheckApproval(ctx, tx, g.Organization, g.Session, g.CreatedBy, g.CreatedAt); err != nil {
				return err
			}
		}
		return st.PutGrant(ctx, tx, &g)
	})
	if err != nil {
		return action.Grant{}, err
	}
	return g, nil
}

// PutGrant inserts and records a grant, and sets *g to the stored values. It needs
// an exclusive transaction, because it counts grants before the insert.
func (st *Store) PutGrant(ctx context.Context, tx bun.IDB, g *action.Grant) error {
	r, err := newGrantRow(g)
	if err != nil {
		return err
	}
	usable, err := r.SameTargetQuery(tx).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting grants: %w", err)
	}
	if usable >= maxGrants {
		return action.NewError("too_many_grants", usable)
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return fmt.Errorf("writing a grant: %w", err)
	}
	*g = r.grant()
	return st.history.RecordChange(ctx, tx, grantEvent(g, g.CreatedBy), nil, g)
}

func grantEvent(g *action.Grant, by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: g.Organization, Kind: action.EventGrant, Subject: g.ID, By: by}
}

// RevokeGrant revokes a grant: it covers no further call. Revoking it again changes
// nothing. ErrNotFound.
func (st *Store) RevokeGrant(ctx context.Context, organization, id, by string) (g action.Grant, err error) {
	if by == "" {
		return action.Grant{}, errors.New("revoking a grant needs the user that revokes it")
	}
	now := st.db.Now()
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		var r GrantRow
		err := tx.NewRaw(revokeGrantSQL, database.NewTimestamp(now), by, organization, id, bun.Safe(grantColumns)).Scan(ctx, r.fields()...)
		if errors.Is(err, sql.ErrNoRows) {
			g, err = readGrant(ctx, tx, organization, id) // already revoked, or none
			return err
		}
		if err != nil {
			return fmt.Errorf("revoking grant %s: %w", id, err)
		}
		g = r.grant()
		before := g
		before.RevokedAt, before.RevokedBy = nil, ""
		return st.history.RecordChange(ctx, tx, grantEvent(&g, by), before, g)
	})
	if err != nil {
		return action.Grant{}, err
	}
	return g, nil
}

const revokeGrantSQL = `UPDATE grants SET revoked_at = ?, revoked_by = ?
WHERE organization_id = ? AND id = ? AND revoked_at IS NULL RETURNING ?`

// Grant returns a grant; ErrNotFound.
func (st *Store) Grant(ctx context.Context, organization, id string) (action.Grant, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	return readGrant(ctx, st.db.Read, organization, id)
}

func readGrant(ctx context.Context, db bun.IDB, organization, id string) (action.Grant, error) {
	r, err := database.One[GrantRow](ctx, database.RowsOf[GrantRow](db, organization).Where("id = ?", id), action.NewError("grant_not_found"))
	return r.grant(), err
}

// ListGrants returns a page of grants, newest first.
func (st *Store) ListGrants(ctx context.Context, f action.GrantFilter) (action.Page[action.Grant], error) {
	now := st.db.Now()
	return database.ListQuery[GrantRow, action.Grant]{
		Cursor: f.Cursor, Limit: f.Limit, All: FilterGrants(f, st.db.Read.NewSelect().Table("grants"), now),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return database.NewestFirst(FilterGrants(f, st.db.Read.NewSelect().Model((*GrantRow)(nil)), now), after, limit)
		},
		Value: (*GrantRow).grant, Position: func(r *GrantRow) database.Cursor { return database.Cursor{Time: r.CreatedAt, ID: r.ID} },
	}.Page(ctx)
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

// maxGrants bounds the usable grants with the same target: a session or the
// organization, with a source and action or any. Up to six targets cover a call, and
// the decision reads all of their grants.
const maxGrants = 100

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
	return database.Values(rows, (*GrantRow).grant), nil
}
