package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// errParcelLost tells that a delivery is another's, or over.
var errParcelLost = errors.New("the delivery is in other hands")

// undelivered is told about runs that their endpoint did not take.
const undelivered = "The endpoint for runs did not take this run. See at the delivery what it answered, mend it, and have the run done again."

// SettleParcel writes what came of an attempt, and of the parcel when the first
// one was. One that is dead fails its run,
// unless somebody works on that all the same: then it is delivered. It returns
// the run, and false, and has written nothing, when the worker lost the parcel.
func (db *DB) SettleParcel(ctx context.Context, worker string, s event.Sent) (run event.Run, held bool, err error) {
	switch s.Status {
	case event.ParcelPending, event.ParcelDelivered, event.ParcelDead:
	default:
		return event.Run{}, false, fmt.Errorf("an attempt to deliver does not end as %q", s.Status)
	}
	run, err = db.parcelSettled(ctx, worker, &s)
	if errors.Is(err, errRunBegun) {
		s.Status = event.ParcelDelivered // its endpoint has it, whatever it answered
		run, err = db.parcelSettled(ctx, worker, &s)
	}
	if errors.Is(err, errParcelLost) || errors.Is(err, errRunMoved) {
		return event.Run{}, false, nil
	}
	if err != nil {
		return event.Run{}, false, err
	}
	return run, true, nil
}

func (db *DB) parcelSettled(ctx context.Context, worker string, s *event.Sent) (run event.Run, err error) {
	err = db.once(ctx, func(ctx context.Context, tx bun.IDB) error {
		r, err := readRun(ctx, tx, s.Parcel.Organization, s.Parcel.Run)
		if err != nil {
			return err
		}
		if s.Status == event.ParcelDead && r.Claim != "" && r.ClaimedBy == byEndpoint {
			if !r.is(event.RunClaimed) {
				return errRunBegun
			}
			end := runEnd{status: event.RunFailed, ending: event.Ending{Code: event.RunUndelivered, Message: undelivered}, note: "The run could not be delivered.", unbegun: true}
			if _, err := db.endRun(ctx, tx, r, end, db.now()); err != nil {
				return err
			}
		}
		run = r.run()
		return db.settleParcel(ctx, tx, worker, s)
	})
	return run, err
}

func (db *DB) settleParcel(ctx context.Context, tx bun.IDB, worker string, s *event.Sent) error {
	r := &parcelRow{ID: s.Parcel.ID, Status: string(s.Status), FirstAt: atPtr(s.Parcel.FirstAt), NextAt: at(s.Parcel.NextAt), LastError: opt(shortMessage(s.Error))}
	if s.HTTP != 0 {
		code := int64(s.HTTP)
		r.LastStatus = &code
	}
	if s.Status == event.ParcelPending {
		r.NextAt = at(s.NextAt)
	} else {
		r.DeliveredAt = at(db.now())
	}
	n, err := affected(tx.NewUpdate().Model(r).Column("status", "first_at", "next_at", "holder", "lease_until", "last_status", "last_error", "delivered_at").
		WherePK().Where("organization_id = ?", s.Parcel.Organization).Where("status = 'sending'").
		Where("holder = ?", worker).Where("attempt = ?", s.Parcel.Attempt).Exec(ctx))
	if err != nil {
		return fmt.Errorf("settling delivery %s: %w", r.ID, err)
	}
	if n == 0 {
		return errParcelLost
	}
	return nil
}
