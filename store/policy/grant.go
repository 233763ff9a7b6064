package policy

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

// GrantRow is a row of the table grants.
type GrantRow struct {
	bun.BaseModel `bun:"table:grants"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Scope        string              `bun:"scope"`
	Session      database.NullString `bun:"session_id"`
	Source       string              `bun:"source_id"`
	Action       string              `bun:"action"`
	Any          int                 `bun:"covers_any"`
	Pins         database.NullString `bun:"pins"`
	ToolHash     database.NullString `bun:"tool_hash"`
	MaxCalls     *int64              `bun:"max_calls"`
	UsedCalls    int64               `bun:"used_calls"`
	ExpiresAt    database.Timestamp  `bun:"expires_at"`
	CreatedBy    string              `bun:"created_by"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	RevokedAt    database.Timestamp  `bun:"revoked_at"`
	RevokedBy    database.NullString `bun:"revoked_by"`
	Invocation   database.NullString `bun:"invocation_id"`
	Request      database.NullString `bun:"request_id"`
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

func newGrantRow(g *action.Grant) (*GrantRow, error) {
	r := &GrantRow{
		ID: g.ID, Organization: g.Organization, Scope: string(g.Scope), Session: database.NullString(g.Session), Source: g.Source, Action: g.Action,
		Any: database.BoolToInt(g.Any), ToolHash: database.NullString(g.ToolHash), MaxCalls: g.MaxCalls, ExpiresAt: database.TimestampFromPtr(g.ExpiresAt),
		CreatedBy: g.CreatedBy, CreatedAt: database.NewTimestamp(g.CreatedAt), Invocation: database.NullString(g.Invocation), Request: database.NullString(g.Request),
	}
	if len(g.Pins) > 0 {
		pins, err := MarshalUnescaped(g.Pins)
		if err != nil {
			return nil, fmt.Errorf("writing the pins of a grant: %w", err)
		}
		r.Pins = database.NullString(pins)
	}
	return r, nil
}

// MarshalUnescaped encodes v as JSON without HTML escaping, so that raw values in
// canonical form keep their bytes, which are compared.
func MarshalUnescaped(v any) (string, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return string(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), err
}

func (r *GrantRow) grant() (action.Grant, error) {
	g := action.Grant{
		ID: r.ID, Organization: r.Organization, Session: string(r.Session), ToolHash: string(r.ToolHash), UsedCalls: r.UsedCalls,
		Invocation: string(r.Invocation), Request: string(r.Request),
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.Time, RevokedAt: r.RevokedAt.Ptr(), RevokedBy: string(r.RevokedBy),
		Terms: action.Terms{
			Scope: action.GrantScope(r.Scope), Source: r.Source, Action: r.Action, Any: r.Any == 1,
			MaxCalls: r.MaxCalls, ExpiresAt: r.ExpiresAt.Ptr(),
		},
	}
	if r.Pins != "" {
		if err := json.Unmarshal([]byte(r.Pins), &g.Pins); err != nil {
			return g, fmt.Errorf("reading the pins of grant %s: %w", r.ID, err)
		}
	}
	return g, nil
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
	if err := r.checkLimit(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return fmt.Errorf("writing a grant: %w", err)
	}
	if *g, err = r.grant(); err != nil {
		return err
	}
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
		if g, err = r.grant(); err != nil {
			return err
		}
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
	return scanGrant(ctx, db.NewSelect().Where("organization_id = ?", organization).Where("id = ?", id))
}

// scanGrant reads the grant that q finds.
func scanGrant(ctx context.Context, q *bun.SelectQuery) (action.Grant, error) {
	var r GrantRow
	err := q.Model(&r).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return action.Grant{}, action.NewError("grant_not_found")
	}
	if err != nil {
		return action.Grant{}, fmt.Errorf("reading a grant: %w", err)
	}
	return r.grant()
}
