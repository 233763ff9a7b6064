package store

import (
	"context"
	"encoding/json"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// MaxTriggers is how many an organization may have.
const MaxTriggers = 500

type triggerRow struct {
	bun.BaseModel `bun:"table:triggers,alias:t"`
	event.Trigger
}

func (r *triggerRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventTrigger, Subject: r.ID, By: by}
}

func (r *triggerRow) snapshot() any {
	t := r.Trigger
	t.LastEventAt = nil
	return struct {
		event.Trigger
		Config json.RawMessage `json:"config"`
	}{t, t.Config}
}

// CreateTrigger writes one with its first secret, which a polling one has not,
// and returns it as it is stored, with an id when none was said. ErrNotFound when
// the organization has no such automation; ErrTooMany.
func (db *DB) CreateTrigger(ctx context.Context, t event.Trigger, secret *event.Secret) (event.Trigger, error) {
	r := &triggerRow{Trigger: t}
	r.LastEventAt = nil
	if err := first(idOr(&r.ID), action.Fault(r.Check())); err != nil {
		return event.Trigger{}, err
	}
	if secret != nil && t.Kind == event.Polling {
		return event.Trigger{}, invalid("/secret", "Nobody posts to a trigger that polls; leave the secret out.")
	}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := automationOf(ctx, tx, r.Organization, r.Automation); err != nil {
			return err
		}
		if err := r.checkIntegration(ctx, tx, r.CreatedBy); err != nil {
			return err
		}
		if err := db.create(ctx, tx, r, r.CreatedBy, MaxTriggers); err != nil {
			return err
		}
		if secret != nil {
			if err := db.addSecret(ctx, tx, r.Organization, r.ID, *secret); err != nil {
				return err
			}
		}
		return db.pollsMoved(ctx, tx, &r.Trigger)
	})
	return r.Trigger, err
}

// Trigger returns one; ErrNotFound.
func (db *DB) Trigger(ctx context.Context, organization, id string) (event.Trigger, error) {
	r, err := triggerOf(ctx, db.read, organization, id)
	return r.Trigger, err
}

func triggerOf(ctx context.Context, db bun.IDB, organization, id string) (triggerRow, error) {
	return one[triggerRow](ctx, rowsOf[triggerRow](db, organization).Where("id = ?", id), noTrigger())
}

func noTrigger() error {
	return action.NewError("trigger_not_found")
}

// ListTriggers returns those of an automation, or with an empty one all of the
// organization, first come first.
func (db *DB) ListTriggers(ctx context.Context, organization, automation string) ([]event.Trigger, error) {
	return list[event.Trigger](ctx, triggersOf(db.read, organization, automation))
}

func triggersOf(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return ofAutomation[triggerRow](db, organization, automation)
}

// ofAutomation selects what belongs to an automation, or with an empty one to the
// organization, first come first.
func ofAutomation[R any](db bun.IDB, organization, automation string) *bun.SelectQuery {
	q := rowsOf[R](db, organization)
	if automation != "" {
		q = q.Where("automation_id = ?", automation)
	}
	return q.Order("created_at", "id")
}
