package policy

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

const (
	// maxGates is how many approvals of gates are listed.
	maxGates = 1000
	// gateHolds is how long an approval holds when nobody says so: none is for
	// ever, as every decision looks at all that are open.
	gateHolds = 30 * 24 * time.Hour
)

type GateRow struct {
	bun.BaseModel `bun:"table:gate_approvals"`
	action.GateApproval
}

func (r *GateRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventGate, Subject: r.ID, By: by}
}

func (r *GateRow) Snapshot() any { return r.GateApproval }

// ApproveGate lets a group's task through a gate, and returns the approval
// with its id and time, and its end: without one, in 30 days. An action of a
// connector must be of one that exists (ErrNotFound).
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
	r.ApprovedAt, r.ExpiresAt, r.RevokedAt = database.NewTimestamp(now).Time, database.TimestampFromPtr(a.ExpiresAt).Or(database.NewTimestamp(now.Add(gateHolds))).Ptr(), nil
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

// RevokeGate takes an approval back, with effect on the next call;
// ErrNotFound. A second time changes nothing.
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

// ListGates returns the newest 1000 approvals of gates, newest first; with a
// group or task, of its. Those that are revoked or expired are among them, and
// older ones are left out without notice.
func (st *Store) ListGates(ctx context.Context, organization, group, task string) ([]action.GateApproval, error) {
	return database.List[action.GateApproval](ctx, Gates(st.db.Read, organization, group, task))
}

func Gates(db bun.IDB, organization, group, task string) *bun.SelectQuery {
	q := database.RowsOf[GateRow](db, organization)
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

// OpenGates are those that are neither revoked nor expired.
func OpenGates(db bun.IDB, organization string, now database.Timestamp) *bun.SelectQuery {
	return database.RowsOf[GateRow](db, organization).
		Where("revoked_at IS NULL").Where("expires_at > ?", now)
}
