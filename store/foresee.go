package store

import (
	"context"
	"errors"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// Foresee implements [action.Ledger]. It asks what Begin asks, and of the same
// connection.
func (db *DB) Foresee(ctx context.Context, d *action.Draft) (refused, note string, err error) {
	r, err := newRow(d)
	if err != nil {
		return "", "", err
	}
	err = db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
		row := *r
		c, err := db.check(ctx, tx, d, row.CreatedAt.t)
		if err != nil {
			return err
		}
		err = db.hold(ctx, tx, d, c, &row)
		refused, note = string(row.DeniedReason), string(row.DeniedNote)
		return err
	}})
	if e := action.Public(err); errors.Is(err, action.ErrTooMany) {
		return e.Code, e.Message, nil
	}
	return refused, note, err
}
