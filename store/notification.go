package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type notificationRow struct {
	bun.BaseModel `bun:"table:notifications,alias:n"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Kind         string `bun:"kind"`
	Event        string `bun:"event"`
	Invocation   string `bun:"invocation_id"` // or [ofEnv] and the id of a request for variables
	Status       string `bun:"status"`
	Attempt      int    `bun:"attempt"`
	NextAt       stamp  `bun:"next_at"`
	Ref          opt    `bun:"ref"`
	LastError    opt    `bun:"last_error"`
	CreatedAt    stamp  `bun:"created_at"`
	EndedAt      stamp  `bun:"ended_at"`
}

func (r *notificationRow) notification() action.Notification {
	return subject(action.Notification{
		ID: r.ID, Organization: r.Organization, Kind: action.NotifyKind(r.Kind), Event: action.NotifyEvent(r.Event), Invocation: r.Invocation,
		Status: action.NotifyStatus(r.Status), Attempt: r.Attempt, Ref: string(r.Ref), LastError: string(r.LastError),
		CreatedAt: r.CreatedAt.t, EndedAt: r.EndedAt.ptr(),
	})
}

// newNotification is due at once.
func newNotification(organization string, kind action.NotifyKind, what action.NotifyEvent, invocation string, now time.Time) (notificationRow, error) {
	id, err := newID()
	return notificationRow{
		ID: id, Organization: organization, Kind: string(kind), Event: string(what), Invocation: invocation,
		Status: string(action.NotifyPending), NextAt: at(now), CreatedAt: at(now),
	}, err
}

// putNotifications writes those that are not there yet.
func putNotifications(ctx context.Context, tx bun.IDB, rows []notificationRow) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT (invocation_id, kind, event) DO NOTHING").Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing notifications: %w", err)
	}
	return nil
}

// Notifications returns an organization's newest, at most limit (zero: 100).
func (db *DB) Notifications(ctx context.Context, organization string, limit int) ([]action.Notification, error) {
	var rows []notificationRow
	err := db.read.NewSelect().Model(&rows).Where("organization_id = ?", organization).
		OrderExpr("created_at DESC, id DESC").Limit(int64(orHundred(limit))).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing notifications: %w", err)
	}
	list := make([]action.Notification, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].notification())
	}
	return list, nil
}

// SweepNotifications forgets at most limit (zero: 100) notifications that ended
// before a time, and returns how many.
func (db *DB) SweepNotifications(ctx context.Context, before time.Time, limit int) (int, error) {
	return db.forget(ctx, stale{table: "notifications", key: "id", time: "ended_at", before: at(before).or(epoch)}, limit)
}
