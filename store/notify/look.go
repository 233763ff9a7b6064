package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// One look for calls goes through the newest that wait and, from where the last
// one stopped, so many others: what it reads does not grow with what waits.
const (
	LookNewest = 200
	LookOthers = 500
)

// waitingCall is where a held call stands in the order in which they came.
type waitingCall struct {
	ID        string             `bun:"id"`
	CreatedAt database.Timestamp `bun:"created_at"`
	Told      bool               `bun:"told"`
	Wanted    bool               `bun:"wanted"`
}

// waitingPart selects up to limit calls of an organization that wait, in the
// order of their index, and which of them the channel has to tell of yet.
func waitingPart(db bun.IDB, c *action.NotifyChannel, after database.Cursor, limit int, now, held database.Timestamp) *bun.SelectQuery {
	q := db.NewSelect().TableExpr("invocations AS i").Column("i.id", "i.created_at", "i.expires_at", "i.risk", "i.unattended").
		Where("i.organization_id = ?", c.Organization).Where("i.status = 'pending'").Limit(int64(limit))
	if after.ID == "" && limit == LookNewest {
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

// QueueCalls makes notifications of calls, and of requests for variables, that
// wait, were held before a time and were not told of by the channel. It looks at a
// part of the calls from the mark on, and returns how many it made and where the
// next look begins. Several may look at once.
func (st *Store) QueueCalls(ctx context.Context, c action.NotifyChannel, held time.Time, from action.NotifyCursor) (made int, next action.NotifyCursor, err error) {
	next = from
	var newest, others []waitingCall
	now := st.db.Now()
	if err := waitingPart(st.db.Read, &c, database.Cursor{}, LookNewest, database.NewTimestamp(now), database.NewTimestamp(held)).Scan(ctx, &newest); err != nil {
		return 0, from, fmt.Errorf("looking for calls to tell of: %w", err)
	}
	if len(newest) == LookNewest { // there may be others
		if err := waitingPart(st.db.Read, &c, database.Cursor{Time: database.NewTimestamp(from.At), ID: from.ID}, LookOthers, database.NewTimestamp(now), database.NewTimestamp(held)).Scan(ctx, &others); err != nil {
			return 0, from, fmt.Errorf("looking for calls to tell of: %w", err)
		}
	}
	next.At, next.ID = database.Epoch.Time, ""
	if len(others) == LookOthers {
		last := others[len(others)-1]
		next.At, next.ID = last.CreatedAt.Time, last.ID
	}
	ids, err := st.envToTell(ctx, &c, database.NewTimestamp(now), database.NewTimestamp(held))
	if err != nil {
		return 0, from, err
	}
	for _, w := range slices.Concat(others, newest) {
		if w.Wanted && !w.Told && !slices.Contains(ids, w.ID) {
			ids = append(ids, w.ID)
		}
	}
	if len(ids) == 0 {
		return 0, next, nil
	}
	return len(ids), next, st.tellOf(ctx, &c, ids)
}

// tellOf writes a notification of each of the calls, unless the channel is gone
// or off.
func (st *Store) tellOf(ctx context.Context, c *action.NotifyChannel, ids []string) error {
	rows := make([]notificationRow, len(ids))
	for i, id := range ids {
		var err error
		if rows[i], err = newNotification(c.Organization, c.Kind, action.NotifyHeld, id, st.db.Now()); err != nil {
			return err
		}
	}
	return st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		if there, err := lockChannel(ctx, tx, c); err != nil || !there {
			return err
		}
		return putNotifications(ctx, tx, rows)
	})
}

// lockChannel reports whether a channel is there and on, and keeps it so until
// the transaction ends: what is told by it goes when it does.
func lockChannel(ctx context.Context, tx bun.IDB, c *action.NotifyChannel) (bool, error) {
	q := tx.NewSelect().TableExpr("notify_channels AS c").ColumnExpr("1").
		Where("c.organization_id = ?", c.Organization).Where("c.kind = ?", string(c.Kind)).Where("c.enabled")
	if database.Shared(tx) {
		q = q.For("SHARE")
	}
	var there []int
	if err := q.Scan(ctx, &there); err != nil {
		return false, fmt.Errorf("reading where to tell of held calls: %w", err)
	}
	return len(there) > 0, nil
}

// openPart selects notifications of the channel that are open though what they
// tell of waits no more, among so many from the mark on.
func openPart(db bun.IDB, c *action.NotifyChannel, after string) *bun.SelectQuery {
	part := db.NewSelect().Table("notifications").Column("id", "invocation_id").Where("organization_id = ?", c.Organization).
		Where("kind = ?", string(c.Kind)).Where("status IN ('pending', 'sent')").Where("event = 'held'").
		Where("id > ?", after).Order("id").Limit(LookOthers)
	return db.NewSelect().TableExpr("(?) AS n", part).Join("LEFT JOIN invocations AS i ON i.id = n.invocation_id").
		Join(joinEnv).ColumnExpr("n.id").ColumnExpr("COALESCE(COALESCE(i.status, r.status) <> 'pending', TRUE) AS over").OrderExpr("n.id")
}

// CloseSettled closes notifications of calls that wait no more: what was not sent
// never is, and of what was sent the channel is told the end, where it can be.
// It returns how many it closed, and where the next look begins.
func (st *Store) CloseSettled(ctx context.Context, c action.NotifyChannel, from action.NotifyCursor) (closed int, next action.NotifyCursor, err error) {
	next = from
	var part []struct {
		ID   string `bun:"id"`
		Over bool   `bun:"over"`
	}
	if err := openPart(st.db.Read, &c, from.Notification).Scan(ctx, &part); err != nil {
		return 0, from, fmt.Errorf("looking for calls that ended: %w", err)
	}
	next.Notification = ""
	if len(part) == LookOthers {
		next.Notification = part[len(part)-1].ID
	}
	var over []string
	for _, n := range part {
		if !n.Over {
			continue
		}
		over = append(over, n.ID)
	}
	if len(over) == 0 {
		return 0, next, nil
	}
	return len(over), next, st.closeNotifications(ctx, &c, over)
}

// closeNotifications ends those that are open, and tells of the ends of calls
// that were told of.
func (st *Store) closeNotifications(ctx context.Context, c *action.NotifyChannel, ids []string) error {
	return st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		on, err := lockChannel(ctx, tx, c)
		if err != nil {
			return err
		}
		now := st.db.Now()
		if _, err := voided(tx, database.NewTimestamp(now)).Where("id IN (?)", bun.List(ids)).Exec(ctx); err != nil {
			return fmt.Errorf("ending notifications: %w", err)
		}
		var done, ends []notificationRow
		err = tx.NewUpdate().Model(&done).Set("status = 'done', ended_at = ?", database.NewTimestamp(now)).
			Where("id IN (?)", bun.List(ids)).Where("status = 'sent'").Returning("*").Scan(ctx)
		if err != nil {
			return fmt.Errorf("ending notifications: %w", err)
		}
		for _, n := range done {
			if !on || c.Kind == action.NotifySlack && n.Ref == "" {
				continue // nobody hears of the end
			}
			end, err := newNotification(c.Organization, c.Kind, action.NotifySettled, n.Invocation, now)
			if err != nil {
				return err
			}
			end.Ref = n.Ref
			ends = append(ends, end)
		}
		return putNotifications(ctx, tx, ends)
	})
}

// voided ends notifications that were not sent.
func voided(tx bun.IDB, now database.Timestamp) *bun.UpdateQuery {
	return tx.NewUpdate().Table("notifications").Set("status = 'void', ended_at = ?", now).Where("status = 'pending'")
}

// ofEnv precedes the id of a request for variables where a notification names
// what it tells of: everything else is a call.
const ofEnv = "env:"

// joinEnv joins the request that a notification n tells of, if it is one. The
// expression is on the side of n, so that the key of requests is used.
const joinEnv = "LEFT JOIN env_requests AS r ON r.id = substr(n.invocation_id, 5) AND n.invocation_id LIKE 'env:%'"

// envToTell returns, as notifications name them, requests for variables that
// wait, were made before a time, and were not told of by the channel. A channel
// for dangerous calls alone hears of none.
func (st *Store) envToTell(ctx context.Context, c *action.NotifyChannel, now, made database.Timestamp) (subjects []string, err error) {
	if c.Wants == action.WantsDanger {
		return nil, nil
	}
	q := st.db.Read.NewSelect().TableExpr("env_requests AS r").ColumnExpr("'env:' || r.id").Where("r.organization_id = ?", c.Organization).
		Where("r.status = 'pending'").Where("r.expires_at > ?", now).Where("r.created_at <= ?", made).
		Where("NOT EXISTS (SELECT 1 FROM notifications AS n WHERE n.invocation_id = 'env:' || r.id AND n.kind = ? AND n.event = 'held')", string(c.Kind))
	if c.Wants == action.WantsUnattended {
		q = q.Where("EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = r.session_id AND s.kind = 'unattended')")
	}
	if err := q.OrderExpr("r.created_at DESC").Limit(LookOthers).Scan(ctx, &subjects); err != nil {
		return nil, fmt.Errorf("looking for requests for variables to tell of: %w", err)
	}
	return subjects, nil
}

// envWork reads the request that a notification tells of into w, and reports
// whether it is there, and waits if that is what is to be told.
func (st *Store) envWork(ctx context.Context, w *action.DueNotification) (bool, error) {
	r, err := st.requests.EnvRequest(ctx, w.Organization, w.EnvRequest)
	if errors.Is(err, action.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.Variables = &r
	waits := r.Status == action.EnvPending && r.ExpiresAt.After(st.db.Now())
	return waits || w.Event == action.NotifySettled, nil
}

// subject puts what a row names into one of two fields.
func subject(n action.Notification) action.Notification {
	if id, ok := strings.CutPrefix(n.Invocation, ofEnv); ok {
		n.EnvRequest, n.Invocation = id, ""
	}
	return n
}
