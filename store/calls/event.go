package calls

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

type eventRow struct {
	bun.BaseModel `bun:"table:invocation_events"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Invocation   string              `bun:"invocation_id"`
	Kind         string              `bun:"kind"`
	By           database.NullString `bun:"by"`
	At           database.Timestamp  `bun:"at"`
	Data         string              `bun:"data"`
}

// AppendEvent writes e to the history of its invocation.
func (st *Store) AppendEvent(ctx context.Context, e action.Event) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := st.LoadInTx(ctx, tx, e.Organization, e.Invocation); err != nil {
			return err
		}
		return appendEvent(ctx, tx, &e)
	})
}

// appendEvent appends e and fills in its id. With the same id again, it is the
// same event.
func appendEvent(ctx context.Context, tx bun.IDB, e *action.Event) (err error) {
	if e.ID == "" {
		if e.ID, err = database.NewID(); err != nil {
			return err
		}
	}
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("{}")
	}
	_, err = tx.NewInsert().Model(&eventRow{
		ID: e.ID, Organization: e.Organization, Invocation: e.Invocation, Kind: e.Kind, By: database.NullString(e.By), At: database.NewTimestamp(e.At), Data: string(e.Data),
	}).On("CONFLICT (id) DO NOTHING").Exec(ctx)
	if err != nil {
		return fmt.Errorf("appending an event to invocation %s: %w", e.Invocation, err)
	}
	return nil
}

// Events returns the events of an invocation, oldest first.
func (st *Store) Events(ctx context.Context, organization, invocation string) ([]action.Event, error) {
	var rows []eventRow
	err := st.db.Read.NewSelect().Model(&rows).
		Where("organization_id = ?", organization).Where("invocation_id = ?", invocation).
		Order("at", "id").Limit(1000).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the events of invocation %s: %w", invocation, err)
	}
	events := make([]action.Event, 0, len(rows))
	for _, r := range rows {
		events = append(events, action.Event{
			ID: r.ID, Organization: r.Organization, Invocation: r.Invocation, Kind: r.Kind,
			By: string(r.By), At: r.At.Time, Data: json.RawMessage(r.Data),
		})
	}
	return events, nil
}
