package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// Each step of a session's life is one statement that names the statuses it
// leads from: of two at the same time one wins, and the other is told.

// PauseSession has a session begin no calls any more, until it is resumed. What
// it holds goes on. ErrConflict tells the status that it has otherwise.
func (db *DB) PauseSession(ctx context.Context, organization, id string) (action.Session, error) {
	return db.moveSession(ctx, organization, id, func(q *bun.UpdateQuery, _ stamp) *bun.UpdateQuery {
		return q.Set("status = 'paused'").Where("status IN ('pending', 'running')")
	})
}

// ResumeSession ends a pause. Its idle time begins anew.
func (db *DB) ResumeSession(ctx context.Context, organization, id string) (action.Session, error) {
	return db.moveSession(ctx, organization, id, func(q *bun.UpdateQuery, now stamp) *bun.UpdateQuery {
		return q.Set("status = CASE WHEN last_seen_at IS NULL THEN 'pending' ELSE 'running' END").Set("resumed_at = ?", now).Where("status = 'paused'")
	})
}

// EndSession stops a live session for good, or has it failed, with a note of
// why, and withdraws what it holds, which is returned.
func (db *DB) EndSession(ctx context.Context, organization, id string, as action.SessionStatus, note string) (s action.Session, withdrew []action.Invocation, err error) {
	if !as.Ended() {
		return s, nil, invalid("/status", "A session ends stopped or failed.")
	}
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		now := at(db.now())
		if s, err = moveSession(ctx, tx, organization, id, now, ending(as, note)); err != nil {
			return err
		}
		withdrew, err = withdrawCalls(ctx, tx, organization, "session_id", id, now.t, heldNote(as))
		return err
	})
	return s, withdrew, err
}

func ending(as action.SessionStatus, note string) func(*bun.UpdateQuery, stamp) *bun.UpdateQuery {
	return func(q *bun.UpdateQuery, now stamp) *bun.UpdateQuery {
		return q.Set("status = ?", as).Set("ended_note = ?", opt(note)).Set("revoked_at = ?", now)
	}
}

func heldNote(as action.SessionStatus) string {
	if as == action.SessionFailed {
		return "A person ended the session as one that failed."
	}
	return "A person stopped the session."
}

func (db *DB) moveSession(ctx context.Context, organization, id string, how func(*bun.UpdateQuery, stamp) *bun.UpdateQuery) (s action.Session, err error) {
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		s, err = moveSession(ctx, tx, organization, id, at(db.now()), how)
		return err
	})
	return s, err
}

// moveSession changes a live session where how lets it, and returns it as it is
// then.
func moveSession(ctx context.Context, tx bun.IDB, organization, id string, now stamp, how func(*bun.UpdateQuery, stamp) *bun.UpdateQuery) (action.Session, error) {
	n, err := affected(how(live(tx.NewUpdate().Table("sessions"), now), now).
		Where("organization_id = ?", organization).Where("id = ?", id).Exec(ctx))
	if err != nil {
		return action.Session{}, fmt.Errorf("changing session %s: %w", id, err)
	}
	s, err := sessionIn(ctx, tx, organization, id)
	if err == nil && n == 0 {
		err = wrongStep(&s, now.t)
	}
	return s, err
}

func live[Q interface{ Where(string, ...any) Q }](q Q, now stamp) Q {
	return q.Where("revoked_at IS NULL").Where("expires_at IS NULL OR expires_at > ?", now)
}

// wrongStep says where a session is, and where it can go from there.
func wrongStep(s *action.Session, now time.Time) error {
	if s.Live(now) == nil {
		next := "paused"
		if s.Status == action.SessionPaused {
			next = "resumed"
		}
		return action.NewError("session_status", s.Status, next)
	}
	was := "has " + string(s.Status)
	if !s.Status.Ended() {
		was = "is over, since its time is"
	}
	return action.Errorf(action.ErrConflict, "session_ended", "The session %s, and does not live again; mint a new one.", was)
}

// ChangeSession changes what people see of a session, and how long it may be
// idle. Nil leaves what it is; ErrConflict: one that ended is idle for ever.
func (db *DB) ChangeSession(ctx context.Context, organization, id string, title *string, idle *time.Duration) (s action.Session, err error) {
	if idle != nil {
		if err := action.CheckIdle(*idle); err != nil {
			return s, err
		}
	}
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if s, err = sessionIn(ctx, tx, organization, id); err != nil {
			return err
		}
		q := tx.NewUpdate().Table("sessions").Where("organization_id = ?", organization).Where("id = ?", id)
		if title != nil {
			s.Title = *title
			q = q.Set("title = ?", opt(*title))
		}
		if idle != nil {
			s.IdleTimeout = *idle
			q = live(q.Set("idle_seconds = ?", toIdle(*idle)), at(db.now()))
		}
		if title == nil && idle == nil {
			return nil
		}
		n, err := affected(q.Exec(ctx))
		if err == nil && n == 0 {
			return wrongStep(&s, db.now())
		}
		return err
	})
	return s, err
}
