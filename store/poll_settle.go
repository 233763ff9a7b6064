package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// SettlePoll writes cursor and events in one transaction, and gives the group
// back. Nothing is written, and ErrConflict returned, when the worker lost it.
func (db *DB) SettlePoll(ctx context.Context, worker string, l event.Look) (runs []event.Run, err error) {
	err = db.once(ctx, func(ctx context.Context, tx bun.IDB) error {
		n, err := affected(giveBack(tx, worker, &l, at(db.now())).Exec(ctx))
		switch {
		case err != nil:
			return err
		case n == 0:
			return action.NewError("poll_lost")
		}
		runs, err = db.writeMatches(ctx, tx, ofTriggers, l.Matches)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settling a look at integration %s: %w", l.Group.Integration, err)
	}
	return runs, nil
}

// giveBack ends the worker's turn.
func giveBack(db bun.IDB, worker string, l *event.Look, now stamp) *bun.UpdateQuery {
	q := db.NewUpdate().Table("poll_groups").Set("holder = NULL, lease_until = NULL, next_at = ?, last_at = ?", at(l.NextAt).or(now), now)
	if l.Cursor != nil {
		q = q.Set("cursor = ?", string(l.Cursor))
	}
	if l.LastError == "" {
		q = q.Set("failures = 0, last_error = NULL")
	} else {
		q = q.Set("failures = failures + 1, last_error = ?", l.LastError)
	}
	if l.Lost != "" {
		q = q.Set("lost = ?, lost_at = ?", l.Lost, now)
	}
	return q.Where("id = ?", l.Group.ID).Where("organization_id = ?", l.Group.Organization).
		Where("holder = ?", worker).Where("turn = ?", l.Group.Turn)
}
