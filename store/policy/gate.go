package policy

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

const (
	// maxGates bounds the list of gate approvals.
	maxGates = 1000
	// defaultGateLifetime is the lifetime of an approval without an expiry. None is
	// unlimited, because every decision reads all open approvals.
	defaultGateLifetime = 30 * 24 * time.Hour
)

// GateRow is a row of the table gate_approvals.
type GateRow struct {
	bun.BaseModel `bun:"table:gate_approvals"`
	action.GateApproval
}

// Event implements [history.Recorded].
func (r *GateRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventGate, Subject: r.ID, By: by}
}

// Snapshot implements [history.Recorded].
func (r *GateRow) Snapshot() any { return r.GateApproval }

// ApproveGate approves a gate for a task of a group, and returns the approval with its
// id, time and expiry (default: in 30 days). The connector of an action must exist
// (ErrNotFound).
func (st *Store) ApproveGate(ctx context.Context, a action.GateApproval) (action.GateApproval, error) {
	keys, err := a.Check(st.db.Now())
	if err != nil {
		return action.GateApproval{}, err
	}
	r := &GateRow{GateApproval: a}
	if r.ID, err = database.NewID(); err != nil {
		return action.GateApproval{}, err
	}
	now := st.db.Now()
	r.ApprovedAt, r.ExpiresAt, r.RevokedAt = database.NewTimestamp(now).Time, database.TimestampFromPtr(a.ExpiresAt).Or(database.NewTimestamp(now.Add(defaultGateLifetime))).Ptr(), nil
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		for _, key := range keys {
			if err := checkSource(ctx, tx, a.Organization, key.Source); err != nil {
				return err
			}
		}
		return st.history.Create(ctx, tx, r, a.ApprovedBy, 0)
	})
	return r.GateApproval, err
}

// RevokeGate revokes an approval, with effect on the next call; ErrNotFound. Revoking
// it again changes nothing.
func (st *Store) RevokeGate(ctx context.Context, organization, id, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := database.One[GateRow](ctx, database.RowsOf[GateRow](tx, organization).Where("id = ?", id),
			action.NewError("gate_not_found"))
		if err != nil || r.RevokedAt != nil {
			return err
		}
		old := r
		r.RevokedAt = database.NewTimestamp(st.db.Now()).Ptr()
		return st.history.Update(ctx, tx, &old, &r, by)
	})
}

// ListGates returns the newest 1000 gate approvals, newest first, optionally of one
// group or task. It includes revoked and expired ones, and does not report whether
// there are older ones.
func (st *Store) ListGates(ctx context.Context, organization, group, task string) ([]action.GateApproval, error) {
	return database.List[action.GateApproval](ctx, GatesQuery(st.db.Read, organization, group, task))
}

// GatesQuery is the query of [Store.ListGates].
func GatesQuery(db bun.IDB, organization, group, task string) *bun.SelectQuery {
	q := database.RowsOf[GateRow](db, organization)
	switch {
	case task != "" && group != "":
		// The expression on group_id makes the planner choose the index on tasks: a
		// group has many tasks, a task few groups.
		q = q.Where("task_id = ?", task).Where("group_id || '' = ?", group)
	case task != "":
		q = q.Where("task_id = ?", task)
	case group != "":
		q = q.Where("group_id = ?", group)
	}
	return q.Order("approved_at DESC", "id DESC").Limit(maxGates)
}

// OpenGatesQuery are those that are neither revoked nor expired.
func OpenGatesQuery(db bun.IDB, organization string, now database.Timestamp) *bun.SelectQuery {
	return database.RowsOf[GateRow](db, organization).
		Where("revoked_at IS NULL").Where("expires_at > ?", now)
}
