package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// maxBindings is how many integrations a session, or an automation, may name.
const maxBindings = 50

type bindingRow struct {
	bun.BaseModel `bun:"table:automation_connections"`

	Organization string `bun:"organization_id,pk"`
	Automation   string `bun:"automation_id,pk"`
	Integration  string `bun:"integration_id,pk"` // or action.AllConnections
}

// checkConnections refuses what cannot be bound: integrations that viewer does
// not see, those that a user made in his own name, and, where others may use
// what is bound, private ones.
func checkConnections(ctx context.Context, tx bun.Tx, organization, viewer string, ids []string, shared bool) error {
	if len(ids) == 0 || slices.Equal(ids, []string{action.AllConnections}) {
		return nil
	}
	if len(ids) > maxBindings {
		return invalid(fmt.Sprintf("/connections/%d", maxBindings), fmt.Sprintf(`At most %d integrations are named; leave some out, or give "all" alone.`, maxBindings))
	}
	there, err := list[action.Integration](ctx, visibleIntegrations(tx, organization, viewer).Where("id IN (?)", bun.List(ids)))
	if err != nil {
		return err
	}
	for i, id := range ids {
		if fault := bindingFault(there, ids[:i], id, shared); fault != "" {
			return invalid(fmt.Sprintf("/connections/%d", i), fault)
		}
	}
	return nil
}

// bindingFault tells why an integration cannot be named after those before it;
// empty: it can.
func bindingFault(there []action.Integration, before []string, id string, shared bool) string {
	i := slices.IndexFunc(there, func(in action.Integration) bool { return in.ID == id })
	switch {
	case id == action.AllConnections:
		return `"all" stands alone; leave the others out, or this one.`
	case slices.Contains(before, id):
		return "This integration is in the list already; name each once."
	case i < 0:
		return "There is no such integration; list the integrations to see which there are."
	case there[i].User != "":
		return "This is a user's own connection, which his interactive sessions use by themselves; leave it out."
	case shared && there[i].Owner() != "":
		return "This integration is private, and others edit automations, too; make it visible to the organization first."
	}
	return ""
}

// Bindings returns the ids of the integrations that an automation's sessions
// are bound to, or [action.AllConnections] alone. One that was disconnected, or
// is private by now, is not among them while it is so.
func (db *DB) Bindings(ctx context.Context, organization, automation string) ([]string, error) {
	list := []string{}
	if err := bindings(db.read, organization, automation).Scan(ctx, &list); err != nil {
		return nil, fmt.Errorf("reading the connections of automation %s: %w", automation, err)
	}
	return list, nil
}

func bindings(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("automation_connections AS b").ColumnExpr("b.integration_id").
		Where("b.organization_id = ?", organization).Where("b.automation_id = ?", automation).
		Where(`b.integration_id = ? OR EXISTS (SELECT 1 FROM integrations AS i WHERE i.id = b.integration_id
			AND i.organization_id = b.organization_id AND i.status <> 'deleted' AND i.holder = '')`, action.AllConnections).
		OrderExpr("b.integration_id")
}

// SetBindings replaces what an automation's sessions are bound to; ErrInvalid
// names one that by may not bind. Others edit automations, too: what is not
// everybody's cannot be bound to one.
func (db *DB) SetBindings(ctx context.Context, organization, automation string, ids []string, by string) error {
	if err := action.CheckName("/automation_id", "automation", automation); err != nil {
		return err
	}
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkConnections(ctx, tx, organization, by, ids, true); err != nil {
			return err
		}
		return db.replaceBindings(ctx, tx, organization, automation, ids, by)
	})
}

// replaceBindings writes what was checked.
func (db *DB) replaceBindings(ctx context.Context, tx bun.Tx, organization, automation string, ids []string, by string) error {
	var old []string
	err := tx.NewDelete().Model((*bindingRow)(nil)).Where("organization_id = ?", organization).Where("automation_id = ?", automation).
		Returning("integration_id").Scan(ctx, &old)
	if err != nil {
		return fmt.Errorf("deleting the connections of automation %s: %w", automation, err)
	}
	if err := insertBindings(ctx, tx, organization, automation, ids); err != nil {
		return err
	}
	was, is := slices.Sorted(slices.Values(old)), slices.Sorted(slices.Values(ids))
	if slices.Equal(was, is) {
		return nil
	}
	return db.recordChange(ctx, tx, action.PolicyEvent{
		Organization: organization, Kind: action.EventBinding, Subject: automation, By: by,
	}, was, is)
}

func insertBindings(ctx context.Context, tx bun.Tx, organization, automation string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	rows := make([]bindingRow, 0, len(ids))
	for _, id := range ids {
		rows = append(rows, bindingRow{Organization: organization, Automation: automation, Integration: id})
	}
	if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
		return fmt.Errorf("binding automation %s: %w", automation, err)
	}
	return nil
}
