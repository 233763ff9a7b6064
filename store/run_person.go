package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// CancelRun ends a run that has not ended, in a person's name; calls of it that
// wait are withdrawn and returned. ErrNotFound; ErrConflict.
func (db *DB) CancelRun(ctx context.Context, organization, id, by, reason string) (event.Run, []action.Invocation, error) {
	end := runEnd{
		status: event.RunFailed, ending: event.Ending{Code: event.RunCancelled, Message: shortMessage(reason)},
		parcel: event.ParcelVoid, note: "The run was cancelled.",
	}
	return db.act(ctx, organization, id, by, end, func(_ context.Context, _ bun.IDB, r *runRow) error {
		if event.RunStatus(r.Status).Ended() {
			return action.NewError("run_ended", r.Status)
		}
		return nil
	})
}

// ResolveRun ends a run that needs a human as a person says, who did it himself
// or gave it up. ErrInvalid with a field of the ending; ErrNotFound; ErrConflict
// for other runs, and for one whose worker goes on once its calls are decided.
func (db *DB) ResolveRun(ctx context.Context, organization, id, by string, e event.Ending) (event.Run, error) {
	if err := checkEnding(&e, event.RunSucceeded, event.RunFailed); err != nil {
		return event.Run{}, err
	}
	run, _, err := db.act(ctx, organization, id, by, runEnd{status: e.Status, ending: e, parcel: event.ParcelVoid}, leftToPeople)
	return run, err
}

// leftToPeople is nil for a run whose worker left it to a person.
func leftToPeople(_ context.Context, _ bun.IDB, r *runRow) error {
	switch {
	case !r.is(event.RunNeeds):
		return action.NewError("run_needs_nobody", r.Status)
	case r.Claim != "":
		return action.NewError("run_has_worker")
	}
	return nil
}

// RedriveRun queues a run anew that failed, or that its worker left to a person.
// ErrNotFound; ErrConflict for others, and when its automation is gone.
func (db *DB) RedriveRun(ctx context.Context, organization, id, by string) (event.Run, error) {
	end := runEnd{status: event.RunQueued, parcel: event.ParcelVoid, fresh: true}
	run, _, err := db.act(ctx, organization, id, by, end, func(ctx context.Context, tx bun.IDB, r *runRow) error {
		if !r.is(event.RunFailed) {
			if !r.is(event.RunNeeds) {
				return action.NewError("run_not_failed", r.Status)
			}
			if err := leftToPeople(ctx, tx, r); err != nil {
				return err
			}
		}
		_, err := automationOf(ctx, tx, r.Organization, r.Automation)
		if errors.Is(err, action.ErrNotFound) {
			return action.NewError("automation_gone")
		}
		return err
	})
	return run, err
}

// actTries is how often a person's act is tried on a run that moves meanwhile.
const actTries = 5

// act ends a run in a person's name, when it may be, and writes that down. No
// automation is deleted at the same time, whose runs nobody could take.
func (db *DB) act(
	ctx context.Context, organization, id, by string, e runEnd, may func(context.Context, bun.IDB, *runRow) error,
) (run event.Run, withdrew []action.Invocation, err error) {
	if by == "" {
		return event.Run{}, nil, errors.New("an act on a run needs the person whose it is")
	}
	for range actTries {
		err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
			r, err := readRun(ctx, tx, organization, id)
			if err != nil {
				return err
			}
			if err := may(ctx, tx, r); err != nil {
				return err
			}
			was := r.told()
			if withdrew, err = db.endRun(ctx, tx, r, e, db.now()); err != nil {
				return err
			}
			run = r.run()
			change := action.PolicyEvent{Organization: organization, Kind: action.EventRun, Subject: id, By: by}
			return db.recordChange(ctx, tx, change, was, r.told())
		})
		if !errors.Is(err, errRunMoved) {
			break
		}
	}
	if errors.Is(err, errRunMoved) {
		err = fmt.Errorf("%w: %w", err, action.NewError("run_moved"))
	}
	if err != nil {
		return event.Run{}, nil, err
	}
	return run, withdrew, nil
}

// told is what history says of a run.
func (r *runRow) told() any {
	return struct {
		Automation string `json:"automation_id"`
		Status     string `json:"status"`
		Attempt    int    `json:"attempt"`
		ClaimedBy  opt    `json:"claimed_by,omitempty"`
		Session    opt    `json:"session_id,omitempty"`
		Code       opt    `json:"code,omitempty"`
		Message    opt    `json:"message,omitempty"`
	}{r.Automation, r.Status, r.Attempt, r.ClaimedBy, r.Session, r.Code, r.Message}
}
