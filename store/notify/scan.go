package notify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// One scan reads the newest pending calls and a batch of the others from where the
// last scan stopped, so its cost does not grow with the number of pending calls.
const (
	ScanNewest = 200
	ScanOthers = 500
)

// pendingCall is a held call with its position in the order of creation.
type pendingCall struct {
	ID        string             `bun:"id"`
	CreatedAt database.Timestamp `bun:"created_at"`
	Notified  bool               `bun:"told"`
	Wanted    bool               `bun:"wanted"`
}

// pendingCallsQuery selects up to limit pending calls of an organization, in the order
// of the index, with whether the channel wants and has notified each.
func pendingCallsQuery(db bun.IDB, c *action.NotifyChannel, after database.Cursor, limit int, now, held database.Timestamp) *bun.SelectQuery {
	q := db.NewSelect().TableExpr("open_calls AS i").Column("i.id", "i.created_at", "i.expires_at", "i.risk", "i.unattended").
		Where("i.organization_id = ?", c.Organization).Where("i.status = 'pending'").Limit(int64(limit))
	if after.ID == "" && limit == ScanNewest {
		q = q.OrderExpr("i.created_at DESC, i.id DESC")
	} else {
		q = q.Where("(i.created_at, i.id) > (?, ?)", after.Time.Or(database.Epoch), after.ID).OrderExpr("i.created_at, i.id")
	}
	wanted := "p.expires_at > ? AND p.created_at <= ?"
	switch c.Wants {
	case action.WantsDanger:
		wanted += " AND p.risk = 'danger'"
	case action.WantsUnattended:
		wanted += " AND p.unattended = 1"
	case action.WantsAll:
	}
	return db.NewSelect().TableExpr("(?) AS p", q).Column("p.id", "p.created_at").ColumnExpr("("+wanted+") AS wanted", now, held).
		ColumnExpr("EXISTS (SELECT 1 FROM notifications AS n WHERE n.invocation_id = p.id AND n.kind = ? AND n.event = 'held') AS told", string(c.Kind)).
		OrderExpr("p.created_at, p.id")
}

// QueueCalls creates notifications of what needs a person and the channel has not
// notified: calls and requests that were held before a time, and runs. It scans a batch of
// calls from the mark on, and returns how many it created and the mark of the next
// scan. Safe for concurrent use.
func (st *Store) QueueCalls(ctx context.Context, c action.NotifyChannel, held time.Time, from action.NotifyCursor) (created int, next action.NotifyCursor, err error) {
	next = from
	var newest, others []pendingCall
	now := st.db.Now()
	if err := pendingCallsQuery(st.db.Read, &c, database.Cursor{}, ScanNewest, database.NewTimestamp(now), database.NewTimestamp(held)).Scan(ctx, &newest); err != nil {
		return 0, from, fmt.Errorf("reading calls to notify about: %w", err)
	}
	if len(newest) == ScanNewest { // there may be more
		if err := pendingCallsQuery(st.db.Read, &c, database.Cursor{Time: database.NewTimestamp(from.At), ID: from.ID}, ScanOthers, database.NewTimestamp(now), database.NewTimestamp(held)).Scan(ctx, &others); err != nil {
			return 0, from, fmt.Errorf("reading calls to notify about: %w", err)
		}
	}
	next.At, next.ID = database.Epoch.Time, ""
	if len(others) == ScanOthers {
		last := others[len(others)-1]
		next.At, next.ID = last.CreatedAt.Time, last.ID
	}
	var ids []string
	for _, s := range subjects() {
		found, err := s.unnotified(ctx, st.db.Read, &c, database.NewTimestamp(now), database.NewTimestamp(held))
		if err != nil {
			return 0, from, err
		}
		ids = append(ids, found...)
	}
	for _, w := range slices.Concat(others, newest) {
		if w.Wanted && !w.Notified && !slices.Contains(ids, w.ID) {
			ids = append(ids, w.ID)
		}
	}
	if len(ids) == 0 {
		return 0, next, nil
	}
	return len(ids), next, st.insertHeld(ctx, &c, ids)
}

// insertHeld inserts a notification of each call, unless the channel was deleted or
// disabled.
func (st *Store) insertHeld(ctx context.Context, c *action.NotifyChannel, ids []string) error {
	rows := make([]notificationRow, len(ids))
	for i, id := range ids {
		var err error
		if rows[i], err = newNotification(c.Organization, c.Kind, action.NotifyHeld, id, st.db.Now()); err != nil {
			return err
		}
	}
	return st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		if enabled, err := lockChannel(ctx, tx, c); err != nil || !enabled {
			return err
		}
		return insertNotifications(ctx, tx, rows)
	})
}

// lockChannel reports whether a channel exists and is enabled, and locks it until the
// transaction ends, so that no notification outlives a deleted channel.
func lockChannel(ctx context.Context, tx bun.IDB, c *action.NotifyChannel) (bool, error) {
	q := tx.NewSelect().TableExpr("notify_channels AS c").ColumnExpr("1").
		Where("c.organization_id = ?", c.Organization).Where("c.kind = ?", string(c.Kind)).Where("c.enabled")
	if database.Shared(tx) {
		q = q.For("SHARE")
	}
	var rows []int
	if err := q.Scan(ctx, &rows); err != nil {
		return false, fmt.Errorf("locking a notification channel: %w", err)
	}
	return len(rows) > 0, nil
}

// openNotificationsQuery selects a batch of open notifications of the channel from the
// mark on, with whether their subject needs nobody any more.
func openNotificationsQuery(db bun.IDB, c *action.NotifyChannel, after string) *bun.SelectQuery {
	part := db.NewSelect().Table("notifications").Column("id", "invocation_id").Where("organization_id = ?", c.Organization).
		Where("kind = ?", string(c.Kind)).Where("status IN ('pending', 'sent')").Where("event = 'held'").
		Where("id > ?", after).Order("id").Limit(ScanOthers)
	q, open := db.NewSelect().TableExpr("(?) AS n", part).Join("LEFT JOIN open_calls AS i ON i.id = n.invocation_id"), "i.status = 'pending'"
	for _, s := range subjects() {
		q = q.Join(s.join)
		open += " OR " + s.open
	}
	return q.ColumnExpr("n.id").ColumnExpr("NOT COALESCE(" + open + ", FALSE) AS over").OrderExpr("n.id")
}

// CloseSettled closes notifications of what needs nobody any more: unsent ones are voided, and for sent ones it creates a notification of the end,
// where the channel supports it. It returns how many it closed and the mark of the
// next scan.
func (st *Store) CloseSettled(ctx context.Context, c action.NotifyChannel, from action.NotifyCursor) (closed int, next action.NotifyCursor, err error) {
	next = from
	var batch []struct {
		ID   string `bun:"id"`
		Over bool   `bun:"over"`
	}
	if err := openNotificationsQuery(st.db.Read, &c, from.Notification).Scan(ctx, &batch); err != nil {
		return 0, from, fmt.Errorf("reading notifications of ended calls: %w", err)
	}
	next.Notification = ""
	if len(batch) == ScanOthers {
		next.Notification = batch[len(batch)-1].ID
	}
	var ended []string
	for _, n := range batch {
		if n.Over {
			ended = append(ended, n.ID)
		}
	}
	if len(ended) == 0 {
		return 0, next, nil
	}
	return len(ended), next, st.closeNotifications(ctx, &c, ended)
}

// closeNotifications ends open notifications, and creates notifications of the end of
// those that were sent.
func (st *Store) closeNotifications(ctx context.Context, c *action.NotifyChannel, ids []string) error {
	return st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		enabled, err := lockChannel(ctx, tx, c)
		if err != nil {
			return err
		}
		now := st.db.Now()
		if _, err := voidPending(tx, database.NewTimestamp(now)).Where("id IN (?)", bun.List(ids)).Exec(ctx); err != nil {
			return fmt.Errorf("ending notifications: %w", err)
		}
		var done, ends []notificationRow
		err = tx.NewUpdate().Model(&done).Set("status = 'done', ended_at = ?", database.NewTimestamp(now)).
			Where("id IN (?)", bun.List(ids)).Where("status = 'sent'").Returning("*").Scan(ctx)
		if err != nil {
			return fmt.Errorf("ending notifications: %w", err)
		}
		for _, n := range done {
			if !enabled || c.Kind == action.NotifySlack && n.Ref == "" {
				continue // there is no message to update
			}
			end, err := newNotification(c.Organization, c.Kind, action.NotifySettled, n.Subject, now)
			if err != nil {
				return err
			}
			end.Ref = n.Ref
			ends = append(ends, end)
		}
		return insertNotifications(ctx, tx, ends)
	})
}

// voidPending voids notifications that were not sent.
func voidPending(tx bun.IDB, now database.Timestamp) *bun.UpdateQuery {
	return tx.NewUpdate().Table("notifications").Set("status = 'void', ended_at = ?", now).Where("status = 'pending'")
}
