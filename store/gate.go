package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

const (
	// maxGates is how many approvals of gates are listed.
	maxGates = 1000
	// gateHolds is how long an approval holds when nobody says so: none is for
	// ever, as every decision looks at all that are open.
	gateHolds = 30 * 24 * time.Hour
)

type gateRow struct {
	bun.BaseModel `bun:"table:gate_approvals"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Group        string `bun:"group_id"`
	Task         string `bun:"task_id"`
	Gate         string `bun:"gate"`
	ApprovedBy   string `bun:"approved_by"`
	ApprovedAt   stamp  `bun:"approved_at"`
	ExpiresAt    stamp  `bun:"expires_at"`
	RevokedAt    stamp  `bun:"revoked_at"`
	Actions      texts  `bun:"actions"`
}

func (r *gateRow) gate() action.GateApproval {
	return action.GateApproval{
		ID: r.ID, Organization: r.Organization, Group: r.Group, Task: r.Task, Gate: r.Gate, Actions: r.Actions,
		ApprovedBy: r.ApprovedBy, ApprovedAt: r.ApprovedAt.t, ExpiresAt: r.ExpiresAt.ptr(), RevokedAt: r.RevokedAt.ptr(),
	}
}

func (r *gateRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventGate, Subject: r.ID, By: by}
}

// ApproveGate lets a group's task through a gate, and returns the approval
// with its id and time, and its end: without one, in 30 days. An action of a
// connector must be of one that exists (ErrNotFound).
func (db *DB) ApproveGate(ctx context.Context, a action.GateApproval) (action.GateApproval, error) {
	keys, err := a.Check(db.now())
	if err != nil {
		return action.GateApproval{}, err
	}
	id, err := newID()
	if err != nil {
		return action.GateApproval{}, err
	}
	now := db.now()
	r := &gateRow{
		ID: id, Organization: a.Organization, Group: a.Group, Task: a.Task, Gate: a.Gate, Actions: a.Actions,
		ApprovedBy: a.ApprovedBy, ApprovedAt: at(now), ExpiresAt: atPtr(a.ExpiresAt).or(at(now.Add(gateHolds))),
	}
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		for _, key := range keys {
			if err := checkSource(ctx, tx, a.Organization, key.Source); err != nil {
				return err
			}
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("approving gate %s: %w", a.Gate, err)
		}
		return db.policyChanged(ctx, tx, r.event(a.ApprovedBy), nil, r.gate())
	})
	if err != nil {
		return action.GateApproval{}, err
	}
	return r.gate(), nil
}

// RevokeGate takes an approval back, with effect on the next call;
// ErrNotFound. A second time changes nothing.
func (db *DB) RevokeGate(ctx context.Context, organization, id, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r := &gateRow{ID: id}
		err := tx.NewSelect().Model(r).WherePK().Where("organization_id = ?", organization).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return action.Errorf(action.ErrNotFound, "gate_not_found", "There is no such approval of a gate.")
		}
		if err != nil {
			return fmt.Errorf("reading the approval of gate %s: %w", id, err)
		}
		if r.RevokedAt.ptr() != nil {
			return nil
		}
		was := r.gate()
		r.RevokedAt = at(db.now())
		if _, err := tx.NewUpdate().Model(r).Column("revoked_at").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("revoking the approval of gate %s: %w", id, err)
		}
		return db.policyChanged(ctx, tx, r.event(by), was, r.gate())
	})
}

// ListGates returns the newest 1000 approvals of gates, newest first; with a
// group or task, of its. Those that are revoked or expired are among them, and
// older ones are left out without notice.
func (db *DB) ListGates(ctx context.Context, organization, group, task string) ([]action.GateApproval, error) {
	var rows []gateRow
	if err := gates(db.read, organization, group, task).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing approvals of gates: %w", err)
	}
	return gateApprovals(rows), nil
}

func gates(db bun.IDB, organization, group, task string) *bun.SelectQuery {
	q := db.NewSelect().Model((*gateRow)(nil)).Where("organization_id = ?", organization)
	switch {
	case task != "" && group != "":
		// As an expression, so that the index of tasks is taken: a group has
		// many, a task is of few groups.
		q = q.Where("task_id = ?", task).Where("group_id || '' = ?", group)
	case task != "":
		q = q.Where("task_id = ?", task)
	case group != "":
		q = q.Where("group_id = ?", group)
	}
	return q.Order("approved_at DESC", "id DESC").Limit(maxGates)
}

// openGates are those that are neither revoked nor expired.
func openGates(db bun.IDB, organization string, now stamp) *bun.SelectQuery {
	return db.NewSelect().Model((*gateRow)(nil)).Where("organization_id = ?", organization).
		Where("revoked_at IS NULL").Where("expires_at > ?", now)
}

func gateApprovals(rows []gateRow) []action.GateApproval {
	list := make([]action.GateApproval, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].gate())
	}
	return list
}
