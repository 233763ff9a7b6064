package calls

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/sessions"
	"sallyport/store/workspaces"
)

// CreateSession inserts a session and returns it with its defaults: an ID, the
// kind (interactive, or unattended with an automation), the type (coding), the
// group and the creation time. Its creator must have access to the integrations that it
// is bound to.
func (st *Store) CreateSession(ctx context.Context, s action.Session) (action.Session, error) {
	created, _, err := st.MakeSession(ctx, s, action.Idempotency{})
	return created, err
}

// maxCreateTries limits the retries if the session of an idempotency key is
// deleted between the insert and the select.
const maxCreateTries = 3

// MakeSession is CreateSession with an idempotency key: it returns the existing
// session of the key if there is one. ErrConflict if the key was used with
// another request.
func (st *Store) MakeSession(ctx context.Context, s action.Session, key action.Idempotency) (created action.Session, existed bool, err error) {
	if err := st.PrepareSession(&s); err != nil {
		return created, false, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := connect.CheckConnections(ctx, tx, s.Organization, s.CreatedBy, s.Connections, false); err != nil {
			return err
		}
		if err := sessions.JoinDefaultGroup(ctx, tx, &s); err != nil {
			return err
		}
		if err := workspaces.Join(ctx, tx, &s); err != nil {
			return err
		}
		r := sessions.NewSessionRow(&s)
		r.Key, r.Hash = database.NullString(key.Key), database.NullString(key.Hash)
		for range maxCreateTries {
			n, err := database.RowsAffected(tx.NewInsert().Model(r).On("CONFLICT (organization_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING").Exec(ctx))
			if created, existed = r.Session(), false; err != nil || n > 0 {
				return err
			}
			if created, existed, err = sessionByKey(ctx, tx, s.Organization, key); err != nil || existed {
				return err
			}
		}
		return action.NewError("unavailable")
	})
	if err != nil {
		return action.Session{}, false, fmt.Errorf("creating a session: %w", err)
	}
	return created, existed, nil
}

// SessionOnce returns the session of an idempotency key, if there is one.
// ErrConflict if the key was used with another request.
func (st *Store) SessionOnce(ctx context.Context, organization string, key action.Idempotency) (s action.Session, found bool, err error) {
	return sessionByKey(ctx, st.db.Read, organization, key)
}

func sessionByKey(ctx context.Context, tx bun.IDB, organization string, key action.Idempotency) (action.Session, bool, error) {
	var r sessions.SessionRow
	err := tx.NewSelect().Model(&r).Where("organization_id = ?", organization).Where("idempotency_key = ?", key.Key).Scan(ctx)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return action.Session{}, false, nil
	case err != nil:
		return action.Session{}, false, fmt.Errorf("reading the session of an idempotency key: %w", err)
	case string(r.Hash) != key.Hash:
		return action.Session{}, false, action.Errorf(action.ErrConflict, "idempotency_key_reused",
			"This idempotency key was used for another session, or by another caller. Use a new key for a new session.").WithField("/idempotency_key")
	}
	return r.Session(), true, nil
}

// PrepareSession validates a new session and fills in its ID and creation time.
func (st *Store) PrepareSession(s *action.Session) error {
	if s.CreatedAt.IsZero() {
		s.CreatedAt = st.db.Now()
	}
	return cmp.Or(s.Check(), database.EnsureID(&s.ID))
}

// RevokeSession ends a session permanently, and withdraws and returns its
// pending invocations. It is idempotent.
func (st *Store) RevokeSession(ctx context.Context, organization, id string) (withdrawn []action.Invocation, err error) {
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		withdrawn, err = RevokeSession(ctx, tx, organization, id, st.db.Now(), action.NoteRevoked)
		return err
	})
	return withdrawn, err
}

// RevokeSession revokes a session within a transaction; the note says why its
// calls are withdrawn. The session's row is locked first, as by a call that
// begins.
func RevokeSession(ctx context.Context, tx bun.IDB, organization, id string, now time.Time, note string) ([]action.Invocation, error) {
	n, err := database.RowsAffected(tx.NewUpdate().Table("sessions").
		Set("status = CASE WHEN revoked_at IS NULL THEN 'stopped' ELSE status END").
		Set("ended_note = CASE WHEN revoked_at IS NULL THEN ? ELSE ended_note END", note).
		Set("revoked_at = coalesce(revoked_at, ?)", database.NewTimestamp(now)).
		Where("organization_id = ?", organization).Where("id = ?", id).Exec(ctx))
	if err != nil {
		return nil, fmt.Errorf("revoking session %s: %w", id, err)
	}
	if n == 0 {
		return nil, sessions.NotFound()
	}
	return WithdrawCalls(ctx, tx, organization, "session_id", id, now, note)
}

// CompleteSession stops a session from beginning new calls but keeps it alive
// until a deadline, so that its agent can still fetch pending results. Its
// pending calls are withdrawn as in [RevokeSession].
func CompleteSession(ctx context.Context, tx bun.IDB, organization, id string, now, until time.Time, note string) ([]action.Invocation, error) {
	n, err := database.RowsAffected(tx.NewUpdate().Table("sessions").Set("completed_at = ?", database.NewTimestamp(now)).
		Set("expires_at = CASE WHEN expires_at < ? THEN expires_at ELSE ? END", database.NewTimestamp(until), database.NewTimestamp(until)).
		Where("organization_id = ?", organization).Where("id = ?", id).Where("revoked_at IS NULL").Where("completed_at IS NULL").Exec(ctx))
	if err != nil {
		return nil, fmt.Errorf("completing session %s: %w", id, err)
	}
	if n == 0 {
		return nil, sessions.NotFound()
	}
	return WithdrawCalls(ctx, tx, organization, "session_id", id, now, note)
}

// WithdrawCalls withdraws and returns the pending calls of a source, or of a
// session whose row the caller has locked.
func WithdrawCalls(ctx context.Context, tx bun.IDB, organization, column, id string, now time.Time, note string) ([]action.Invocation, error) {
	var rows []InvocationRow
	err := tx.NewRaw(withdrawSQL(database.Shared(tx), "organization_id = ?2 AND ?3 = ?4"),
		database.NewTimestamp(now), database.NullString(note), organization, bun.Ident(column), id).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("withdrawing the calls of %s: %w", id, err)
	}
	return invocations(rows)
}

// EndSession ends a live session as stopped or failed, with a note, and
// withdraws and returns its pending calls.
func (st *Store) EndSession(ctx context.Context, organization, id string, status action.SessionStatus, note string) (s action.Session, withdrawn []action.Invocation, err error) {
	if !status.Ended() {
		return s, nil, database.Invalid("/status", "status must be stopped or failed.")
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		now := database.NewTimestamp(st.db.Now())
		if s, err = transitionSession(ctx, tx, organization, id, now, setEnded(status, note)); err != nil {
			return err
		}
		withdrawn, err = WithdrawCalls(ctx, tx, organization, "session_id", id, now.Time, withdrawalNote(status))
		return err
	})
	return s, withdrawn, err
}

// Each transition of a session is one statement whose condition names the allowed
// statuses: of two concurrent transitions one wins, and the other gets an error.

// PauseSession prevents a session from beginning calls until it is resumed. Its
// open calls continue. ErrConflict if the session's status does not allow it.
func (st *Store) PauseSession(ctx context.Context, organization, id string) (action.Session, error) {
	return st.transitionSession(ctx, organization, id, func(q *bun.UpdateQuery, _ database.Timestamp) *bun.UpdateQuery {
		return q.Set("status = 'paused'").Where("status IN ('pending', 'running')")
	})
}

// ResumeSession resumes a paused session and restarts its idle timeout.
func (st *Store) ResumeSession(ctx context.Context, organization, id string) (action.Session, error) {
	return st.transitionSession(ctx, organization, id, func(q *bun.UpdateQuery, now database.Timestamp) *bun.UpdateQuery {
		return q.Set("status = CASE WHEN last_seen_at IS NULL THEN 'pending' ELSE 'running' END").Set("resumed_at = ?", now).Where("status = 'paused'")
	})
}

func setEnded(status action.SessionStatus, note string) func(*bun.UpdateQuery, database.Timestamp) *bun.UpdateQuery {
	return func(q *bun.UpdateQuery, now database.Timestamp) *bun.UpdateQuery {
		return q.Set("status = ?", status).Set("ended_note = ?", database.NullString(note)).Set("revoked_at = ?", now)
	}
}

func withdrawalNote(status action.SessionStatus) string {
	if status == action.SessionFailed {
		return "A person ended the session as one that failed."
	}
	return "A person stopped the session."
}

func (st *Store) transitionSession(ctx context.Context, organization, id string, update func(*bun.UpdateQuery, database.Timestamp) *bun.UpdateQuery) (s action.Session, err error) {
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		s, err = transitionSession(ctx, tx, organization, id, database.NewTimestamp(st.db.Now()), update)
		return err
	})
	return s, err
}

// transitionSession updates a live session if update's conditions hold, and
// returns it.
func transitionSession(ctx context.Context, tx bun.IDB, organization, id string, now database.Timestamp, update func(*bun.UpdateQuery, database.Timestamp) *bun.UpdateQuery) (action.Session, error) {
	n, err := database.RowsAffected(update(sessions.WhereLive(tx.NewUpdate().Table("sessions"), now), now).
		Where("organization_id = ?", organization).Where("id = ?", id).Exec(ctx))
	if err != nil {
		return action.Session{}, fmt.Errorf("changing session %s: %w", id, err)
	}
	s, err := sessions.ReadSession(ctx, tx, organization, id)
	if err == nil && n == 0 {
		err = transitionError(&s, now.Time)
	}
	return s, err
}

// transitionError reports the status of a session and the transition that it
// allows.
func transitionError(s *action.Session, now time.Time) error {
	if s.Live(now) == nil {
		next := "paused"
		if s.Status == action.SessionPaused {
			next = "resumed"
		}
		return action.NewError("session_status", s.Status, next)
	}
	reason := "has " + string(s.Status)
	if !s.Status.Ended() {
		reason = "has expired"
	}
	return action.Errorf(action.ErrConflict, "session_ended", "The session %s, which is final. Create a new session.", reason)
}

// ChangeSession changes the title and the idle timeout of a session; nil leaves
// a value. ErrConflict for the idle timeout of an ended session.
func (st *Store) ChangeSession(ctx context.Context, organization, id string, title *string, idle *time.Duration) (s action.Session, err error) {
	if idle != nil {
		if err := action.CheckIdle(*idle); err != nil {
			return s, err
		}
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if s, err = sessions.ReadSession(ctx, tx, organization, id); err != nil {
			return err
		}
		q := tx.NewUpdate().Table("sessions").Where("organization_id = ?", organization).Where("id = ?", id)
		if title != nil {
			s.Title = *title
			q = q.Set("title = ?", database.NullString(*title))
		}
		if idle != nil {
			s.IdleTimeout = *idle
			q = sessions.WhereLive(q.Set("idle_seconds = ?", sessions.IdleSeconds(*idle)), database.NewTimestamp(st.db.Now()))
		}
		if title == nil && idle == nil {
			return nil
		}
		n, err := database.RowsAffected(q.Exec(ctx))
		if err == nil && n == 0 {
			return transitionError(&s, st.db.Now())
		}
		return err
	})
	return s, err
}

// SessionStates returns the states of an organization's sessions by session ID.
func (st *Store) SessionStates(ctx context.Context, organization string, ids []string) (map[string]action.SessionState, error) {
	states := map[string]action.SessionState{}
	if len(ids) == 0 {
		return states, nil
	}
	var rows []struct {
		ID       string             `bun:"id"`
		LastCall database.Timestamp `bun:"last_call"`
		Pending  int                `bun:"pending"`
		Grants   int                `bun:"grants"`
	}
	if err := st.db.Read.NewRaw(sessionStatesSQL, organization, bun.List(ids), database.NewTimestamp(st.db.Now())).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading the activity of sessions: %w", err)
	}
	for _, r := range rows {
		states[r.ID] = action.SessionState{LastCall: r.LastCall.Ptr(), Pending: r.Pending, Grants: r.Grants}
	}
	return states, nil
}

const sessionStatesSQL = `SELECT s.id,
  (SELECT i.created_at FROM all_calls AS i WHERE i.organization_id = ?0 AND i.session_id = s.id ORDER BY i.created_at DESC, i.id DESC LIMIT 1) AS last_call,
  (SELECT count(*) FROM open_calls AS i WHERE i.organization_id = ?0 AND i.session_id = s.id AND i.status || '' = 'pending') AS pending,
  (SELECT count(*) FROM grants AS g WHERE g.organization_id = ?0 AND coalesce(g.session_id, '') = s.id
    AND g.revoked_at IS NULL AND g.spent_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > ?2)) AS grants
FROM sessions AS s WHERE s.organization_id = ?0 AND s.id IN (?1)`
