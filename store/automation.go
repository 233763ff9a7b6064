package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
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

const (
	maxTitle        = 120      // characters of the name of what people set up to start runs
	maxInstructions = 64 << 10 // bytes
	maxTold         = 2000     // bytes of instructions in history
)

type automationRow struct {
	bun.BaseModel `bun:"table:automations,alias:a"`

	Organization string `bun:"organization_id,pk"`
	ID           string `bun:"id,pk"`
	Name         string `bun:"name"`
	Enabled      bool   `bun:"enabled"`
	Instructions string `bun:"instructions"`
	CreatedBy    string `bun:"created_by"`
	CreatedAt    stamp  `bun:"created_at"`
	UpdatedAt    stamp  `bun:"updated_at"`
}

func (r *automationRow) automation() event.Automation {
	return event.Automation{
		ID: r.ID, Organization: r.Organization, Name: r.Name, Enabled: r.Enabled, Instructions: r.Instructions,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.t, UpdatedAt: r.UpdatedAt.t,
	}
}

// told is what history says of an automation: of long instructions the
// beginning, and a hash that tells whether the rest changed.
func (r *automationRow) told() any {
	if r == nil {
		return nil
	}
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
		r.CreatedBy, r.CreatedAt.t,
	}
}

func (r *automationRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventAutomation, Subject: r.ID, By: by}
}

// CreateAutomation writes one and returns it as it is stored, with an id when
// none was said. ErrConflict when its name is another's name or id; ErrTooMany.
func (db *DB) CreateAutomation(ctx context.Context, a event.Automation) (event.Automation, error) {
	now := at(db.now())
	r := &automationRow{
		Organization: a.Organization, ID: a.ID, Name: a.Name, Enabled: a.Enabled, Instructions: a.Instructions,
		CreatedBy: a.CreatedBy, CreatedAt: at(a.CreatedAt).or(now), UpdatedAt: now,
	}
	if err := first(idOr(&r.ID), checkTitle("/name", "automation", r.Name), r.checkInstructions()); err != nil {
		return event.Automation{}, err
	}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := r.checkUnique(ctx, tx); err != nil {
			return err
		}
		if err := checkCount(ctx, tx, r.Organization, "automations", MaxAutomations); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing automation %s: %w", r.ID, err)
		}
		return db.recordChange(ctx, tx, r.event(r.CreatedBy), nil, r.told())
	})
	if err != nil {
		return event.Automation{}, err
	}
	return r.automation(), nil
}

// checkUnique keeps names and ids apart: either finds an automation.
func (r *automationRow) checkUnique(ctx context.Context, tx bun.Tx) error {
	other, err := exists(ctx, tx.NewSelect().Table("automations").ColumnExpr("1").Where("organization_id = ?", r.Organization).
		Where("? IN (name, id) AND id <> ? OR name = ? AND id <> ?", r.Name, r.ID, r.ID, r.ID))
	if err != nil {
		return fmt.Errorf("looking for other automations: %w", err)
	}
	if other {
		return &action.Error{
			Kind: action.ErrConflict, Code: "automation_exists", Field: "/name", Message: "There is an automation of this name already; choose another.",
		}
	}
	return nil
}

// Automation finds one by its id or name; ErrNotFound.
func (db *DB) Automation(ctx context.Context, organization, ref string) (event.Automation, error) {
	r, err := automationRowOf(ctx, db.read, organization, ref, true)
	if err != nil {
		return event.Automation{}, err
	}
	return r.automation(), nil
}

// automationRowOf reads the automation of an id, or also of a name; ErrNotFound.
func automationRowOf(ctx context.Context, db bun.IDB, organization, ref string, named bool) (*automationRow, error) {
	q := db.NewSelect().Model((*automationRow)(nil)).Where("organization_id = ?", organization)
	if named {
		return findAutomation(ctx, q.Where("? IN (id, name)", ref), ref)
	}
	return findAutomation(ctx, q.Where("id = ?", ref), ref)
}

// findAutomation returns the row that a query finds; ErrNotFound.
func findAutomation(ctx context.Context, q *bun.SelectQuery, ref string) (*automationRow, error) {
	r := &automationRow{}
	err := q.Scan(ctx, r)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, action.Errorf(action.ErrNotFound, "automation_not_found", "There is no automation %s; list the automations to see which there are.", ref)
	}
	if err != nil {
		return nil, fmt.Errorf("reading automation %s: %w", ref, err)
	}
	return r, nil
}

// AutomationNames returns the names of the organization's automations, by id.
func (db *DB) AutomationNames(ctx context.Context, organization string) (map[string]string, error) {
	var rows []automationRow
	if err := db.read.NewSelect().Model(&rows).Column("id", "name").Where("organization_id = ?", organization).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading the names of automations: %w", err)
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
	var rows []automationRow
	if err := db.read.NewSelect().Model(&rows).ExcludeColumn("instructions").Where("organization_id = ?", organization).Order("name").Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing automations: %w", err)
	}
	list := make([]event.Automation, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].automation())
	}
	slices.SortStableFunc(list, func(a, b event.Automation) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list, nil
}

// UpdateAutomation writes Name, Enabled and Instructions, and returns the row;
// ErrNotFound, or ErrConflict when the name is another's name or id.
func (db *DB) UpdateAutomation(ctx context.Context, a event.Automation, by string) (event.Automation, error) {
	var r *automationRow
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = automationRowOf(ctx, tx, a.Organization, a.ID, false); err != nil {
			return err
		}
		old := *r
		r.Name, r.Enabled, r.Instructions = a.Name, a.Enabled, a.Instructions
		if *r == old {
			return nil
		}
		if err := r.checkChange(ctx, tx, &old); err != nil {
			return err
		}
		r.UpdatedAt = at(db.now())
		if _, err := tx.NewUpdate().Model(r).Column("name", "enabled", "instructions", "updated_at").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("changing automation %s: %w", r.ID, err)
		}
		return db.recordChange(ctx, tx, r.event(by), old.told(), r.told())
	})
	if err != nil {
		return event.Automation{}, err
	}
	return r.automation(), nil
}

// checkChange looks at what is new only: an automation that was made before
// there were rules can be disabled all the same.
func (r *automationRow) checkChange(ctx context.Context, tx bun.Tx, old *automationRow) error {
	if r.Name != old.Name {
		if err := first(checkTitle("/name", "automation", r.Name), r.checkUnique(ctx, tx)); err != nil {
			return err
		}
	}
	return r.checkInstructions()
}
