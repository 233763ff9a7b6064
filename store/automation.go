package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// MaxAutomations is how many an organization may have.
const MaxAutomations = 200

const maxTold = 2000 // bytes of instructions in history

type automationRow struct {
	bun.BaseModel `bun:"table:automations,alias:a"`
	event.Automation
}

func (r *automationRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventAutomation, Subject: r.ID, By: by}
}

// snapshot has the beginning of long instructions, and a hash that shows whether
// the rest changed.
func (r *automationRow) snapshot() any {
	sum := sha256.Sum256([]byte(r.Instructions))
	return struct {
		ID           string    `json:"id"`
		Name         string    `json:"name"`
		Enabled      bool      `json:"enabled"`
		Instructions string    `json:"instructions"`
		Hash         string    `json:"instructions_sha256"`
		CreatedBy    string    `json:"created_by"`
		CreatedAt    time.Time `json:"created_at"`
	}{
		r.ID, r.Name, r.Enabled, strings.ToValidUTF8(r.Instructions[:min(len(r.Instructions), maxTold)], ""), hex.EncodeToString(sum[:]),
		r.CreatedBy, r.CreatedAt,
	}
}

// CreateAutomation writes one and returns it as it is stored, with an id when
// none was said. ErrConflict when its name is another's name or id; ErrTooMany.
func (db *DB) CreateAutomation(ctx context.Context, a event.Automation) (event.Automation, error) {
	r := &automationRow{Automation: a}
	if err := first(idOr(&r.ID), action.Fault(r.Check())); err != nil {
		return event.Automation{}, err
	}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := r.checkUnique(ctx, tx); err != nil {
			return err
		}
		return db.create(ctx, tx, r, r.CreatedBy, MaxAutomations)
	})
	return r.Automation, err
}

// checkUnique keeps names and ids apart: either finds an automation.
func (r *automationRow) checkUnique(ctx context.Context, tx bun.Tx) error {
	other, err := exists(ctx, tx.NewSelect().Table("automations").ColumnExpr("1").Where("organization_id = ?", r.Organization).
		Where("? IN (name, id) AND id <> ? OR name = ? AND id <> ?", r.Name, r.ID, r.ID, r.ID))
	if err != nil {
		return fmt.Errorf("looking for other automations: %w", err)
	}
	if other {
		return action.NewError("automation_exists").WithField("/name")
	}
	return nil
}

// Automation finds one by its id or name; ErrNotFound.
func (db *DB) Automation(ctx context.Context, organization, ref string) (event.Automation, error) {
	return one[event.Automation](ctx, rowsOf[automationRow](db.read, organization).Where("? IN (id, name)", ref), noAutomation(ref))
}

// automationOf reads the automation of an id; ErrNotFound.
func automationOf(ctx context.Context, db bun.IDB, organization, id string) (automationRow, error) {
	return one[automationRow](ctx, rowsOf[automationRow](db, organization).Where("id = ?", id), noAutomation(id))
}

func noAutomation(ref string) error {
	return action.NewError("automation_not_found", ref)
}

// AutomationNames returns the names of the organization's automations, by id.
func (db *DB) AutomationNames(ctx context.Context, organization string) (map[string]string, error) {
	rows, err := list[automationRow](ctx, rowsOf[automationRow](db.read, organization).Column("id", "name"))
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(rows))
	for i := range rows {
		names[rows[i].ID] = rows[i].Name
	}
	return names, nil
}

// ListAutomations returns the organization's automations by name, without their
// instructions.
func (db *DB) ListAutomations(ctx context.Context, organization string) ([]event.Automation, error) {
	all, err := list[event.Automation](ctx, rowsOf[automationRow](db.read, organization).ExcludeColumn("instructions").Order("name"))
	slices.SortStableFunc(all, func(a, b event.Automation) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return all, err
}

// UpdateAutomation writes Name, Enabled and Instructions, and returns the row;
// ErrNotFound, or ErrConflict when the name is another's name or id.
func (db *DB) UpdateAutomation(ctx context.Context, a event.Automation, by string) (event.Automation, error) {
	var r automationRow
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = automationOf(ctx, tx, a.Organization, a.ID); err != nil {
			return err
		}
		old := r
		r.Name, r.Enabled, r.Instructions = a.Name, a.Enabled, a.Instructions
		if err := r.checkChange(ctx, tx, &old); err != nil {
			return err
		}
		return db.update(ctx, tx, &old, &r, by)
	})
	return r.Automation, err
}

// checkChange looks at what is new only: an automation that was made before
// there were rules can be disabled all the same.
func (r *automationRow) checkChange(ctx context.Context, tx bun.Tx, old *automationRow) error {
	if r.Name == old.Name && r.Instructions == old.Instructions {
		return nil
	}
	return first(action.Fault(r.Check()), r.checkUnique(ctx, tx))
}
