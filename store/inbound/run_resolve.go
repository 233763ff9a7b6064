package inbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

// CancelRun ends an active run on behalf of a person. Its pending calls are
// withdrawn and returned. ErrNotFound; ErrConflict.
func (st *Store) CancelRun(ctx context.Context, organization, id, by, reason string) (event.Run, []action.Invocation, error) {
	end := RunEnd{
		Status: event.RunFailed, Result: event.RunResult{Code: event.RunCancelled, Message: TruncateMessage(reason)},
		Delivery: event.DeliveryVoid, Note: "The run was cancelled.",
	}
	return st.endByPerson(ctx, organization, id, by, end, func(_ context.Context, _ bun.IDB, r *RunRow) error {
		if event.RunStatus(r.Status).Ended() {
			return action.NewError("run_ended", r.Status)
		}
		return nil
	})
}

// ResolveRun ends a run that needs a human with the person's result. ErrInvalid
// with a field of the result; ErrNotFound; ErrConflict for other runs, and for
// a run whose worker continues when its calls are decided.
func (st *Store) ResolveRun(ctx context.Context, organization, id, by string, e event.RunResult) (event.Run, error) {
	if err := ValidateResult(&e, event.RunSucceeded, event.RunFailed); err != nil {
		return event.Run{}, err
	}
	run, _, err := st.endByPerson(ctx, organization, id, by, RunEnd{Status: e.Status, Result: e, Delivery: event.DeliveryVoid}, checkNeedsHuman)
	return run, err
}

// checkNeedsHuman returns an error unless the worker left the run to a person.
func checkNeedsHuman(_ context.Context, _ bun.IDB, r *RunRow) error {
	switch {
	case !r.is(event.RunNeedsHuman):
		return action.NewError("run_needs_nobody", r.Status)
	case r.Claim != "":
		return action.NewError("run_has_worker")
	}
	return nil
}

// RedriveRun queues a run again that failed or that its worker left to a
// person. ErrNotFound; ErrConflict for other runs and if the automation was
// deleted.
func (st *Store) RedriveRun(ctx context.Context, organization, id, by string) (event.Run, error) {
	end := RunEnd{Status: event.RunQueued, Delivery: event.DeliveryVoid, resetAttempts: true}
	run, _, err := st.endByPerson(ctx, organization, id, by, end, func(ctx context.Context, tx bun.IDB, r *RunRow) error {
		if !r.is(event.RunFailed) {
			if !r.is(event.RunNeedsHuman) {
				return action.NewError("run_not_failed", r.Status)
			}
			if err := checkNeedsHuman(ctx, tx, r); err != nil {
				return err
			}
		}
		_, err := readAutomation(ctx, tx, r.Organization, r.Automation)
		if errors.Is(err, action.ErrNotFound) {
			return action.NewError("automation_gone")
		}
		return err
	})
	return run, err
}

// MaxConflictTries is how often a person's action is tried on a run that
// changes concurrently.
const MaxConflictTries = 5

// endByPerson ends a run on behalf of a person, if check allows it, and records
// the change. The transaction is exclusive, so the automation is not deleted
// meanwhile.
func (st *Store) endByPerson(
	ctx context.Context, organization, id, by string, e RunEnd, check func(context.Context, bun.IDB, *RunRow) error,
) (run event.Run, withdrawn []action.Invocation, err error) {
	if by == "" {
		return event.Run{}, nil, errors.New("an act on a run needs the person whose it is")
	}
	for range MaxConflictTries {
		err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
			r, err := ReadRun(ctx, tx, organization, id)
			if err != nil {
				return err
			}
			if err := check(ctx, tx, r); err != nil {
				return err
			}
			before := r.snapshot()
			if withdrawn, err = st.EndRun(ctx, tx, r, e, st.db.Now()); err != nil {
				return err
			}
			run = r.run()
			change := action.PolicyEvent{Organization: organization, Kind: action.EventRun, Subject: id, By: by}
			return st.history.RecordChange(ctx, tx, change, before, r.snapshot())
		})
		if !errors.Is(err, ErrRunChanged) {
			break
		}
	}
	if errors.Is(err, ErrRunChanged) {
		err = fmt.Errorf("%w: %w", err, action.NewError("run_moved"))
	}
	if err != nil {
		return event.Run{}, nil, err
	}
	return run, withdrawn, nil
}

// snapshot returns what history events hold of a run.
func (r *RunRow) snapshot() any {
	return struct {
		Automation string              `json:"automation_id"`
		Status     string              `json:"status"`
		Attempt    int                 `json:"attempt"`
		ClaimedBy  database.NullString `json:"claimed_by,omitempty"`
		Session    database.NullString `json:"session_id,omitempty"`
		Code       database.NullString `json:"code,omitempty"`
		Message    database.NullString `json:"message,omitempty"`
	}{r.Automation, r.Status, r.Attempt, r.ClaimedBy, r.Session, r.Code, r.Message}
}
