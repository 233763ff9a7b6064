package calls

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

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
		reason = "is over, since its time is"
	}
	return action.Errorf(action.ErrConflict, "session_ended", "The session %s, and does not live again; mint a new one.", reason)
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
		return nil, fmt.Errorf("reading what goes on in sessions: %w", err)
	}
	for _, r := range rows {
		states[r.ID] = action.SessionState{LastCall: r.LastCall.Ptr(), Pending: r.Pending, Grants: r.Grants}
	}
	return states, nil
}

const sessionStatesSQL = `SELECT s.id,
  (SELECT i.created_at FROM invocations AS i WHERE i.organization_id = ?0 AND i.session_id = s.id ORDER BY i.created_at DESC, i.id DESC LIMIT 1) AS last_call,
  (SELECT count(*) FROM invocations AS i WHERE i.organization_id = ?0 AND i.session_id = s.id AND i.status = 'pending') AS pending,
  (SELECT count(*) FROM grants AS g WHERE g.organization_id = ?0 AND coalesce(g.session_id, '') = s.id
    AND g.revoked_at IS NULL AND g.spent_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > ?2)) AS grants
FROM sessions AS s WHERE s.organization_id = ?0 AND s.id IN (?1)`
