package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// Approve implements [action.Settler].
func (db *DB) Approve(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	return db.decide(ctx, v, func(q *bun.UpdateQuery) *bun.UpdateQuery {
		return q.Set("status = 'approved', approved_by = ?, approved_at = ?", v.By, at(v.Now))
	}, func(r *invocationRow) bool {
		return string(r.ApprovedBy) == v.By && r.ApprovedAt.t.Equal(at(v.Now).t)
	})
}

// Deny implements [action.Settler].
func (db *DB) Deny(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	return db.decide(ctx, v, func(q *bun.UpdateQuery) *bun.UpdateQuery {
		return q.Set("status = 'denied', approved_by = ?, denied_reason = ?, denied_note = ?, completed_at = ?, sealed_params = NULL",
			v.By, action.DeniedHuman, opt(v.Note), at(v.Now))
	}, func(r *invocationRow) bool {
		return string(r.ApprovedBy) == v.By && r.DeniedReason == action.DeniedHuman && r.CompletedAt.t.Equal(at(v.Now).t)
	})
}

// decide moves a pending row where set says, when it is still what the person
// saw, and otherwise finds out why it is not.
func (db *DB) decide(
	ctx context.Context, v action.Verdict, set func(*bun.UpdateQuery) *bun.UpdateQuery, mine func(*invocationRow) bool,
) (action.Invocation, error) {
	if v.By == "" {
		return action.Invocation{}, errors.New("a verdict needs the person who gives it")
	}
	return db.settle(ctx, v.Organization, v.ID, func(q *bun.UpdateQuery) *bun.UpdateQuery {
		q = set(q).Where("status = 'pending'").Where("expires_at > ?", at(v.Now))
		if v.Session != "" {
			q = q.Where("session_id = ?", v.Session)
		}
		if v.ParamsHash != "" {
			q = q.Where("params_hash = ?", v.ParamsHash)
		}
		if v.ToolHash != "" {
			q = q.Where("tool_hash = ?", v.ToolHash)
		}
		return q
	}, mine, func(ctx context.Context, tx bun.IDB, r *invocationRow) error {
		if v.Session != "" && r.Session != v.Session {
			return notFound(v.ID)
		}
		if r.Status == string(action.StatusPending) && !r.overdue(v.Now) {
			return &action.Error{
				Kind: action.ErrConflict, Code: "params_changed", Invocation: r.ID,
				Message: "This is not the call that you saw; look at it again before you decide.",
			}
		}
		return undecidable(ctx, tx, r)
	})
}

// Withdraw implements [action.Settler].
func (db *DB) Withdraw(ctx context.Context, organization, id string, now time.Time) (action.Invocation, error) {
	return db.settle(ctx, organization, id, func(q *bun.UpdateQuery) *bun.UpdateQuery {
		return withdrawn(q, now, "").Where("status = 'pending'")
	}, func(r *invocationRow) bool {
		return r.DeniedReason == action.DeniedWithdrawn && r.CompletedAt.t.Equal(at(now).t)
	}, undecidable)
}

// withdrawn sets what a withdrawal sets. Without a note it was the caller.
func withdrawn(q *bun.UpdateQuery, now time.Time, note string) *bun.UpdateQuery {
	return q.Set("status = 'denied', denied_reason = ?, denied_note = ?, completed_at = ?, sealed_params = NULL",
		action.DeniedWithdrawn, opt(note), at(now))
}

// settle runs one compare-and-swap on a row. When it changes nothing, why
// tells the reason from the row as it is; or, when it is tried again, mine that
// it was done before.
func (db *DB) settle(
	ctx context.Context, organization, id string,
	swap func(*bun.UpdateQuery) *bun.UpdateQuery,
	mine func(*invocationRow) bool,
	why func(context.Context, bun.IDB, *invocationRow) error,
) (inv action.Invocation, err error) {
	j := &job{single: true}
	j.run = func(ctx context.Context, tx bun.IDB) error {
		var r invocationRow
		err := swap(tx.NewUpdate().Model((*invocationRow)(nil)).ModelTableExpr("invocations").
			Where("organization_id = ?", organization).Where("id = ?", id)).
			Returning(shownList).Scan(ctx, r.fields()[:len(shown)]...)
		if errors.Is(err, sql.ErrNoRows) {
			now, err := db.inTx(ctx, tx, organization, id)
			if err != nil {
				return err
			}
			if !j.again || !mine(now) {
				return why(ctx, tx, now)
			}
			r = *now
		} else if err != nil {
			return fmt.Errorf("settling invocation %s: %w", id, err)
		}
		inv, err = r.invocation()
		return err
	}
	if err := db.write.do(ctx, j); err != nil {
		return action.Invocation{}, err
	}
	return inv, nil
}

func notFound(id string) error {
	return &action.Error{Kind: action.ErrNotFound, Code: "invocation_not_found", Invocation: id, Message: "There is no such invocation."}
}

// undecidable says why a row is no longer pending: who was first, and how.
func undecidable(ctx context.Context, tx bun.IDB, r *invocationRow) error {
	e := &action.Error{Kind: action.ErrConflict, Code: "already_decided", Invocation: r.ID}
	switch {
	case r.Status == string(action.StatusExpired) && r.ApprovedBy != "":
		e.Kind, e.Code = action.ErrGone, "expired"
		e.Message = "This call was approved by " + nameOf(ctx, tx, r) + ", but nothing took it up in time, so it expired; the agent has to ask again."
	case r.Status == string(action.StatusExpired) || r.Status == string(action.StatusPending):
		e.Kind, e.Code = action.ErrGone, "expired"
		e.Message = "This call expired before anyone decided; the agent has to ask again."
	case r.DeniedReason == action.DeniedWithdrawn:
		e.Code, e.Message = "withdrawn", "This call was withdrawn: "+or(string(r.DeniedNote), "its caller no longer waits for it.")
	case r.DeniedReason == action.DeniedHuman:
		e.Message = "This call was already denied by " + nameOf(ctx, tx, r) + "."
	case r.ApprovedBy != "":
		e.Message = fmt.Sprintf("This call was already approved by %s; it is %s now.", nameOf(ctx, tx, r), r.Status)
	case r.Status == string(action.StatusDenied):
		e.Message = "This call was already denied by policy."
	default:
		e.Message = fmt.Sprintf("This call never waited for a person; it is %s now.", r.Status)
	}
	return e
}

// nameOf returns the name of who decided, or the id of someone unknown here.
func nameOf(ctx context.Context, tx bun.IDB, r *invocationRow) string {
	var name string
	err := tx.NewSelect().Table("users").Column("name").
		Where("organization_id = ?", r.Organization).Where("id = ?", string(r.ApprovedBy)).Scan(ctx, &name)
	if err != nil {
		return string(r.ApprovedBy)
	}
	return name
}

// Claim implements [action.Settler].
func (db *DB) Claim(ctx context.Context, c action.Claim) (rec action.Record, err error) {
	j := &job{single: true}
	j.run = func(ctx context.Context, tx bun.IDB) error {
		var r invocationRow
		err := tx.NewRaw(claimSQL, c.Executor, at(c.LeaseUntil), at(c.Now), c.Organization, c.ID, bun.Safe(keptList)).
			Scan(ctx, r.fields()...)
		if errors.Is(err, sql.ErrNoRows) {
			now, err := db.inTx(ctx, tx, c.Organization, c.ID)
			if err != nil {
				return err
			}
			if !j.again || !now.claimedBy(c) {
				return unclaimable(now)
			}
			r = *now
		} else if err != nil {
			return fmt.Errorf("claiming invocation %s: %w", c.ID, err)
		}
		rec, err = r.record()
		return err
	}
	if err := db.write.do(ctx, j); err != nil {
		return action.Record{}, err
	}
	db.running.put(rec.Invocation)
	return rec, nil
}

const claimSQL = `UPDATE invocations SET status = 'executing', executor = ?, lease_until = ?, started_at = ?
WHERE organization_id = ? AND id = ? AND status = 'approved' RETURNING ?`

// claimedBy reports whether the row executes as c would have it.
func (r *invocationRow) claimedBy(c action.Claim) bool {
	return r.Status == string(action.StatusExecuting) && string(r.Executor) == c.Executor && r.StartedAt.t.Equal(at(c.Now).t)
}

func unclaimable(r *invocationRow) error {
	e := &action.Error{Kind: action.ErrConflict, Code: "not_approved", Invocation: r.ID}
	switch {
	case r.Status == string(action.StatusPending):
		e.Message = "This call still waits for a person."
	case r.Status == string(action.StatusExpired):
		e.Kind, e.Code, e.Message = action.ErrGone, "expired", "This call expired before it was executed."
	case r.Executor != "":
		e.Code, e.Message = "already_claimed", "Another instance executes this call."
	default:
		e.Message = fmt.Sprintf("This call is %s.", r.Status)
	}
	return e
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
