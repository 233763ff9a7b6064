package inbound

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/policy"
	"sallyport/store/workspaces"
)

// A change of either would turn invalid requests into internal errors.
var _ action.FieldError = (*event.Invalid)(nil)

// maxAutomations limits the automations of an organization.
const maxAutomations = 200

const maxInstructionBytes = 2000 // maxInstructionBytes limits the instructions that a history event holds.

// AutomationRow is a row of the automations table.
type AutomationRow struct {
	bun.BaseModel `bun:"table:automations,alias:a"`
	event.Automation
}

// Event returns the history event of a change of the automation.
func (r *AutomationRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventAutomation, Subject: r.ID, By: by}
}

// Snapshot truncates long instructions and adds their hash, which shows whether
// the rest changed.
func (r *AutomationRow) Snapshot() any {
	sum := sha256.Sum256([]byte(r.Instructions))
	return struct {
		ID           string    `json:"id"`
		Name         string    `json:"name"`
		Enabled      bool      `json:"enabled"`
		Group        string    `json:"group,omitempty"`
		Instructions string    `json:"instructions"`
		Hash         string    `json:"instructions_sha256"`
		CreatedBy    string    `json:"created_by"`
		CreatedAt    time.Time `json:"created_at"`
		event.RunSettings
	}{
		r.ID, r.Name, r.Enabled, r.Group, strings.ToValidUTF8(r.Instructions[:min(len(r.Instructions), maxInstructionBytes)], ""), hex.EncodeToString(sum[:]),
		r.CreatedBy, r.CreatedAt, r.RunSettings,
	}
}

// CreateAutomation inserts an automation and returns it as stored. An empty ID
// is generated. ErrConflict if another automation has its name as name or ID;
// ErrTooMany.
func (st *Store) CreateAutomation(ctx context.Context, a event.Automation) (event.Automation, error) {
	r := &AutomationRow{Automation: a}
	if err := cmp.Or(database.EnsureID(&r.ID), action.FromEventCheck(r.Check()), action.CheckGroup("/group", r.Group)); err != nil {
		return event.Automation{}, err
	}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := cmp.Or(r.checkUnique(ctx, tx), r.resolve(ctx, tx)); err != nil {
			return err
		}
		return st.history.Create(ctx, tx, r, r.CreatedBy, maxAutomations)
	})
	return r.Automation, err
}

// checkUnique keeps names and IDs disjoint, because callers look up an
// automation by either.
func (r *AutomationRow) checkUnique(ctx context.Context, tx bun.Tx) error {
	other, err := database.Exists(ctx, tx.NewSelect().Table("automations").ColumnExpr("1").Where("organization_id = ?", r.Organization).
		Where("? IN (name, id) AND id <> ? OR name = ? AND id <> ?", r.Name, r.ID, r.ID, r.ID))
	if err != nil {
		return fmt.Errorf("reading other automations: %w", err)
	}
	if other {
		return action.NewError("automation_exists").WithField("/name")
	}
	return nil
}

// resolve replaces the name of the workspace by its ID, and checks that the people to
// tell exist.
func (r *AutomationRow) resolve(ctx context.Context, tx bun.Tx) error {
	if len(r.Tell) == 0 {
		r.Tell = nil // the column has no empty list
	}
	if r.Workspace != "" {
		w, err := database.One[workspaces.WorkspaceRow](ctx, database.RowsOf[workspaces.WorkspaceRow](tx, r.Organization).Column("id").Where("? IN (id, name)", r.Workspace),
			action.NewError("workspace_not_found", r.Workspace).WithField("/workspace"))
		if err != nil {
			return err
		}
		r.Workspace = w.ID
	}
	for i, id := range r.Tell {
		known, err := database.Exists(ctx, tx.NewSelect().Table("users").ColumnExpr("1").Where("organization_id = ?", r.Organization).Where("id = ?", id))
		if err != nil {
			return fmt.Errorf("reading user %s: %w", id, err)
		}
		if !known {
			return action.NewError("user_not_found").WithField(fmt.Sprintf("/tell/%d", i))
		}
	}
	return nil
}

// Automation returns an automation by its ID or name; ErrNotFound.
func (st *Store) Automation(ctx context.Context, organization, ref string) (event.Automation, error) {
	return database.One[event.Automation](ctx, database.RowsOf[AutomationRow](st.db.Read, organization).Where("? IN (id, name)", ref), automationNotFound(ref))
}

// readAutomation reads an automation by its ID; ErrNotFound.
func readAutomation(ctx context.Context, db bun.IDB, organization, id string) (AutomationRow, error) {
	return database.One[AutomationRow](ctx, database.RowsOf[AutomationRow](db, organization).Where("id = ?", id), automationNotFound(id))
}

func automationNotFound(ref string) error {
	return action.NewError("automation_not_found", ref)
}

// AutomationNames returns the names of the organization's automations by ID.
func (st *Store) AutomationNames(ctx context.Context, organization string) (map[string]string, error) {
	rows, err := database.List[AutomationRow](ctx, database.RowsOf[AutomationRow](st.db.Read, organization).Column("id", "name"))
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
func (st *Store) ListAutomations(ctx context.Context, organization string) ([]event.Automation, error) {
	all, err := database.List[event.Automation](ctx, database.RowsOf[AutomationRow](st.db.Read, organization).ExcludeColumn("instructions").Order("name"))
	slices.SortStableFunc(all, func(a, b event.Automation) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return all, err
}

// UpdateAutomation writes Name, Enabled, Instructions and Group, and returns the row.
// ErrNotFound; ErrConflict if another automation has the name as name or ID.
func (st *Store) UpdateAutomation(ctx context.Context, a event.Automation, by string) (event.Automation, error) {
	var r AutomationRow
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = readAutomation(ctx, tx, a.Organization, a.ID); err != nil {
			return err
		}
		old := r
		r.Name, r.Enabled, r.Instructions, r.Group, r.RunSettings = a.Name, a.Enabled, a.Instructions, a.Group, a.RunSettings
		if err := r.resolve(ctx, tx); err != nil {
			return err
		}
		// Only new values are validated, so that an automation from before a rule can
		// still be disabled.
		if r.Name != old.Name || r.Instructions != old.Instructions || r.Group != old.Group || !reflect.DeepEqual(r.RunSettings, old.RunSettings) {
			if err := cmp.Or(action.FromEventCheck(r.Check()), action.CheckGroup("/group", r.Group), r.checkUnique(ctx, tx)); err != nil {
				return err
			}
		}
		return st.history.Update(ctx, tx, &old, &r, by)
	})
	return r.Automation, err
}

// codeAutomationDeleted is the code of runs that were skipped because their
// automation was deleted.
const codeAutomationDeleted = "automation_deleted"

// DeleteAutomation deletes an automation with its triggers, schedules,
// overrides and bindings, and skips its queued runs. Its events and runs stay.
// ErrNotFound; ErrConflict while a worker has one of its runs.
func (st *Store) DeleteAutomation(ctx context.Context, organization, id, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := lockAutomation(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		triggers, err := database.List[TriggerRow](ctx, SelectTriggers(tx, organization, id))
		if err != nil {
			return err
		}
		for i := range triggers {
			if err := st.deleteTrigger(ctx, tx, &triggers[i], by); err != nil {
				return err
			}
		}
		schedules, err := database.List[ScheduleRow](ctx, SelectSchedules(tx, organization, id))
		if err != nil {
			return err
		}
		for i := range schedules {
			if err := st.history.Remove(ctx, tx, &schedules[i], by); err != nil {
				return err
			}
		}
		if err := st.skipQueuedRuns(ctx, tx, r); err != nil {
			return err
		}
		// A later automation with the same ID must not inherit overrides and bindings.
		n, err := history.RemoveAll[policy.OverrideRow](ctx, st.history, tx, organization, "automation_id", id, by)
		if err != nil {
			return err
		}
		if n > 0 {
			if _, err := history.BumpPolicyVersion(ctx, tx, organization); err != nil {
				return err
			}
		}
		if err := st.connect.ReplaceBindings(ctx, tx, organization, id, nil, by); err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, r, by)
	})
}

// lockAutomation reads and locks the automation to delete. A transaction that
// writes events holds it until its runs are inserted, so the deletion skips
// those runs too, and no event is added afterwards.
func lockAutomation(ctx context.Context, tx bun.Tx, organization, id string) (*AutomationRow, error) {
	q := database.RowsOf[AutomationRow](tx, organization).Where("id = ?", id)
	if database.Shared(tx) {
		q = q.For("UPDATE")
	}
	r, err := database.One[AutomationRow](ctx, q, automationNotFound(id))
	return &r, err
}

// skipQueuedRuns skips the queued runs of an automation. The check for other
// runs comes second, so that it sees runs that were claimed or released
// meanwhile.
func (st *Store) skipQueuedRuns(ctx context.Context, tx bun.Tx, a *AutomationRow) error {
	now := database.NewTimestamp(st.db.Now())
	var skipped []string
	err := tx.NewUpdate().Table("runs").Set("status = ?, completed_at = ?, code = ?", string(event.RunSkipped), now, codeAutomationDeleted).
		Where("organization_id = ?", a.Organization).Where("automation_id = ?", a.ID).Where("status = ?", string(event.RunQueued)).
		Returning("id").Scan(ctx, &skipped)
	if err != nil {
		return fmt.Errorf("skipping the runs of automation %s: %w", a.ID, err)
	}
	busy, err := database.Exists(ctx, tx.NewSelect().Table("runs").ColumnExpr("1").
		Where("organization_id = ?", a.Organization).Where("automation_id = ?", a.ID).Where("claim_id IS NOT NULL OR status = ?", string(event.RunQueued)))
	if err != nil {
		return fmt.Errorf("reading the runs of automation %s: %w", a.ID, err)
	}
	if busy {
		return action.NewError("automation_busy")
	}
	for batch := range slices.Chunk(skipped, database.MaxIDsPerStatement) {
		_, err := tx.NewUpdate().Table("outbox").Set("status = ?, delivered_at = ?, holder = NULL, lease_until = NULL", string(event.DeliveryVoid), now).
			Where("run_id IN (?)", bun.List(batch)).Where("status IN ('pending', 'sending')").Exec(ctx)
		if err != nil {
			return fmt.Errorf("cancelling the runs of automation %s: %w", a.ID, err)
		}
	}
	return nil
}
