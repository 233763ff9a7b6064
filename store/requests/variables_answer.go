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

// DecideEnv answers or refuses a request. Errors: ErrNotFound; ErrGone when it
// expired; ErrConflict when it was decided; those of a session that is not live,
// for an answer.
func (st *Store) DecideEnv(ctx context.Context, v action.EnvVerdict) (req action.EnvRequest, err error) {
	if v.By == "" {
		return req, errors.New("a verdict needs the person who gives it")
	}
	now := st.db.Now()
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readEnv(ctx, tx, v.Organization, v.ID)
		if err != nil {
			return err
		}
		if err := waitingEnv(ctx, tx, r, now); err != nil {
			return err
		}
		before, err := r.request()
		if err != nil {
			return err
		}
		if err := settleEnv(ctx, tx, r, v, now); err != nil {
			return err
		}
		if req, err = r.request(); err != nil {
			return err
		}
		return st.history.RecordChange(ctx, tx, action.PolicyEvent{Organization: r.Organization, Kind: action.EventEnv, Subject: r.ID, By: v.By}, record(&before, nil), record(&req, v.Names))
	})
	return req, err
}

// record is a request without the agent's texts, which may suggest values.
func record(r *action.EnvRequest, given []string) map[string]any {
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

// settleEnv writes a verdict, by compare-and-swap: a sweep may come between.
func settleEnv(ctx context.Context, tx bun.Tx, r *envRow, v action.EnvVerdict, now time.Time) error {
	r.DecidedBy, r.DecidedAt, r.Note, r.Status = database.NullString(v.By), database.NewTimestamp(now), database.NullString(v.Note), string(action.EnvRefused)
	q := tx.NewUpdate().Model(r).Column("status", "decided_by", "decided_at", "note", "expires_at")
	if v.Sealed != nil {
		s, err := sessions.SessionIn(ctx, tx, r.Organization, r.Session)
		if err != nil {
			return err
		}
		if s.Live(now) != nil {
			return action.NewError("session_over")
		}
		r.Status, r.ExpiresAt = string(action.EnvAnswered), database.NewTimestamp(now.Add(EnvWaits))
		q = q.Set("sealed = ?", v.Sealed)
	}
	n, err := database.RowsAffected(q.WherePK().Where("status = 'pending'").Exec(ctx))
	if err != nil {
		return fmt.Errorf("deciding request %s: %w", r.ID, err)
	}
	if n > 0 {
		return nil
	}
	stored, err := readEnv(ctx, tx, r.Organization, r.ID)
	if err != nil {
		return err
	}
	return waitingEnv(ctx, tx, stored, now)
}

// waitingEnv says why a request is no longer pending, if it is not.
func waitingEnv(ctx context.Context, tx bun.IDB, r *envRow, now time.Time) error {
	switch status := action.EnvStatus(r.Status); {
	case status == action.EnvPending && r.ExpiresAt.Time.After(now):
		return nil
	case status == action.EnvPending, status == action.EnvExpired && r.DecidedBy == "":
		return action.Errorf(action.ErrGone, "request_expired", "This request expired before anyone answered; the agent has to ask again.")
	case status == action.EnvRefused:
		return action.Errorf(action.ErrConflict, "already_decided", "This request was already refused by %s.", history.NameOf(ctx, tx, r.Organization, string(r.DecidedBy)))
	}
	return action.Errorf(action.ErrConflict, "already_decided", "This request was already answered by %s.", history.NameOf(ctx, tx, r.Organization, string(r.DecidedBy)))
}

// TakeEnv hands out the values of all requests of a session that are answered,
// once: the same key gets the same ones again for a few minutes, and nobody else
// does. Key is a hash of the caller's.
func (st *Store) TakeEnv(ctx context.Context, organization, session, key string) (list []action.SealedEnv, err error) {
	if key == "" {
		return nil, errors.New("taking values needs a key")
	}
	now := st.db.Now()
	// Whoever waits for an answer asks every two seconds: mostly nothing is there,
	// and nothing is written.
	some, err := database.Exists(ctx, st.db.Read.NewSelect().Table("env_requests").ColumnExpr("1").
		Where("organization_id = ?", organization).Where("session_id = ?", session).Where("status = 'answered' OR status = 'taken' AND taken_key = ?", key))
	if err != nil {
		return nil, fmt.Errorf("looking for values of session %s: %w", session, err)
	}
	if !some {
		s, err := sessions.SessionIn(ctx, st.db.Read, organization, session)
		if err == nil {
			err = s.Accepts(now)
		}
		return nil, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		s, err := sessions.SessionIn(ctx, tx, organization, session)
		if err != nil {
			return err
		}
		if err := s.Accepts(now); err != nil {
			return err
		}
		_, err = tx.NewUpdate().Table("env_requests").Set("status = 'taken'").Set("taken_at = ?", database.NewTimestamp(now)).Set("taken_key = ?", key).
			Where("organization_id = ?", organization).Where("session_id = ?", session).Where("status = 'answered'").Where("expires_at > ?", database.NewTimestamp(now)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("taking values of session %s: %w", session, err)
		}
		list = nil
		err = tx.NewSelect().Table("env_requests").Column("id", "sealed").
			Where("organization_id = ?", organization).Where("session_id = ?", session).Where("status = 'taken'").
			Where("taken_key = ?", key).Where("taken_at > ?", database.NewTimestamp(now.Add(-EnvAgain))).Where("sealed IS NOT NULL").OrderExpr("decided_at, id").Scan(ctx, &list)
		if err != nil {
			return fmt.Errorf("reading values of session %s: %w", session, err)
		}
		return nil
	})
	return list, err
}

// SweepEnv expires requests that nobody answered, and values that nobody took,
// in time or before the session ended, and wipes values that were taken. It
// returns how many rows it changed.
func (st *Store) SweepEnv(ctx context.Context, now time.Time, limit int) (n int, err error) {
	overdue := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.TableExpr("env_requests AS r").Column("r.id").Where("r.status IN ('pending', 'answered')").
			Where(`r.expires_at <= ?0 OR (SELECT CASE WHEN s.revoked_at IS NOT NULL OR s.expires_at <= ?0 THEN 1 END FROM sessions AS s WHERE s.id = r.session_id) = 1`, database.NewTimestamp(now)).
			Limit(int64(database.LimitOrDefault(limit)))
	}
	handed := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.TableExpr("env_requests AS r").Column("r.id").Where("r.status = 'taken' AND r.sealed IS NOT NULL").
			Where("r.taken_at <= ?", database.NewTimestamp(now.Add(-EnvAgain))).Limit(int64(database.LimitOrDefault(limit)))
	}
	for _, w := range []struct {
		find  func(*bun.SelectQuery) *bun.SelectQuery
		set   string
		still string
	}{
		{overdue, "status = 'expired', sealed = NULL", "status IN ('pending', 'answered')"},
		{handed, "sealed = NULL", "status = 'taken'"},
	} {
		some, err := database.Exists(ctx, w.find(st.db.Read.NewSelect()))
		if err == nil && some {
			err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
				changed, err := database.RowsAffected(tx.NewUpdate().Table("env_requests").Set(w.set).Where("id IN (?)", w.find(tx.NewSelect())).Where(w.still).Exec(ctx))
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
