package notify

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

type notificationRow struct {
	bun.BaseModel `bun:"table:notifications,alias:n"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Kind         string              `bun:"kind"`
	Event        string              `bun:"event"`
	Invocation   string              `bun:"invocation_id"` // or [envPrefix] and the id of a request for variables
	Status       string              `bun:"status"`
	Attempt      int                 `bun:"attempt"`
	NextAt       database.Timestamp  `bun:"next_at"`
	Ref          database.NullString `bun:"ref"`
	LastError    database.NullString `bun:"last_error"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	EndedAt      database.Timestamp  `bun:"ended_at"`
}

func (r *notificationRow) notification() action.Notification {
	return splitSubject(action.Notification{
		ID: r.ID, Organization: r.Organization, Kind: action.NotifyKind(r.Kind), Event: action.NotifyEvent(r.Event), Invocation: r.Invocation,
		Status: action.NotifyStatus(r.Status), Attempt: r.Attempt, Ref: string(r.Ref), LastError: string(r.LastError),
		CreatedAt: r.CreatedAt.Time, EndedAt: r.EndedAt.Ptr(),
	})
}

// newNotification returns a pending notification that is due at once.
func newNotification(organization string, kind action.NotifyKind, what action.NotifyEvent, invocation string, now time.Time) (notificationRow, error) {
	id, err := database.NewID()
	return notificationRow{
		ID: id, Organization: organization, Kind: string(kind), Event: string(what), Invocation: invocation,
		Status: string(action.NotifyPending), NextAt: database.NewTimestamp(now), CreatedAt: database.NewTimestamp(now),
	}, err
}

// insertNotifications inserts the notifications that do not exist yet.
func insertNotifications(ctx context.Context, tx bun.IDB, rows []notificationRow) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT (invocation_id, kind, event) DO NOTHING").Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing notifications: %w", err)
	}
	return nil
}

// Notifications returns the newest notifications of an organization, at most limit
// (zero: 100).
func (st *Store) Notifications(ctx context.Context, organization string, limit int) ([]action.Notification, error) {
	var rows []notificationRow
	err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", organization).
		OrderExpr("created_at DESC, id DESC").Limit(int64(database.LimitOrDefault(limit))).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing notifications: %w", err)
	}
	list := make([]action.Notification, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].notification())
	}
	return list, nil
}

// SweepNotifications deletes at most limit (zero: 100) notifications that ended before
// a time, and returns how many.
func (st *Store) SweepNotifications(ctx context.Context, before time.Time, limit int) (int, error) {
	return st.db.DeleteExpired(ctx, database.Expired{Table: "notifications", Key: "id", Time: "ended_at", Before: database.NewTimestamp(before).Or(database.Epoch)}, limit)
}
