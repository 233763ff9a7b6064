package inbound

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
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/policy"
)

// maxAutomations is how many an organization may have.
const maxAutomations = 200

const maxInstructionBytes = 2000 // bytes of instructions in history

type AutomationRow struct {
	bun.BaseModel `bun:"table:automations,alias:a"`
	event.Automation
}

func (r *AutomationRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventAutomation, Subject: r.ID, By: by}
}

// Snapshot has the beginning of long instructions, and a hash that shows whether
// the rest changed.
func (r *AutomationRow) Snapshot() any {
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
		r.ID, r.Name, r.Enabled, strings.ToValidUTF8(r.Instructions[:min(len(r.Instructions), maxInstructionBytes)], ""), hex.EncodeToString(sum[:]),
		r.CreatedBy, r.CreatedAt,
	}
}

// CreateAutomation writes one and returns it as it is stored, with an id when
// none was said. ErrConflict when its name is another's name or id; ErrTooMany.
func (st *Store) CreateAutomation(ctx context.Context, a event.Automation) (event.Automation, error) {
	r := &AutomationRow{Automation: a}
	if err := history.First(database.EnsureID(&r.ID), action.FromEventCheck(r.Check())); err != nil {
		return event.Automation{}, err
	}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := r.checkUnique(ctx, tx); err != nil {
			return err
		}
		return st.history.Create(ctx, tx, r, r.CreatedBy, maxAutomations)
	})
	return r.Automation, err
}

// checkUnique keeps names and ids apart: either finds an automation.
func (r *AutomationRow) checkUnique(ctx context.Context, tx bun.Tx) error {
	other, err := database.Exists(ctx, tx.NewSelect().Table("automations").ColumnExpr("1").Where("organization_id = ?", r.Organization).
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
func (st *Store) Automation(ctx context.Context, organization, ref string) (event.Automation, error) {
	return database.One[event.Automation](ctx, database.RowsOf[AutomationRow](st.db.Read, organization).Where("? IN (id, name)", ref), automationNotFound(ref))
}

// readAutomation reads the automation of an id; ErrNotFound.
func readAutomation(ctx context.Context, db bun.IDB, organization, id string) (AutomationRow, error) {
	return database.One[AutomationRow](ctx, database.RowsOf[AutomationRow](db, organization).Where("id = ?", id), automationNotFound(id))
}

func automationNotFound(ref string) error {
	return action.NewError("automation_not_found", ref)
}

// AutomationNames returns the names of the organization's automations, by id.
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

// UpdateAutomation writes Name, Enabled and Instructions, and returns the row;
// ErrNotFound, or ErrConflict when the name is another's name or id.
func (st *Store) UpdateAutomation(ctx context.Context, a event.Automation, by string) (event.Automation, error) {
	var r AutomationRow
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = readAutomation(ctx, tx, a.Organization, a.ID); err != nil {
			return err
		}
		old := r
		r.Name, r.Enabled, r.Instructions = a.Name, a.Enabled, a.Instructions
		if err := r.checkChange(ctx, tx, &old); err != nil {
			return err
		}
		return st.history.Update(ctx, tx, &old, &r, by)
	})
	return r.Automation, err
}

// checkChange looks at what is new only: an automation that was made before
// there were rules can be disabled all the same.
func (r *AutomationRow) checkChange(ctx context.Context, tx bun.Tx, old *AutomationRow) error {
	if r.Name == old.Name && r.Instructions == old.Instructions {
		return nil
	}
	return history.First(action.FromEventCheck(r.Check()), r.checkUnique(ctx, tx))
}

// codeAutomationDeleted is why a run did not begin whose automation went.
const codeAutomationDeleted = "automation_deleted"

// DeleteAutomation removes one with its triggers, schedules, overrides and
// bindings; its runs that nobody has yet are skipped. ErrNotFound, or
// ErrConflict while a run is worked on. What its events and runs were stays.
func (st *Store) DeleteAutomation(ctx context.Context, organization, id, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := lockAutomation(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if err := st.deleteTriggers(ctx, tx, r, by); err != nil {
			return err
		}
		if err := st.deleteSchedules(ctx, tx, r, by); err != nil {
			return err
		}
		if err := st.skipQueuedRuns(ctx, tx, r); err != nil {
			return err
		}
		if err := st.deletePolicy(ctx, tx, r, by); err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, r, by)
	})
}

// lockAutomation reads one that goes. Who writes events holds it until their
// runs are there, to be skipped with the others; no event comes afterwards.
func lockAutomation(ctx context.Context, tx bun.Tx, organization, id string) (*AutomationRow, error) {
	q := database.RowsOf[AutomationRow](tx, organization).Where("id = ?", id)
	if database.Shared(tx) {
		q = q.For("UPDATE")
	}
	r, err := database.One[AutomationRow](ctx, q, automationNotFound(id))
	return &r, err
}

func (st *Store) deleteTriggers(ctx context.Context, tx bun.Tx, a *AutomationRow, by string) error {
	rows, err := database.List[TriggerRow](ctx, SelectTriggers(tx, a.Organization, a.ID))
	if err != nil {
		return err
	}
	for i := range rows {
		if err := st.deleteTrigger(ctx, tx, &rows[i], by); err != nil {
			return err
		}
	}
	return nil
}

func (st *Store) deleteSchedules(ctx context.Context, tx bun.Tx, a *AutomationRow, by string) error {
	rows, err := database.List[ScheduleRow](ctx, SelectSchedules(tx, a.Organization, a.ID))
	if err != nil {
		return err
	}
	for i := range rows {
		if err := st.history.Remove(ctx, tx, &rows[i], by); err != nil {
			return err
		}
	}
	return nil
}

// skipQueuedRuns skips runs that nobody has. What looks for others afterwards sees
// those that somebody took, or gave back, in this moment.
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
		return fmt.Errorf("looking for runs of automation %s: %w", a.ID, err)
	}
	if busy {
		return action.NewError("automation_busy")
	}
	for batch := range slices.Chunk(skipped, database.MaxIDsPerStatement) {
		_, err := tx.NewUpdate().Table("outbox").Set("status = ?, delivered_at = ?, holder = NULL, lease_until = NULL", string(event.ParcelVoid), now).
			Where("run_id IN (?)", bun.List(batch)).Where("status IN ('pending', 'sending')").Exec(ctx)
		if err != nil {
			return fmt.Errorf("taking back the runs of automation %s: %w", a.ID, err)
		}
	}
	return nil
}

// deletePolicy removes what the automation's runs may do: another one must not
// come by it.
func (st *Store) deletePolicy(ctx context.Context, tx bun.Tx, a *AutomationRow, by string) error {
	n, err := history.RemoveAll[policy.OverrideRow](ctx, st.history, tx, a.Organization, "automation_id", a.ID, by)
	if err != nil {
		return err
	}
	if n > 0 {
		if _, err := history.PolicyMoved(ctx, tx, a.Organization); err != nil {
			return err
		}
	}
	return st.connect.ReplaceBindings(ctx, tx, a.Organization, a.ID, nil, by)
}
