package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// idOr gives what is new an id, unless it has one.
func idOr(id *string) (err error) {
	if *id == "" {
		*id, err = newID()
	}
	return err
}

// checkCount refuses one more row of a table than an organization may have.
func checkCount(ctx context.Context, tx bun.Tx, organization, table string, most int) error {
	n, err := tx.NewSelect().Table(table).Where("organization_id = ?", organization).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting %s: %w", table, err)
	}
	if int(n) >= most {
		return action.NewError("too_many_"+table, most)
	}
	return nil
}
