package calls

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// FinishSQL ends the row of a call that this instance executes. Its parameters
// are the values of finishColumns, then the organization, ID and executor.
var FinishSQL = fmt.Sprintf(`UPDATE invocations SET %s, sealed_params = NULL
WHERE organization_id = ?%d AND id = ?%d AND status = 'executing' AND executor = ?%d`,
	finishColumns.assignments(), len(finishColumns)+1, len(finishColumns)+2, len(finishColumns)+3)

// Finish implements [action.Ledger].
func (st *Store) Finish(ctx context.Context, f *action.Finish) (inv action.Invocation, recorded bool, err error) {
	if !f.Status.Terminal() || f.Status == action.StatusExpired {
		return inv, false, fmt.Errorf("invocation %s cannot finish as %q", f.ID, f.Status)
	}
	if (f.Status == action.StatusFailed) != (f.Error != nil) || (f.Status == action.StatusDenied) != (f.DeniedReason != "") {
		return inv, false, fmt.Errorf("invocation %s cannot finish as %s: its error or reason does not fit", f.ID, f.Status)
	}
	begun, known := st.executing.Take(f.Organization, f.ID)
	if known {
		if done, err := st.db.Write.ReplaceInsert(ctx, f.ID, func(begun any) *database.Job {
			b := begun.(*QueuedBegin)
			return st.insertEndedJob(b, f, &recorded)
		}); done {
			if err != nil {
				return action.Invocation{}, false, err
			}
			return finished(begun, f), recorded, nil
		}
	}
	return st.finish(ctx, f, begun, known)
}

// finish ends a stored row. known reports whether begun is the call as this
// instance began it.
func (st *Store) finish(ctx context.Context, f *action.Finish, begun action.Invocation, known bool) (inv action.Invocation, recorded bool, err error) {
	args := FinishArgs(f)
	late := &action.Event{Organization: f.Organization, Invocation: f.ID, Kind: action.LateOutcome, At: f.Now}
	j := &database.Job{SingleStatement: true, Row: f.ID, RetryUntilCanceled: true, Unordered: true}
	j.Run = func(ctx context.Context, tx bun.IDB) error {
		recorded = false
		res, err := st.stmts.finish.Exec(ctx, tx, args...)
		if err != nil {
			return fmt.Errorf("finishing invocation %s: %w", f.ID, err)
		}
		n, err := res.RowsAffected()
		switch {
		case err != nil:
			return err
		case n == 0:
			inv, recorded, err = st.finishLate(ctx, tx, f, late, j.Retried)
			return err
		case known:
			recorded, inv = true, finished(begun, f)
			return nil
		}
		r, err := st.LoadInTx(ctx, tx, f.Organization, f.ID)
		if err != nil {
			return err
		}
		recorded = true
		inv, err = r.Invocation()
		return err
	}
	if known {
		j.Batchable = &database.BatchStatement{Stmt: st.stmts.finish, Args: func() []any { return args }, Done: func(n int64) bool {
			recorded, inv = n > 0, finished(begun, f)
			return recorded
		}}
	}
	if err := st.db.Write.Do(ctx, j); err != nil {
		return action.Invocation{}, false, err
	}
	return inv, recorded, nil
}

// insertEndedJob inserts a row in its final state, if its first insert was
// still queued.
func (st *Store) insertEndedJob(b *QueuedBegin, f *action.Finish, recorded *bool) *database.Job {
	r := *b.row
	r.Finish(f)
	args := EndedColumns.Values(&r)
	j := &database.Job{SingleStatement: true, RetryUntilCanceled: true, Unordered: true}
	j.Run = func(ctx context.Context, tx bun.IDB) error {
		n, err := database.RowsAffected(st.stmts.ended.Exec(ctx, tx, args...))
		if err != nil {
			return fmt.Errorf("finishing invocation %s: %w", f.ID, err)
		}
		if *recorded = n > 0; *recorded {
			return nil
		}
		written, err := st.LoadInTx(ctx, tx, f.Organization, f.ID) // a previous attempt whose commit response was lost
		if err != nil {
			return err
		}
		*recorded = written.endedBy(f)
		return nil
	}
	j.Batchable = &database.BatchStatement{Stmt: st.stmts.ended, Args: func() []any { return args }, Done: func(n int64) bool {
		*recorded = n > 0
		return *recorded
	}}
	return j
}

// FinishArgs returns the arguments of [FinishSQL].
func FinishArgs(f *action.Finish) []any {
	r := &InvocationRow{}
	r.Finish(f)
	return append(finishColumns.Values(r), f.Organization, f.ID, f.Executor)
}

// finishLate appends an event to a row that ended before its execution did: the
// verdict stands, but the outcome is recorded. If Finish is retried, an earlier
// attempt may have ended the row.
func (st *Store) finishLate(ctx context.Context, tx bun.IDB, f *action.Finish, late *action.Event, retried bool) (inv action.Invocation, recorded bool, err error) {
	r, err := st.LoadInTx(ctx, tx, f.Organization, f.ID)
	if err != nil {
		return action.Invocation{}, false, err
	}
	if retried && r.endedBy(f) {
		inv, err := r.Invocation()
		return inv, true, err
	}
	if r.open() {
		return action.Invocation{}, false, action.Errorf(action.ErrConflict, "not_executing", "This call is %s, and not executed by who finishes it.", r.Status).WithInvocation(f.ID)
	}
	late.Data, err = json.Marshal(lateOutcome{f.Status, f.Executor, f.DurationMS, f.Error, f.Result})
	if err != nil {
		return action.Invocation{}, false, fmt.Errorf("writing the late outcome of invocation %s: %w", f.ID, err)
	}
	if err := appendEvent(ctx, tx, late); err != nil {
		return action.Invocation{}, false, err
	}
	inv, err = r.Invocation()
	return inv, false, err
}

// endedBy reports whether the row ended as f would end it.
func (r *InvocationRow) endedBy(f *action.Finish) bool {
	return r.Status == string(f.Status) && string(r.Executor) == f.Executor && r.CompletedAt.Time.Equal(database.NewTimestamp(f.Now).Time)
}

// lateOutcome is the data of an [action.LateOutcome].
type lateOutcome struct {
	Status     action.Status   `json:"status"`
	Executor   string          `json:"executor"`
	DurationMS int64           `json:"duration_ms"`
	Error      *action.Failure `json:"error,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
}
