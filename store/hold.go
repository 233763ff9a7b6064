package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// hold is what only a call that waits for a person must pass.
func (db *DB) hold(ctx context.Context, tx bun.IDB, d *action.Draft, c *checked, r *invocationRow) error {
	if c.denial != "" {
		denial, err := db.inTx(ctx, tx, d.Organization, string(c.denial))
		if err != nil {
			return err
		}
		r.refuse(action.DeniedRepeated, denial.DeniedNote)
		return nil
	}
	if d.DenialLimit > 0 && c.denials.Int64 >= int64(d.DenialLimit) {
		r.refuse(action.DeniedOften, opt(fmt.Sprintf("People denied this action %d times in this session, so that nobody is asked for it any more. "+
			"Do something else, or ask the user what to do.", c.denials.Int64)))
		return nil
	}
	if d.MaxPending > 0 && c.pending.Int64 >= int64(d.MaxPending) {
		return action.NewError("too_many_pending", c.pending.Int64)
	}
	return nil
}

// refuse turns the row of a call that would wait into one that was denied.
func (r *invocationRow) refuse(reason, note opt) {
	r.Status, r.DeniedReason, r.DeniedNote = string(action.StatusDenied), reason, note
	r.CompletedAt, r.ExpiresAt, r.SealedParams = r.CreatedAt, stamp{}, nil
}
