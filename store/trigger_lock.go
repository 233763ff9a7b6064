package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// TriggerLock returns a trigger, enabled or not, with its secrets that have not
// expired, by its id alone, which is all that a URL has; ErrNotFound.
func (db *DB) TriggerLock(ctx context.Context, id string) (event.Lock, error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	t, err := one[event.Trigger](ctx, db.read.NewSelect().Model((*triggerRow)(nil)).Where("id = ?", id), noTrigger())
	if err != nil {
		return event.Lock{}, err
	}
	return db.lockOf(ctx, t)
}

func (db *DB) lockOf(ctx context.Context, t event.Trigger) (event.Lock, error) {
	secrets, err := db.secrets(ctx, db.read, t.Organization, t.ID)
	return event.Lock{Trigger: t, Secrets: secrets}, err
}

// AutomationLock returns the one webhook trigger of a provider that an
// automation has, by the automation's id alone; ErrNotFound also when there are
// several, or several automations of the id: a guess would be somebody else's.
func (db *DB) AutomationLock(ctx context.Context, automation, provider string) (event.Lock, error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	n, err := db.read.NewSelect().Table("automations").Where("id = ?", automation).Count(ctx)
	if err != nil {
		return event.Lock{}, fmt.Errorf("looking for automation %s: %w", automation, err)
	}
	if n != 1 {
		return event.Lock{}, noTrigger()
	}
	found, err := list[event.Trigger](ctx, webhooksOf(db.read, automation, provider))
	if err != nil {
		return event.Lock{}, err
	}
	if len(found) != 1 {
		return event.Lock{}, noTrigger()
	}
	return db.lockOf(ctx, found[0])
}

// webhooksOf finds the webhook triggers of an automation, or two of them.
func webhooksOf(db bun.IDB, automation, provider string) *bun.SelectQuery {
	return db.NewSelect().Model((*triggerRow)(nil)).Where("automation_id = ?", automation).Where("provider = ?", provider).
		Where("kind = ?", string(event.Webhooks)).Limit(2)
}

// ActiveTriggers returns an organization's enabled triggers of a provider, those
// of disabled automations too, in no order.
func (db *DB) ActiveTriggers(ctx context.Context, organization, provider string) ([]event.Trigger, error) {
	return list[event.Trigger](ctx, activeTriggers(db.read, organization, provider))
}

func activeTriggers(db bun.IDB, organization, provider string) *bun.SelectQuery {
	return rowsOf[triggerRow](db, organization).Where("provider = ?", provider).Where("enabled = ?", true)
}

// UnverifiedEvents tells whether events that a broker did not verify may start
// something in the organization.
func (db *DB) UnverifiedEvents(ctx context.Context, organization string) (bool, error) {
	s, err := db.Settings(ctx, organization)
	return s.UnverifiedEvents, err
}
