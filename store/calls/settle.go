package calls

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/sessions"
)

// Whose verdict it is and when, the row, and what the person saw of it, where that
// is known:
//
//	?1 by, ?2 now, ?3 organization, ?4 id, ?5 session, ?6 params hash, ?7 tool hash
const undecidedSQL = `
WHERE organization_id = ?3 AND id = ?4 AND status = 'pending' AND expires_at > ?2
  AND (?5 = '' OR session_id = ?5) AND (?6 = '' OR params_hash = ?6) AND (?7 = '' OR tool_hash = ?7)`

var (
	ApproveSQL = `UPDATE invocations SET status = 'approved', approved_by = ?1, approved_at = ?2` + undecidedSQL + `
  AND ?1 <> ` + sessions.CreatorSQL("invocations.organization_id", "invocations.session_id") + ` RETURNING ` + shownList

	// DenySQL has the note as ?8.
	DenySQL = `UPDATE invocations SET status = 'denied', approved_by = ?1, denied_reason = 'human', denied_note = ?8,
  completed_at = ?2, sealed_params = NULL` + undecidedSQL + ` RETURNING ` + shownList
)

// Approve implements [action.Ledger].
func (st *Store) Approve(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	s := settlement{
		stmt: st.stmts.approve,
		mine: func(r *InvocationRow) bool {
			return string(r.ApprovedBy) == v.By && r.ApprovedAt.T.Equal(database.At(v.Now).T)
		},
		why: func(ctx context.Context, tx bun.IDB, r *InvocationRow) error {
			return sessions.Barred(ctx, tx, r.Organization, r.Session, v.By, r.ID)
		},
	}
	if v.Grant == nil {
		return st.decide(ctx, v, s)
	}
	return st.approveWith(ctx, v, s)
}

// approveWith makes a grant in the transaction of the approval.
func (st *Store) approveWith(ctx context.Context, v action.Verdict, s settlement) (action.Invocation, error) {
	terms := v.Grant.Terms
	terms.Any, terms.Source, terms.Action = false, "-", "-" // the row's own
	if err := terms.Check(v.Now); err != nil {
		return action.Invocation{}, err
	}
	id, err := database.NewID()
	if err != nil {
		return action.Invocation{}, err
	}
	var g action.Grant
	s.then = func(ctx context.Context, tx bun.IDB, r *InvocationRow) error {
		terms.Source, terms.Action = r.Source, r.Action
		g = action.Grant{
			ID: id, Organization: r.Organization, Terms: terms, ToolHash: r.ToolHash, Invocation: r.ID, CreatedBy: v.By, CreatedAt: v.Now,
		}
		if terms.Scope == action.ScopeSession {
			g.Session = r.Session
		}
		return st.policy.PutGrant(ctx, tx, &g)
	}
	inv, err := st.decide(ctx, v, s)
	if err == nil {
		*v.Grant = g
	}
	return inv, err
}

// Deny implements [action.Ledger].
func (st *Store) Deny(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	return st.decide(ctx, v, settlement{
		stmt: st.stmts.deny, args: []any{database.Opt(v.Note)},
		mine: func(r *InvocationRow) bool {
			return string(r.ApprovedBy) == v.By && r.DeniedReason == action.DeniedHuman && r.CompletedAt.T.Equal(database.At(v.Now).T)
		},
	})
}

// decide moves a pending row where s says, when it is still what the person
// saw, and otherwise finds out why it is not.
func (st *Store) decide(ctx context.Context, v action.Verdict, s settlement) (action.Invocation, error) {
	if v.By == "" {
		return action.Invocation{}, errors.New("a verdict needs the person who gives it")
	}
	why := s.why
	s.organization, s.id = v.Organization, v.ID
	s.args = append([]any{v.By, database.At(v.Now), v.Organization, v.ID, v.Session, v.ParamsHash, v.ToolHash}, s.args...)
	s.why = func(ctx context.Context, tx bun.IDB, r *InvocationRow) error {
		if v.Session != "" && r.Session != v.Session {
			return database.NotFound(v.ID)
		}
		if r.Status != string(action.StatusPending) || r.overdue(v.Now) {
			return undecidable(ctx, tx, r)
		}
		if why != nil {
			if err := why(ctx, tx, r); err != nil {
				return err
			}
		}
		return action.NewError("params_changed").WithInvocation(r.ID)
	}
	return st.settle(ctx, s)
}

// Withdraw implements [action.Ledger].
func (st *Store) Withdraw(ctx context.Context, organization, id string, now time.Time) (action.Invocation, error) {
	return st.settle(ctx, settlement{
		organization: organization, id: id, why: undecidable,
		swap: func(q *bun.UpdateQuery) *bun.UpdateQuery { return withdrawn(q, now, "").Where("status = 'pending'") },
		mine: func(r *InvocationRow) bool {
			return r.DeniedReason == action.DeniedWithdrawn && r.CompletedAt.T.Equal(database.At(now).T)
		},
	})
}

// withdrawn sets what a withdrawal sets. Without a note it was the caller.
func withdrawn(q *bun.UpdateQuery, now time.Time, note string) *bun.UpdateQuery {
	return q.Set("status = 'denied', denied_reason = ?, denied_note = ?, completed_at = ?, sealed_params = NULL",
		action.DeniedWithdrawn, database.Opt(note), database.At(now))
}

// settlement is one compare-and-swap on a row, and what else belongs to it.
type settlement struct {
	organization, id string

	// stmt does it with args and returns what is shown of the row; nil: swap does.
	stmt *database.Statement
	args []any
	swap func(*bun.UpdateQuery) *bun.UpdateQuery
	// mine tells from the row as it is, when swap changes nothing and is tried
	// again, that it was done before. With then, its transaction tells.
	mine func(*InvocationRow) bool
	// why tells otherwise why it changes nothing.
	why func(context.Context, bun.IDB, *InvocationRow) error
	// then is done in the same transaction, and no other such is under way. Nil:
	// nothing, and there is no transaction but the statement's.
	then func(context.Context, bun.IDB, *InvocationRow) error
}

func (st *Store) settle(ctx context.Context, s settlement) (inv action.Invocation, err error) {
	j := &database.Job{Single: s.then == nil, Whole: s.then != nil, Exclusive: s.then != nil}
	j.Run = func(ctx context.Context, tx bun.IDB) error {
		r := &InvocationRow{}
		err := s.do(ctx, tx, shownColumns.scan(r))
		if errors.Is(err, sql.ErrNoRows) {
			if r, err = st.InTx(ctx, tx, s.organization, s.id); err != nil {
				return err
			}
			if s.then != nil || !j.Again || !s.mine(r) {
				return s.why(ctx, tx, r)
			}
		} else if err != nil {
			return fmt.Errorf("settling invocation %s: %w", s.id, err)
		}
		if s.then != nil {
			if err := s.then(ctx, tx, r); err != nil {
				return err
			}
		}
		inv, err = r.Invocation()
		return err
	}
	if err := st.db.Write.Do(ctx, j); err != nil {
		return action.Invocation{}, err
	}
	return inv, nil
}

// do changes the row and reads what is shown of it then; sql.ErrNoRows when it did
// not fit.
func (s *settlement) do(ctx context.Context, tx bun.IDB, shown []any) error {
	if s.stmt != nil {
		return s.stmt.One(ctx, tx, s.args, shown)
	}
	return s.swap(tx.NewUpdate().Model((*InvocationRow)(nil)).ModelTableExpr("invocations").
		Where("organization_id = ?", s.organization).Where("id = ?", s.id)).
		Returning(shownList).Scan(ctx, shown...)
}

// undecidable says why a row is no longer pending: who was first, and how.
func undecidable(ctx context.Context, tx bun.IDB, r *InvocationRow) error {
	e := &action.Error{Kind: action.ErrConflict, Code: "already_decided", Invocation: r.ID}
	switch {
	case r.Status == string(action.StatusExpired) && r.ApprovedBy != "":
		e.Kind, e.Code = action.ErrGone, "expired"
		e.Message = "This call was approved by " + r.decider(ctx, tx) + ", but nothing took it up in time, so it expired; the agent has to ask again."
	case r.Status == string(action.StatusExpired) || r.Status == string(action.StatusPending):
		e.Kind, e.Code = action.ErrGone, "expired"
		e.Message = "This call expired before anyone decided; the agent has to ask again."
	case r.DeniedReason == action.DeniedWithdrawn:
		e.Code, e.Message = "withdrawn", "This call was withdrawn: "+or(string(r.DeniedNote), "its caller no longer waits for it.")
	case r.DeniedReason == action.DeniedHuman:
		e.Message = "This call was already denied by " + r.decider(ctx, tx) + "."
	case r.ApprovedBy != "":
		e.Message = fmt.Sprintf("This call was already approved by %s; it is %s now.", r.decider(ctx, tx), r.Status)
	case r.Status == string(action.StatusDenied):
		e.Message = "This call was already denied by policy."
	default:
		e.Message = fmt.Sprintf("This call never waited for a person; it is %s now.", r.Status)
	}
	return e
}

// decider returns the name of who decided about the row.
func (r *InvocationRow) decider(ctx context.Context, tx bun.IDB) string {
	return history.NameOf(ctx, tx, r.Organization, string(r.ApprovedBy))
}

// Claim implements [action.Ledger].
func (st *Store) Claim(ctx context.Context, c action.Claim) (rec action.Record, err error) {
	j := &database.Job{Single: true}
	j.Run = func(ctx context.Context, tx bun.IDB) error {
		var r InvocationRow
		err := st.stmts.claim.One(ctx, tx, []any{c.Executor, database.At(c.LeaseUntil), database.At(c.Now), c.Organization, c.ID}, keptColumns.scan(&r))
		if errors.Is(err, sql.ErrNoRows) {
			now, err := st.InTx(ctx, tx, c.Organization, c.ID)
			if err != nil {
				return err
			}
			if !j.Again || !now.claimedBy(c) {
				return unclaimable(now)
			}
			r = *now
		} else if err != nil {
			return fmt.Errorf("claiming invocation %s: %w", c.ID, err)
		}
		rec, err = r.record()
		return err
	}
	if err := st.db.Write.Do(ctx, j); err != nil {
		return action.Record{}, err
	}
	st.running.put(rec.Invocation)
	return rec, nil
}

var ClaimSQL = `UPDATE invocations SET status = 'executing', executor = ?1, lease_until = ?2, started_at = ?3
WHERE organization_id = ?4 AND id = ?5 AND status = 'approved' RETURNING ` + keptList

// claimedBy reports whether the row executes as c would have it.
func (r *InvocationRow) claimedBy(c action.Claim) bool {
	return r.Status == string(action.StatusExecuting) && string(r.Executor) == c.Executor && r.StartedAt.T.Equal(database.At(c.Now).T)
}

func unclaimable(r *InvocationRow) error {
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
