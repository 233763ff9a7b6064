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

// GrantRow is a grant as it is kept.
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

// grantColumns are those of fields, in their order.
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
		pins, err := Verbatim(g.Pins)
		if err != nil {
			return nil, fmt.Errorf("writing the pins of a grant: %w", err)
		}
		r.Pins = database.NullString(pins)
	}
	return r, nil
}

// Verbatim is v as JSON in which raw values in canonical form stay as they
// are: they are compared byte for byte.
func Verbatim(v any) (string, error) {
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

// CreateGrant writes a grant that a person made, and returns it with an id and,
// if it was left out, the time. Errors: ErrInvalid with the field; ErrTooMany
// (code "too_many_grants"); of a session's grant, those of a session that is
// unknown or not live, and ErrForbidden (code "self_approval") when g.CreatedBy
// made the session and may not approve its calls.
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
			if err := sessions.MayDecide(ctx, tx, g.Organization, g.Session, g.CreatedBy, g.CreatedAt); err != nil {
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

// PutGrant writes the grant and the event of it, and makes it what a later
// reader will see. It belongs into an exclusive job: it counts first.
func (st *Store) PutGrant(ctx context.Context, tx bun.IDB, g *action.Grant) error {
	r, err := newGrantRow(g)
	if err != nil {
		return err
	}
	if err := r.hasRoom(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return fmt.Errorf("making a grant: %w", err)
	}
	if *g, err = r.grant(); err != nil {
		return err
	}
	return st.history.RecordChange(ctx, tx, grantChanged(g, g.CreatedBy), nil, g)
}

func grantChanged(g *action.Grant, by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: g.Organization, Kind: action.EventGrant, Subject: g.ID, By: by}
}

// RevokeGrant ends a grant for good: it lets no further call through. A second
// time changes nothing. ErrNotFound when there is none.
func (st *Store) RevokeGrant(ctx context.Context, organization, id, by string) (g action.Grant, err error) {
	if by == "" {
		return action.Grant{}, errors.New("revoking a grant needs the person who does it")
	}
	now := st.db.Now()
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		var r GrantRow
		err := tx.NewRaw(revokeGrantSQL, database.NewTimestamp(now), by, organization, id, bun.Safe(grantColumns)).Scan(ctx, r.fields()...)
		if errors.Is(err, sql.ErrNoRows) {
			g, err = readGrant(ctx, tx, organization, id) // revoked before, or none
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
		return st.history.RecordChange(ctx, tx, grantChanged(&g, by), before, g)
	})
	if err != nil {
		return action.Grant{}, err
	}
	return g, nil
}

const revokeGrantSQL = `UPDATE grants SET revoked_at = ?, revoked_by = ?
WHERE organization_id = ? AND id = ? AND revoked_at IS NULL RETURNING ?`

// Grant returns one grant; ErrNotFound when the organization has no such.
func (st *Store) Grant(ctx context.Context, organization, id string) (action.Grant, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	return readGrant(ctx, st.db.Read, organization, id)
}

func readGrant(ctx context.Context, db bun.IDB, organization, id string) (action.Grant, error) {
	return oneGrant(ctx, db.NewSelect().Where("organization_id = ?", organization).Where("id = ?", id))
}

// oneGrant reads the grant that q finds.
func oneGrant(ctx context.Context, q *bun.SelectQuery) (action.Grant, error) {
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
