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
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/sessions"
)

// undecidedSQL is the condition under which a verdict applies. Its arguments are the
// verdict, the row, and what the person saw of the row, if known:
//
//	?1 by, ?2 now, ?3 organization, ?4 id, ?5 session, ?6 params hash, ?7 tool hash
const undecidedSQL = `organization_id = ?3 AND id = ?4 AND status = 'pending' AND expires_at > ?2
  AND (?5 = '' OR session_id = ?5) AND (?6 = '' OR params_hash = ?6) AND (?7 = '' OR tool_hash = ?7)`

var ApproveSQL = `UPDATE open_calls SET status = 'approved', approved_by = ?1, approved_at = ?2
WHERE ` + undecidedSQL + `
  AND ?1 <> ` + sessions.ExcludedApproverSQL("open_calls.organization_id", "open_calls.session_id") + ` RETURNING ` + openPublicColumns.list()

// DenySQL denies a pending call. The note is ?8.
func DenySQL(shared bool) string {
	return endSQL(shared, map[string]string{
		"status": "'denied'", "approved_by": "?1", "denied_reason": "'human'", "denied_note": "?8", "completed_at": "?2",
	}, undecidedSQL) + " RETURNING " + publicColumnList
}

// withdrawSQL withdraws pending calls:
//
//	?0 now, ?1 note, ?2 and on, what where has
func withdrawSQL(shared bool, where string) string {
	return endSQL(shared, map[string]string{
		"status": "'denied'", "denied_reason": "'" + action.DeniedWithdrawn + "'", "denied_note": "?1", "completed_at": "?0",
	}, "status || '' = 'pending' AND "+where) + " RETURNING " + publicColumnList
}

// Approve implements [action.Ledger].
func (st *Store) Approve(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	s := settlement{
		stmt: st.stmts.approve, columns: openPublicColumns,
		alreadyDone: func(r *InvocationRow) bool {
			return string(r.ApprovedBy) == v.By && r.ApprovedAt.Time.Equal(database.NewTimestamp(v.Now).Time)
		},
		explain: func(ctx context.Context, tx bun.IDB, r *InvocationRow) error {
			return sessions.CheckApprover(ctx, tx, r.Organization, r.Session, v.By, r.ID)
		},
	}
	if v.Grant == nil {
		return st.decide(ctx, v, s)
	}
	return st.approveWithGrant(ctx, v, s)
}

// approveWithGrant creates a grant in the transaction of the approval.
func (st *Store) approveWithGrant(ctx context.Context, v action.Verdict, s settlement) (action.Invocation, error) {
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
	s.followUp = func(ctx context.Context, tx bun.IDB, r *InvocationRow) error {
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
		stmt: st.stmts.deny, args: []any{database.NullString(v.Note)},
		alreadyDone: func(r *InvocationRow) bool {
			return string(r.ApprovedBy) == v.By && r.DeniedReason == action.DeniedHuman && r.CompletedAt.Time.Equal(database.NewTimestamp(v.Now).Time)
		},
	})
}

// decide applies a verdict to a pending row if the row is still what the person saw, and
// otherwise returns why not.
func (st *Store) decide(ctx context.Context, v action.Verdict, s settlement) (action.Invocation, error) {
	if v.By == "" {
		return action.Invocation{}, errors.New("a verdict needs the person who gives it")
	}
	explain := s.explain
	s.organization, s.id = v.Organization, v.ID
	s.args = append([]any{v.By, database.NewTimestamp(v.Now), v.Organization, v.ID, v.Session, v.ParamsHash, v.ToolHash}, s.args...)
	s.explain = func(ctx context.Context, tx bun.IDB, r *InvocationRow) error {
		if v.Session != "" && r.Session != v.Session {
			return database.InvocationNotFound(v.ID)
		}
		if r.Status != string(action.StatusPending) || r.overdue(v.Now) {
			return alreadyDecided(ctx, tx, r)
		}
		if explain != nil {
			if err := explain(ctx, tx, r); err != nil {
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
		organization: organization, id: id, explain: alreadyDecided,
		query: withdrawSQL(st.db.Shared(), "organization_id = ?2 AND id = ?3"), args: []any{database.NewTimestamp(now), database.NullString(""), organization, id},
		alreadyDone: func(r *InvocationRow) bool {
			return r.DeniedReason == action.DeniedWithdrawn && r.CompletedAt.Time.Equal(database.NewTimestamp(now).Time)
		},
	})
}

// settlement is a compare-and-swap on a row, with an optional follow-up write.
type settlement struct {
	organization, id string

	// stmt writes with args and returns the columns, without it query does.
	stmt    *database.Statement
	query   string
	args    []any
	columns InvocationColumns // nil: the public columns
	// alreadyDone reports, from the row that a retry did not change, whether an earlier
	// attempt was committed. It is not used with followUp, whose transaction is tracked.
	alreadyDone func(*InvocationRow) bool
	// explain returns why nothing was changed.
	explain func(context.Context, bun.IDB, *InvocationRow) error
	// followUp is run in the same exclusive transaction. Without it the statement has no
	// other transaction than its own.
	followUp func(context.Context, bun.IDB, *InvocationRow) error
}

func (st *Store) settle(ctx context.Context, s settlement) (inv action.Invocation, err error) {
	if s.columns == nil {
		s.columns = publicColumns
	}
	j := &database.Job{SingleStatement: s.followUp == nil, InTransaction: s.followUp != nil, Exclusive: s.followUp != nil}
	j.Run = func(ctx context.Context, tx bun.IDB) error {
		r := &InvocationRow{}
		err := s.apply(ctx, tx, s.columns.scan(r))
		if errors.Is(err, sql.ErrNoRows) {
			if r, err = st.LoadInTx(ctx, tx, s.organization, s.id); err != nil {
				return err
			}
			if s.followUp != nil || !j.Retried || !s.alreadyDone(r) {
				return s.explain(ctx, tx, r)
			}
		} else if err != nil {
			return fmt.Errorf("settling invocation %s: %w", s.id, err)
		}
		if s.followUp != nil {
			if err := s.followUp(ctx, tx, r); err != nil {
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

// apply changes the row and scans its columns; sql.ErrNoRows if it did not match.
func (s *settlement) apply(ctx context.Context, tx bun.IDB, targets []any) error {
	if s.stmt != nil {
		return s.stmt.One(ctx, tx, s.args, targets)
	}
	return tx.NewRaw(s.query, s.args...).Scan(ctx, targets...)
}

// alreadyDecided returns why a row is no longer pending: who decided first, and how.
func alreadyDecided(ctx context.Context, tx bun.IDB, r *InvocationRow) error {
	e := &action.Error{Kind: action.ErrConflict, Code: "already_decided", Invocation: r.ID}
	switch {
	case r.Status == string(action.StatusExpired) && r.ApprovedBy != "":
		e.Kind, e.Code = action.ErrGone, "expired"
		e.Message = "This call was approved by " + r.deciderName(ctx, tx) + ", but no instance ran it in time, so it expired. The agent must call again."
	case r.Status == string(action.StatusExpired) || r.Status == string(action.StatusPending):
		e.Kind, e.Code = action.ErrGone, "expired"
		e.Message = "This call expired before a decision. The agent must call again."
	case r.DeniedReason == action.DeniedWithdrawn:
		e.Code, e.Message = "withdrawn", "This call was withdrawn: "+cmp.Or(string(r.DeniedNote), "its caller no longer waits for it.")
	case r.DeniedReason == action.DeniedHuman:
		e.Message = "This call was already denied by " + r.deciderName(ctx, tx) + "."
	case r.ApprovedBy != "":
		e.Message = fmt.Sprintf("This call was already approved by %s; it is %s now.", r.deciderName(ctx, tx), r.Status)
	case r.Status == string(action.StatusDenied):
		e.Message = "This call was already denied by policy."
	default:
		e.Message = fmt.Sprintf("This call did not need approval; it is %s now.", r.Status)
	}
	return e
}

// deciderName returns the name of who decided about the row.
func (r *InvocationRow) deciderName(ctx context.Context, tx bun.IDB) string {
	return history.UserName(ctx, tx, r.Organization, string(r.ApprovedBy))
}

// Claim implements [action.Ledger].
func (st *Store) Claim(ctx context.Context, c action.Claim) (rec action.Record, err error) {
	j := &database.Job{SingleStatement: true}
	j.Run = func(ctx context.Context, tx bun.IDB) error {
		var r InvocationRow
		err := st.stmts.claim.One(ctx, tx, []any{c.Executor, database.NewTimestamp(c.LeaseUntil), database.NewTimestamp(c.Now), c.Organization, c.ID}, openRecordColumns.scan(&r))
		if errors.Is(err, sql.ErrNoRows) {
			now, err := st.LoadInTx(ctx, tx, c.Organization, c.ID)
			if err != nil {
				return err
			}
			if !j.Retried || !now.claimedBy(c) {
				return claimError(now)
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
	st.executing.put(rec.Invocation)
	return rec, nil
}

// ClaimSQL moves an approved call to its executor.
var ClaimSQL = `UPDATE open_calls SET status = 'executing', executor = ?1, lease_until = ?2, started_at = ?3
WHERE organization_id = ?4 AND id = ?5 AND status = 'approved' RETURNING ` + openRecordColumns.list()

// claimedBy reports whether the row executes as c would have it.
func (r *InvocationRow) claimedBy(c action.Claim) bool {
	return r.Status == string(action.StatusExecuting) && string(r.Executor) == c.Executor && r.StartedAt.Time.Equal(database.NewTimestamp(c.Now).Time)
}

func claimError(r *InvocationRow) error {
	e := &action.Error{Kind: action.ErrConflict, Code: "not_approved", Invocation: r.ID}
	switch {
	case r.Status == string(action.StatusPending):
		e.Message = "This call is still pending."
	case r.Status == string(action.StatusExpired):
		e.Kind, e.Code, e.Message = action.ErrGone, "expired", "This call expired before it was executed."
	case r.Executor != "":
		e.Code, e.Message = "already_claimed", "Another instance executes this call."
	default:
		e.Message = fmt.Sprintf("This call is %s.", r.Status)
	}
	return e
}
