package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// finishSQL ends the row of a call that runs here. Behind the values of finishColumns
// come its organization, id and executor.
var finishSQL = fmt.Sprintf(`UPDATE invocations SET %s, sealed_params = NULL
WHERE organization_id = ?%d AND id = ?%d AND status = 'executing' AND executor = ?%d`,
	finishColumns.assignments(), len(finishColumns)+1, len(finishColumns)+2, len(finishColumns)+3)

// Finish implements [action.Ledger].
func (db *DB) Finish(ctx context.Context, f *action.Finish) (inv action.Invocation, recorded bool, err error) {
	if !f.Status.Terminal() || f.Status == action.StatusExpired {
		return inv, false, fmt.Errorf("invocation %s cannot finish as %q", f.ID, f.Status)
	}
	if (f.Status == action.StatusFailed) != (f.Error != nil) || (f.Status == action.StatusDenied) != (f.DeniedReason != "") {
		return inv, false, fmt.Errorf("invocation %s cannot finish as %s: its error or reason does not fit", f.ID, f.Status)
	}
	begun, known := db.running.take(f.Organization, f.ID)
	if known {
		if done, err := db.write.instead(ctx, f.ID, func(b *begunRow) *job { return db.endedJob(b, f, &recorded) }); done {
			if err != nil {
				return action.Invocation{}, false, err
			}
			return finished(begun, f), recorded, nil
		}
	}
	return db.finish(ctx, f, begun, known)
}

// finish ends a row that is written, and that was begun here if it is known.
func (db *DB) finish(ctx context.Context, f *action.Finish, begun action.Invocation, known bool) (inv action.Invocation, recorded bool, err error) {
	args := finishArgs(f)
	late := &action.Event{Organization: f.Organization, Invocation: f.ID, Kind: action.LateOutcome, At: f.Now}
	j := &job{single: true, row: f.ID, patient: true, passes: true}
	j.run = func(ctx context.Context, tx bun.IDB) error {
		recorded = false
		res, err := db.stmts.finish.exec(ctx, tx, args...)
		if err != nil {
			return fmt.Errorf("finishing invocation %s: %w", f.ID, err)
		}
		n, err := res.RowsAffected()
		switch {
		case err != nil:
			return err
		case n == 0:
			inv, recorded, err = db.finishLate(ctx, tx, f, late, j.again)
			return err
		case known:
			recorded, inv = true, finished(begun, f)
			return nil
		}
		r, err := db.inTx(ctx, tx, f.Organization, f.ID)
		if err != nil {
			return err
		}
		recorded = true
		inv, err = r.invocation()
		return err
	}
	if known {
		j.quick = &quick{&db.stmts.finish, func() []any { return args }, func(n int64) bool {
			recorded, inv = n > 0, finished(begun, f)
			return recorded
		}}
	}
	if err := db.write.do(ctx, j); err != nil {
		return action.Invocation{}, false, err
	}
	return inv, recorded, nil
}

// endedJob writes a row that was not written yet as f leaves it.
func (db *DB) endedJob(b *begunRow, f *action.Finish, recorded *bool) *job {
	r := *b.row
	r.finish(f)
	args := endedColumns.values(&r)
	j := &job{single: true, patient: true, passes: true}
	j.run = func(ctx context.Context, tx bun.IDB) error {
		n, err := affected(db.stmts.ended.exec(ctx, tx, args...))
		if err != nil {
			return fmt.Errorf("finishing invocation %s: %w", f.ID, err)
		}
		if *recorded = n > 0; *recorded {
			return nil
		}
		written, err := db.inTx(ctx, tx, f.Organization, f.ID) // by an attempt whose commit nobody heard of
		if err != nil {
			return err
		}
		*recorded = written.endedBy(f)
		return nil
	}
	j.quick = &quick{&db.stmts.ended, func() []any { return args }, func(n int64) bool {
		*recorded = n > 0
		return *recorded
	}}
	return j
}

func finishArgs(f *action.Finish) []any {
	r := &invocationRow{}
	r.finish(f)
	return append(finishColumns.values(r), f.Organization, f.ID, f.Executor)
}

// finishLate appends to a row that ended before its execution did: the verdict
// stands, and what happened is still written down. When Finish is tried again,
// the end may be its own.
func (db *DB) finishLate(ctx context.Context, tx bun.IDB, f *action.Finish, late *action.Event, again bool) (inv action.Invocation, recorded bool, err error) {
	r, err := db.inTx(ctx, tx, f.Organization, f.ID)
	if err != nil {
		return action.Invocation{}, false, err
	}
	if again && r.endedBy(f) {
		inv, err := r.invocation()
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
	inv, err = r.invocation()
	return inv, false, err
}

// endedBy reports whether the row ended as f would end it.
func (r *invocationRow) endedBy(f *action.Finish) bool {
	return r.Status == string(f.Status) && string(r.Executor) == f.Executor && r.CompletedAt.t.Equal(at(f.Now).t)
}

// lateOutcome is the data of an [action.LateOutcome].
type lateOutcome struct {
	Status     action.Status   `json:"status"`
	Executor   string          `json:"executor"`
	DurationMS int64           `json:"duration_ms"`
	Error      *action.Failure `json:"error,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
}
