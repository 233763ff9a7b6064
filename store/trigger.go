package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// MaxTriggers is how many an organization may have.
const MaxTriggers = 500

type triggerRow struct {
	bun.BaseModel `bun:"table:triggers,alias:t"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Automation   string `bun:"automation_id"`
	Name         string `bun:"name"`
	Kind         string `bun:"kind"`
	Provider     string `bun:"provider"`
	Type         string `bun:"type"`
	Enabled      bool   `bun:"enabled"`
	Config       string `bun:"config"`
	Integration  opt    `bun:"integration_id"`
	PollSeconds  int    `bun:"poll_seconds,nullzero"`
	CreatedBy    string `bun:"created_by"`
	CreatedAt    stamp  `bun:"created_at"`
	UpdatedAt    stamp  `bun:"updated_at"`
	LastEventAt  stamp  `bun:"last_event_at"`
}

func (r *triggerRow) trigger() event.Trigger {
	return event.Trigger{
		ID: r.ID, Organization: r.Organization, Automation: r.Automation, Name: r.Name, Kind: event.TriggerKind(r.Kind), Provider: r.Provider,
		Type: r.Type, Enabled: r.Enabled, Config: []byte(r.Config), Integration: string(r.Integration), PollSeconds: r.PollSeconds,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.t, UpdatedAt: r.UpdatedAt.t, LastEventAt: r.LastEventAt.ptr(),
	}
}

// told is what history says of a trigger.
func (r *triggerRow) told() any {
	if r == nil {
		return nil
	}
	t := r.trigger()
	t.LastEventAt = nil
	return struct {
		event.Trigger
		Config json.RawMessage `json:"config"`
	}{t, t.Config}
}

func (r *triggerRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventTrigger, Subject: r.ID, By: by}
}

// CreateTrigger writes one with its first secret, which a polling one has not,
// and returns it as it is stored, with an id when none was said. ErrNotFound when
// the organization has no such automation; ErrTooMany.
func (db *DB) CreateTrigger(ctx context.Context, t event.Trigger, secret *event.Secret) (event.Trigger, error) {
	r, err := db.newTriggerRow(&t)
	if err != nil {
		return event.Trigger{}, err
	}
	if secret != nil && t.Kind == event.Polling {
		return event.Trigger{}, invalid("/secret", "Nobody posts to a trigger that polls; leave the secret out.")
	}
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := automationRowOf(ctx, tx, r.Organization, r.Automation, false); err != nil {
			return err
		}
		if err := r.checkIntegration(ctx, tx, r.CreatedBy); err != nil {
			return err
		}
		if err := checkCount(ctx, tx, r.Organization, "triggers", MaxTriggers); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing trigger %s: %w", r.ID, err)
		}
		if secret != nil {
			if err := db.addSecret(ctx, tx, r.Organization, r.ID, *secret); err != nil {
				return err
			}
		}
		if err := db.pollsMoved(ctx, tx, r); err != nil {
			return err
		}
		return db.recordChange(ctx, tx, r.event(r.CreatedBy), nil, r.told())
	})
	if err != nil {
		return event.Trigger{}, err
	}
	return r.trigger(), nil
}

func (db *DB) newTriggerRow(t *event.Trigger) (*triggerRow, error) {
	now := at(db.now())
	r := &triggerRow{
		ID: t.ID, Organization: t.Organization, Automation: t.Automation, Name: t.Name, Kind: string(t.Kind), Provider: t.Provider, Type: t.Type,
		Enabled: t.Enabled, Config: string(t.Config), Integration: opt(t.Integration), PollSeconds: t.PollSeconds,
		CreatedBy: t.CreatedBy, CreatedAt: at(t.CreatedAt).or(now), UpdatedAt: now,
	}
	return r, first(idOr(&r.ID), r.check())
}

// Trigger returns one; ErrNotFound.
func (db *DB) Trigger(ctx context.Context, organization, id string) (event.Trigger, error) {
	r, err := triggerRowOf(ctx, db.read, organization, id)
	if err != nil {
		return event.Trigger{}, err
	}
	return r.trigger(), nil
}

func triggerRowOf(ctx context.Context, db bun.IDB, organization, id string) (*triggerRow, error) {
	return findTrigger(ctx, db.NewSelect().Model((*triggerRow)(nil)).Where("id = ?", id).Where("organization_id = ?", organization))
}

// findTrigger returns the row that a query finds; ErrNotFound.
func findTrigger(ctx context.Context, q *bun.SelectQuery) (*triggerRow, error) {
	r := &triggerRow{}
	err := q.Scan(ctx, r)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noTrigger()
	}
	if err != nil {
		return nil, fmt.Errorf("reading a trigger: %w", err)
	}
	return r, nil
}

func noTrigger() error {
	return action.Errorf(action.ErrNotFound, "trigger_not_found", "There is no such trigger; list the triggers to see which there are.")
}

// ListTriggers returns those of an automation, or with an empty one all of the
// organization, first come first.
func (db *DB) ListTriggers(ctx context.Context, organization, automation string) ([]event.Trigger, error) {
	return listTriggers(ctx, triggersOf(db.read, organization, automation))
}

func triggersOf(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return ofAutomation(db.NewSelect().Model((*triggerRow)(nil)), organization, automation)
}

// ofAutomation cuts a list to what belongs to an automation, unless that is
// empty.
func ofAutomation(q *bun.SelectQuery, organization, automation string) *bun.SelectQuery {
	q = q.Where("organization_id = ?", organization)
	if automation != "" {
		q = q.Where("automation_id = ?", automation)
	}
	return q.Order("created_at", "id")
}

func listTriggers(ctx context.Context, q *bun.SelectQuery) ([]event.Trigger, error) {
	var rows []triggerRow
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing triggers: %w", err)
	}
	list := make([]event.Trigger, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].trigger())
	}
	return list, nil
}
