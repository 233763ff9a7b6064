package requests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/sessions"
)

const (
	// MaxEnvRequests bounds the pending requests of a session.
	MaxEnvRequests = 5
	// EnvRequestLifetime bounds how long a request waits for a decision, and its
	// values, after an answer, for the sandbox.
	EnvRequestLifetime = 24 * time.Hour
	// EnvRepeatWindow is how long taken values are returned again to the same key,
	// because the response may have been lost.
	EnvRepeatWindow = 5 * time.Minute
)

// EnvRow is a row of the table env_requests. Its variables are compared as JSON text.
type EnvRow struct {
	bun.BaseModel `bun:"table:env_requests"`
	action.EnvRequest
	Variables database.JSONText[[]action.EnvKey] `bun:"keys"`
	Sealed    []byte
	TakenKey  string `bun:",nullzero"`
}

func (r *EnvRow) request() action.EnvRequest {
	r.Keys = r.Variables.V
	return r.EnvRequest
}

// RequestEnv stores a session's request for variables. A repeat returns the pending
// request; created reports whether a new one was stored. Errors: ErrInvalid with the
// field; those of a session that is unknown or has ended; ErrTooMany (code
// "too_many_requests").
func (st *Store) RequestEnv(ctx context.Context, organization, session string, keys []action.EnvKey) (req action.EnvRequest, created bool, err error) {
	if err := action.CheckEnvKeys(keys); err != nil {
		return req, false, err
	}
	now := st.db.Now()
	r, err := newEnvRow(organization, session, keys, now)
	if err != nil {
		return req, false, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		created = false
		earlier, err := insertEnvRequest(ctx, tx, r, now)
		if created = err == nil && earlier == nil; earlier != nil {
			r = earlier
		}
		return err
	})
	if err != nil {
		return req, false, err
	}
	return r.request(), created, nil
}

func newEnvRow(organization, session string, keys []action.EnvKey, now time.Time) (*EnvRow, error) {
	id, err := database.NewID()
	if err != nil {
		return nil, err
	}
	variables, err := database.NewJSONText(keys)
	if err != nil {
		return nil, fmt.Errorf("encoding requested variables: %w", err)
	}
	at := database.NewTimestamp(now).Time
	return &EnvRow{
		EnvRequest: action.EnvRequest{ID: id, Organization: organization, Session: session, Status: action.EnvPending, CreatedAt: at, ExpiresAt: at.Add(EnvRequestLifetime)},
		Variables:  variables,
	}, nil
}

func insertEnvRequest(ctx context.Context, tx bun.IDB, r *EnvRow, now time.Time) (earlier *EnvRow, err error) {
	s, err := sessions.ReadSession(ctx, tx, r.Organization, r.Session)
	if err != nil {
		return nil, err
	}
	if err := s.Working(now); err != nil {
		return nil, err
	}
	var pending []EnvRow
	if err := tx.NewSelect().Model(&pending).ExcludeColumn("sealed").Where("session_id = ?", r.Session).Where("status = 'pending'").Where("expires_at > ?", database.NewTimestamp(now)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading the requests of session %s: %w", r.Session, err)
	}
	for i := range pending {
		if pending[i].Variables.Text == r.Variables.Text {
			return &pending[i], nil
		}
	}
	if len(pending) >= MaxEnvRequests {
		return nil, action.Errorf(action.ErrTooMany, "too_many_requests", "This session already has %d pending requests. Wait until one of them is answered, then try again.", len(pending))
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return nil, fmt.Errorf("writing a request for variables: %w", err)
	}
	return nil, nil
}

// EnvRequest returns a request; ErrNotFound.
func (st *Store) EnvRequest(ctx context.Context, organization, id string) (action.EnvRequest, error) {
	r, err := readEnvRow(ctx, st.db.Read, organization, id)
	return r.request(), err
}

func readEnvRow(ctx context.Context, db bun.IDB, organization, id string) (*EnvRow, error) {
	r, err := database.One[EnvRow](ctx, database.RowsOf[EnvRow](db, organization).ExcludeColumn("sealed").Where("id = ?", id), action.NewError("env_request_not_found"))
	return &r, err
}

// ListEnvRequests returns a page of requests, newest first.
func (st *Store) ListEnvRequests(ctx context.Context, f action.EnvFilter) (action.Page[action.EnvRequest], error) {
	if f.Status != "" && !f.Status.Valid() {
		return action.Page[action.EnvRequest]{}, database.Invalid("/status", fmt.Sprintf("There is no status %q. Use pending, answered, taken, refused or expired.", f.Status))
	}
	match := func(q *bun.SelectQuery) *bun.SelectQuery {
		q = q.Where("organization_id = ?", f.Organization)
		if f.Session != "" {
			q = q.Where("session_id = ?", f.Session)
		}
		if f.Status != "" {
			q = q.Where("status = ?", string(f.Status))
		}
		return q
	}
	return database.ListQuery[EnvRow, action.EnvRequest]{
		Cursor: f.Cursor, Limit: f.Limit, All: match(st.db.Read.NewSelect().Table("env_requests")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return database.NewestFirst(match(st.db.Read.NewSelect().Model((*EnvRow)(nil)).ExcludeColumn("sealed")), after, limit)
		},
		Value: (*EnvRow).request, Position: func(r *EnvRow) database.Cursor {
			return database.Cursor{Time: database.NewTimestamp(r.CreatedAt), ID: r.ID}
		},
	}.Page(ctx)
}

// DecideEnv answers or refuses a request. Errors: ErrNotFound; ErrGone if it has
// expired; ErrConflict if it is decided; for an answer also those of a session that
// is unknown or has ended.
func (st *Store) DecideEnv(ctx context.Context, v action.EnvVerdict) (req action.EnvRequest, err error) {
	if v.By == "" {
		return req, errors.New("a decision needs a user")
	}
	now := st.db.Now()
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readEnvRow(ctx, tx, v.Organization, v.ID)
		if err != nil {
			return err
		}
		if err := checkEnvPending(ctx, tx, r, now); err != nil {
			return err
		}
		before := r.request()
		if err := writeEnvDecision(ctx, tx, r, v, now); err != nil {
			return err
		}
		if _, err := st.workspaces.PutVariablesIn(ctx, tx, v.Keep); err != nil {
			return err
		}
		req = r.request()
		return st.history.RecordChange(ctx, tx, action.PolicyEvent{Organization: r.Organization, Kind: action.EventEnv, Subject: r.ID, By: v.By}, historyRecord(&before, nil), historyRecord(&req, v.Names))
	})
	return req, err
}

// historyRecord is the snapshot of a request in history. It omits the agent's texts,
// which may contain values.
func historyRecord(r *action.EnvRequest, given []string) map[string]any {
	names := make([]string, len(r.Keys))
	for i, k := range r.Keys {
		names[i] = k.Key
	}
	out := map[string]any{"session_id": r.Session, "status": r.Status, "asked": names}
	if len(given) > 0 {
		slices.Sort(given)
		out["given"] = given
	}
	if r.Note != "" {
		out["note"] = r.Note
	}
	return out
}

// writeEnvDecision writes a decision by compare-and-swap, because a sweep may have
// expired the request.
func writeEnvDecision(ctx context.Context, tx bun.Tx, r *EnvRow, v action.EnvVerdict, now time.Time) error {
	r.DecidedBy, r.DecidedAt, r.Note, r.Status = v.By, database.NewTimestamp(now).Ptr(), v.Note, action.EnvRefused
	q := tx.NewUpdate().Model(r).Column("status", "decided_by", "decided_at", "note", "expires_at")
	if v.Sealed != nil {
		s, err := sessions.ReadSession(ctx, tx, r.Organization, r.Session)
		if err != nil {
			return err
		}
		if s.Live(now) != nil {
			return action.NewError("session_over")
		}
		r.Status, r.ExpiresAt, r.Sealed = action.EnvAnswered, database.NewTimestamp(now.Add(EnvRequestLifetime)).Time, v.Sealed
		q = q.Column("sealed")
	}
	n, err := database.RowsAffected(q.WherePK().Where("status = 'pending'").Exec(ctx))
	if err != nil {
		return fmt.Errorf("deciding request %s: %w", r.ID, err)
	}
	if n > 0 {
		return nil
	}
	stored, err := readEnvRow(ctx, tx, r.Organization, r.ID)
	if err != nil {
		return err
	}
	return checkEnvPending(ctx, tx, stored, now)
}

// checkEnvPending returns why a request is no longer pending, or nil if it is.
func checkEnvPending(ctx context.Context, tx bun.IDB, r *EnvRow, now time.Time) error {
	switch status := r.Status; {
	case status == action.EnvPending && r.ExpiresAt.After(now):
		return nil
	case status == action.EnvPending, status == action.EnvExpired && r.DecidedBy == "":
		return action.Errorf(action.ErrGone, "request_expired", "This request expired before an answer. The agent must request the values again.")
	case status == action.EnvRefused:
		return action.Errorf(action.ErrConflict, "already_decided", "This request was already refused by %s.", history.UserName(ctx, tx, r.Organization, r.DecidedBy))
	}
	return action.Errorf(action.ErrConflict, "already_decided", "This request was already answered by %s.", history.UserName(ctx, tx, r.Organization, r.DecidedBy))
}

// TakeEnv returns the values of all answered requests of a session, once: only the
// same key gets them again, for [EnvRepeatWindow]. key is a hash of the caller's key.
func (st *Store) TakeEnv(ctx context.Context, organization, session, key string) (list []action.SealedEnv, err error) {
	if key == "" {
		return nil, errors.New("fetching values needs a key")
	}
	now := st.db.Now()
	// A waiting sandbox polls every two seconds, so the common case, no values, must
	// not write.
	exists, err := database.Exists(ctx, st.db.Read.NewSelect().Table("env_requests").ColumnExpr("1").
		Where("organization_id = ?", organization).Where("session_id = ?", session).Where("status = 'answered' OR status = 'taken' AND taken_key = ?", key))
	if err != nil {
		return nil, fmt.Errorf("checking for values of session %s: %w", session, err)
	}
	if !exists {
		s, err := sessions.ReadSession(ctx, st.db.Read, organization, session)
		if err == nil {
			err = s.Accepts(now)
		}
		return nil, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		s, err := sessions.ReadSession(ctx, tx, organization, session)
		if err != nil {
			return err
		}
		if err := s.Accepts(now); err != nil {
			return err
		}
		_, err = tx.NewUpdate().Table("env_requests").Set("status = 'taken'").Set("taken_at = ?", database.NewTimestamp(now)).Set("taken_key = ?", key).
			Where("organization_id = ?", organization).Where("session_id = ?", session).Where("status = 'answered'").Where("expires_at > ?", database.NewTimestamp(now)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("fetching the values of session %s: %w", session, err)
		}
		list = nil
		err = tx.NewSelect().Table("env_requests").Column("id", "sealed").
			Where("organization_id = ?", organization).Where("session_id = ?", session).Where("status = 'taken'").
			Where("taken_key = ?", key).Where("taken_at > ?", database.NewTimestamp(now.Add(-EnvRepeatWindow))).Where("sealed IS NOT NULL").OrderExpr("decided_at, id").Scan(ctx, &list)
		if err != nil {
			return fmt.Errorf("reading values of session %s: %w", session, err)
		}
		return nil
	})
	return list, err
}

// SweepEnv expires pending requests and untaken values that are overdue or whose
// session has ended, and wipes taken values. It returns how many rows it changed.
func (st *Store) SweepEnv(ctx context.Context, now time.Time, limit int) (n int, err error) {
	overdue := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.TableExpr("env_requests AS r").Column("r.id").Where("r.status IN ('pending', 'answered')").
			Where(`r.expires_at <= ?0 OR (SELECT CASE WHEN s.revoked_at IS NOT NULL OR s.expires_at <= ?0 THEN 1 END FROM sessions AS s WHERE s.id = r.session_id) = 1`, database.NewTimestamp(now)).
			Limit(int64(database.LimitOrDefault(limit)))
	}
	taken := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.TableExpr("env_requests AS r").Column("r.id").Where("r.status = 'taken' AND r.sealed IS NOT NULL").
			Where("r.taken_at <= ?", database.NewTimestamp(now.Add(-EnvRepeatWindow))).Limit(int64(database.LimitOrDefault(limit)))
	}
	for _, w := range []struct {
		find  func(*bun.SelectQuery) *bun.SelectQuery
		set   string
		guard string
	}{
		{overdue, "status = 'expired', sealed = NULL", "status IN ('pending', 'answered')"},
		{taken, "sealed = NULL", "status = 'taken'"},
	} {
		exists, err := database.Exists(ctx, w.find(st.db.Read.NewSelect()))
		if err == nil && exists {
			err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
				changed, err := database.RowsAffected(tx.NewUpdate().Table("env_requests").Set(w.set).Where("id IN (?)", w.find(tx.NewSelect())).Where(w.guard).Exec(ctx))
				n += changed
				return err
			})
		}
		if err != nil {
			return n, fmt.Errorf("sweeping requests for variables: %w", err)
		}
	}
	return n, nil
}
