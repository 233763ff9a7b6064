package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// claimLost tells a worker that the run is no more his.
func claimLost() error {
	return action.Errorf(action.ErrConflict, "claim_lost",
		"This run is no longer yours: it ended, or was given to another worker. Stop working on it, and claim another one.")
}

// has reports whether a claim is the run's.
func (r *runRow) has(claim string) bool { return claim != "" && string(r.Claim) == claim }

// endedWith reports whether its worker ended the run so, with that claim.
func (r *runRow) endedWith(claim string, s event.RunStatus) bool {
	return claim != "" && string(r.LastClaim) == claim && r.is(s)
}

// RenewRun tells that the worker is alive: the run is running, unless it waits
// for a person, and its lease begins anew. ErrNotFound; ErrConflict with code
// "claim_lost".
func (db *DB) RenewRun(ctx context.Context, organization, id, claim string) (run event.Run, err error) {
	err = db.once(ctx, func(ctx context.Context, tx bun.IDB) error {
		r, err := readRun(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if !r.has(claim) {
			return claimLost()
		}
		now := db.now()
		err = swapped(affected(r.asRead(tx.NewUpdate().Table("runs").
			Set("status = CASE WHEN status = 'claimed' THEN 'running' ELSE status END").
			Set("started_at = coalesce(started_at, ?), lease_until = ?", at(now), r.leaseFrom(now)).
			Where("id = ?", r.ID)).Exec(ctx)))
		if err != nil {
			return fmt.Errorf("renewing run %s: %w", id, err)
		}
		if r.ClaimedBy == byEndpoint {
			// Its endpoint has it, whatever became of the answer.
			if err := closeParcel(ctx, tx, r.ID, event.ParcelDelivered, now); err != nil {
				return err
			}
		}
		run, err = oneRun(ctx, tx, organization, id)
		return err
	})
	if errors.Is(err, errRunMoved) {
		return event.Run{}, claimLost()
	}
	return run, err
}

// FinishRun ends the run as its worker says, or leaves it to a person
// ([event.RunNeeds]), and ends its session: calls of it that wait are withdrawn
// and returned. Who says so again, since he did not hear the answer, gets the
// run as it is. ErrInvalid with a field of the ending; ErrNotFound; ErrConflict
// with code "claim_lost".
func (db *DB) FinishRun(ctx context.Context, organization, id, claim string, e event.Ending) (run event.Run, withdrew []action.Invocation, err error) {
	if err := checkEnding(&e, event.RunSucceeded, event.RunFailed, event.RunNeeds); err != nil {
		return event.Run{}, nil, err
	}
	err = db.once(ctx, func(ctx context.Context, tx bun.IDB) error {
		r, err := readRun(ctx, tx, organization, id)
		switch {
		case err != nil:
			return err
		case r.endedWith(claim, e.Status):
			run, withdrew = r.run(), nil
			return nil
		case !r.has(claim):
			return claimLost()
		}
		end := runEnd{status: e.Status, ending: e, finished: true, parcel: event.ParcelDelivered, note: "The run was finished by its worker."}
		withdrew, err = db.endRun(ctx, tx, r, end, db.now())
		run = r.run()
		return err
	})
	if errors.Is(err, errRunMoved) {
		err = claimLost()
	}
	if err != nil {
		return event.Run{}, nil, err
	}
	return run, withdrew, nil
}
