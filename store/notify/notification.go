package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/inbound"
)

type notificationRow struct {
	bun.BaseModel `bun:"table:notifications,alias:n"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Kind         string              `bun:"kind"`
	Event        string              `bun:"event"`
	Subject      string              `bun:"invocation_id"` // or the name of a [subject]
	Status       string              `bun:"status"`
	Attempt      int                 `bun:"attempt"`
	NextAt       database.Timestamp  `bun:"next_at"`
	Ref          database.NullString `bun:"ref"`
	LastError    database.NullString `bun:"last_error"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	EndedAt      database.Timestamp  `bun:"ended_at"`
}

func (r *notificationRow) notification() action.Notification {
	return split(action.Notification{
		ID: r.ID, Organization: r.Organization, Kind: action.NotifyKind(r.Kind), Event: action.NotifyEvent(r.Event), Invocation: r.Subject,
		Status: action.NotifyStatus(r.Status), Attempt: r.Attempt, Ref: string(r.Ref), LastError: string(r.LastError),
		CreatedAt: r.CreatedAt.Time, EndedAt: r.EndedAt.Ptr(),
	})
}

// newNotification returns a pending notification that is due at once.
func newNotification(organization string, kind action.NotifyKind, what action.NotifyEvent, subject string, now time.Time) (notificationRow, error) {
	id, err := database.NewID()
	return notificationRow{
		ID: id, Organization: organization, Kind: string(kind), Event: string(what), Subject: subject,
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
	q := database.RowsOf[notificationRow](st.db.Read, organization).OrderExpr("created_at DESC, id DESC").Limit(int64(database.LimitOrDefault(limit)))
	return database.ListAs(ctx, q, (*notificationRow).notification)
}

// SweepNotifications deletes at most limit (zero: 100) notifications that ended before
// a time, and returns how many.
func (st *Store) SweepNotifications(ctx context.Context, before time.Time, limit int) (int, error) {
	return st.db.DeleteExpired(ctx, database.Expired{Table: "notifications", Key: "id", Time: "ended_at", Before: database.NewTimestamp(before).Or(database.Epoch)}, limit)
}

// errChannelLost means that the worker lost its lease of a channel, or that the channel
// was changed or deleted.
var errChannelLost = errors.New("the lease of the channel was lost")

// whereClaimable restricts q to enabled channels without a lease or a pending retry.
func whereClaimable[Q interface {
	Where(query string, args ...any) Q
}](q Q, now database.Timestamp,
) Q {
	return q.Where("c.enabled").Where("(c.retry_at IS NULL OR c.retry_at <= ?)", now).Where("(c.lease_until IS NULL OR c.lease_until <= ?)", now)
}

// dueChannelsQuery selects the claimable channels with due notifications.
func dueChannelsQuery(db bun.IDB, into any, now database.Timestamp) *bun.SelectQuery {
	due := db.NewSelect().TableExpr("notifications AS n").ColumnExpr("1").Where("n.organization_id = c.organization_id").
		Where("n.kind = c.kind").Where("n.event IN ('held', 'settled')").Where("n.status = 'pending'").Where("n.next_at <= ?", now)
	return whereClaimable(db.NewSelect().Model(into), now).Where("EXISTS (?)", due)
}

// ClaimChannels leases the channels with due notifications to the worker, so that no
// other instance sends by them until the lease ends.
func (st *Store) ClaimChannels(ctx context.Context, worker string, lease time.Duration) (list []action.NotifyChannel, err error) {
	var rows []ChannelRow
	now := st.db.Now()
	if err := dueChannelsQuery(st.db.Read, &rows, database.NewTimestamp(now)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading channels with due notifications: %w", err)
	}
	for i := range rows {
		r := &rows[i]
		n := 0
		err := st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) (err error) {
			n, err = database.RowsAffected(whereClaimable(tx.NewUpdate().Model(r), database.NewTimestamp(now)).Set("holder = ?, lease_until = ?", worker, database.NewTimestamp(now.Add(lease))).
				WherePK().Where("c.updated_at = ?", r.UpdatedAt).Exec(ctx))
			return err
		})
		if err != nil {
			return list, fmt.Errorf("claiming a channel for notifications: %w", err)
		}
		if n > 0 {
			list = append(list, r.NotifyChannel)
		}
	}
	return list, nil
}

// NextNotification returns the next due notification of a channel: pending calls
// first, then ends; nil if none is due. It voids notifications of calls that are no
// longer pending.
func (st *Store) NextNotification(ctx context.Context, c action.NotifyChannel) (*action.DueNotification, error) {
	w, err := st.nextOfEvent(ctx, &c, action.NotifyHeld)
	if w != nil || err != nil {
		return w, err
	}
	return st.nextOfEvent(ctx, &c, action.NotifySettled)
}

func (st *Store) nextOfEvent(ctx context.Context, c *action.NotifyChannel, what action.NotifyEvent) (*action.DueNotification, error) {
	for {
		var rows []notificationRow
		err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", c.Organization).Where("kind = ?", string(c.Kind)).Where("event = ?", string(what)).
			Where("status = 'pending'").Where("next_at <= ?", database.NewTimestamp(st.db.Now())).Order("next_at", "id").Limit(1).Scan(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the next notification: %w", err)
		}
		if len(rows) == 0 {
			return nil, nil
		}
		w, err := st.loadWork(ctx, &rows[0])
		if w != nil || err != nil {
			return w, err
		}
		err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
			_, err := voidPending(tx, database.NewTimestamp(st.db.Now())).Where("id = ?", rows[0].ID).Exec(ctx)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("ending notification %s: %w", rows[0].ID, err)
		}
	}
}

// loadWork reads the subject of a notification, with its session and automation; nil if the notification is obsolete.
func (st *Store) loadWork(ctx context.Context, r *notificationRow) (*action.DueNotification, error) {
	w := &action.DueNotification{Notification: r.notification()}
	load := st.loadCall
	for _, s := range subjects() {
		if strings.HasPrefix(r.Subject, s.prefix) {
			load = func(ctx context.Context, w *action.DueNotification) (bool, error) {
				return s.load(st, ctx, w, r.Subject)
			}
		}
	}
	if current, err := load(ctx, w); !current || err != nil {
		return nil, err
	}
	var err error
	w.Session, err = st.sessions.Session(ctx, w.SessionID())
	switch {
	case errors.Is(err, action.ErrNotFound) && w.Ended != nil:
		w.Session = action.Session{ID: w.Ended.Session, Kind: action.Unattended, Automation: w.Ended.Automation}
	case errors.Is(err, action.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if w.Session.Automation != "" {
		a, err := st.inbound.Automation(ctx, r.Organization, w.Session.Automation)
		if err != nil && !errors.Is(err, action.ErrNotFound) {
			return nil, err
		}
		w.Automation = a.Name
		if w.For, err = st.userNames(ctx, r.Organization, a.Tell); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// userNames returns the names of those of the users that exist, in their order.
func (st *Store) userNames(ctx context.Context, organization string, ids []string) (names []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var users []struct {
		ID   string `bun:"id"`
		Name string `bun:"name"`
	}
	q := st.db.Read.NewSelect().Table("users").Column("id", "name").Where("organization_id = ?", organization).Where("id IN (?)", bun.List(ids))
	if err := q.Scan(ctx, &users); err != nil {
		return nil, fmt.Errorf("reading the names of people: %w", err)
	}
	for _, id := range ids {
		for _, u := range users {
			if u.ID == id {
				names = append(names, u.Name)
			}
		}
	}
	return names, nil
}

// loadCall reads the call of a notification into w. It reports whether the call exists
// and, for a notification of a pending call, is pending.
func (st *Store) loadCall(ctx context.Context, w *action.DueNotification) (bool, error) {
	var err error
	w.Call, err = st.calls.Invocation(ctx, w.Organization, w.Invocation)
	if errors.Is(err, action.ErrNotFound) {
		return false, nil
	}
	pending := w.Call.Status == action.StatusPending && (w.Call.ExpiresAt == nil || w.Call.ExpiresAt.After(st.db.Now()))
	return err == nil && (pending || w.Event == action.NotifySettled), err
}

// SettleNotification stores the outcome of an attempt. held is false, and nothing is
// written, if the worker lost its lease: the new holder sends again.
func (st *Store) SettleNotification(ctx context.Context, worker string, s action.NotifyOutcome) (held bool, err error) {
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		if err := settleChannel(ctx, tx, worker, &s, database.NewTimestamp(st.db.Now())); err != nil {
			return err
		}
		q := tx.NewUpdate().Table("notifications").Where("id = ?", s.ID).Where("status = 'pending'")
		switch {
		case s.OK && s.Event == action.NotifyHeld:
			q = q.Set("status = 'sent', ref = ?", database.NullString(s.Ref))
		case s.OK:
			q = q.Set("status = 'done', ended_at = ?", database.NewTimestamp(st.db.Now()))
		case s.RetryAt.IsZero():
			q = q.Set("status = 'void', ended_at = ?, attempt = attempt + 1, last_error = ?", database.NewTimestamp(st.db.Now()), database.NullString(inbound.TruncateMessage(s.Error)))
		default:
			q = q.Set("next_at = ?, attempt = attempt + 1, last_error = ?", database.NewTimestamp(s.RetryAt), database.NullString(inbound.TruncateMessage(s.Error)))
		}
		if _, err := q.Exec(ctx); err != nil {
			return fmt.Errorf("settling notification %s: %w", s.ID, err)
		}
		return nil
	})
	if errors.Is(err, errChannelLost) {
		return false, nil
	}
	return err == nil, err
}

func settleChannel(ctx context.Context, tx bun.IDB, worker string, s *action.NotifyOutcome, now database.Timestamp) error {
	q := tx.NewUpdate().Table("notify_channels").Where("organization_id = ?", s.Organization).Where("kind = ?", string(s.Kind)).Where("holder = ?", worker)
	switch {
	case s.OK:
		q = q.Set("failures = 0, retry_at = NULL, last_sent_at = ?", now)
	case s.ChannelRetryAt.IsZero():
		q = q.Set("last_error = ?, last_error_at = ?", database.NullString(inbound.TruncateMessage(s.Error)), now)
	default:
		q = q.Set("failures = failures + 1, retry_at = ?, last_error = ?, last_error_at = ?", database.NewTimestamp(s.ChannelRetryAt), database.NullString(inbound.TruncateMessage(s.Error)), now)
	}
	n, err := database.RowsAffected(q.Exec(ctx))
	if err != nil {
		return fmt.Errorf("settling a channel for notifications: %w", err)
	}
	if n == 0 {
		return errChannelLost
	}
	return nil
}

// ReleaseChannel ends the worker's lease of a channel.
func (st *Store) ReleaseChannel(ctx context.Context, worker string, c action.NotifyChannel) error {
	err := st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewUpdate().Table("notify_channels").Set("holder = NULL, lease_until = NULL").
			Where("organization_id = ?", c.Organization).Where("kind = ?", string(c.Kind)).Where("holder = ?", worker).Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("releasing a channel for notifications: %w", err)
	}
	return nil
}
