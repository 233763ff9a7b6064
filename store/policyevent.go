package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type policyEventRow struct {
	bun.BaseModel `bun:"table:policy_events"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Kind         string `bun:"kind"`
	Subject      string `bun:"subject"`
	By           string `bun:"by"`
	At           stamp  `bun:"at"`
	Before       string `bun:"before"`
	After        string `bun:"after"`
}

// recordChange writes down who changed policy, and from what to what. It
// belongs into the transaction of the change. Nil before or after: there was,
// or is, nothing.
func (db *DB) recordChange(ctx context.Context, tx bun.IDB, e action.PolicyEvent, before, after any) (err error) {
	if e.ID, err = newID(); err != nil {
		return err
	}
	was, err := json.Marshal(before)
	if err != nil {
		return fmt.Errorf("recording a change of policy: %w", err)
	}
	is, err := json.Marshal(after)
	if err != nil {
		return fmt.Errorf("recording a change of policy: %w", err)
	}
	_, err = tx.NewInsert().Model(&policyEventRow{
		ID: e.ID, Organization: e.Organization, Kind: e.Kind, Subject: e.Subject, By: e.By, At: at(db.now()),
		Before: string(was), After: string(is),
	}).Exec(ctx)
	if err != nil {
		return fmt.Errorf("recording a change of policy: %w", err)
	}
	return nil
}
