package calls

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

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
	err := setWithdrawn(tx.NewUpdate().Table("invocations"), now, note).
		Where("organization_id = ?", organization).Where("? = ?", bun.Ident(column), id).Where("status = 'pending'").
		Returning(publicColumnList).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("withdrawing the calls of %s: %w", id, err)
	}
	return invocations(rows)
}

// EndSession ends a live session as stopped or failed, with a note, and
// withdraws and returns its pending calls.
func (st *Store) EndSession(ctx context.Context, organization, id string, status action.SessionStatus, note string) (s action.Session, withdrawn []action.Invocation, err error) {
	if !status.Ended() {
		return s, nil, database.Invalid("/status", "A session ends stopped or failed.")
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
