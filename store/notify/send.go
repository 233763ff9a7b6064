package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/inbound"
)

// errChannelLost tells that a channel is another's, or changed, or gone.
var errChannelLost = errors.New("the channel is in other hands")

// freeChannels restricts q to channels that a worker may take.
func freeChannels[Q interface {
	Where(query string, args ...any) Q
}](q Q, now database.Timestamp,
) Q {
	return q.Where("c.enabled").Where("(c.retry_at IS NULL OR c.retry_at <= ?)", now).Where("(c.lease_until IS NULL OR c.lease_until <= ?)", now)
}

// dueChannels are those by which something is to be told.
func dueChannels(db bun.IDB, into any, now database.Timestamp) *bun.SelectQuery {
	due := db.NewSelect().TableExpr("notifications AS n").ColumnExpr("1").Where("n.organization_id = c.organization_id").
		Where("n.kind = c.kind").Where("n.event IN ('held', 'settled')").Where("n.status = 'pending'").Where("n.next_at <= ?", now)
	return freeChannels(db.NewSelect().Model(into), now).Where("EXISTS (?)", due)
}

// ClaimChannels gives the worker, for a while, the channels by which something
// is to be told: of those who share rows nobody else sends by them meanwhile.
func (st *Store) ClaimChannels(ctx context.Context, worker string, lease time.Duration) (list []action.NotifyChannel, err error) {
	var rows []channelRow
	now := st.db.Now()
	if err := dueChannels(st.db.Read, &rows, database.NewTimestamp(now)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("looking for notifications: %w", err)
	}
	for i := range rows {
		r := &rows[i]
		n := 0
		err := st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) (err error) {
			n, err = database.RowsAffected(freeChannels(tx.NewUpdate().Model(r), database.NewTimestamp(now)).Set("holder = ?, lease_until = ?", worker, database.NewTimestamp(now.Add(lease))).
				WherePK().Where("c.updated_at = ?", r.UpdatedAt).Exec(ctx))
			return err
		})
		if err != nil {
			return list, fmt.Errorf("claiming a channel for notifications: %w", err)
		}
		if n > 0 {
			list = append(list, r.channel())
		}
	}
	return list, nil
}

// NextNotification returns what is to be told by a channel first, and nil when
// nothing is: calls that wait, then ends. What tells of a call that waits no more
// is void.
func (st *Store) NextNotification(ctx context.Context, c action.NotifyChannel) (*action.DueNotification, error) {
	w, err := st.nextOf(ctx, &c, action.NotifyHeld)
	if w != nil || err != nil {
		return w, err
	}
	return st.nextOf(ctx, &c, action.NotifySettled)
}

func (st *Store) nextOf(ctx context.Context, c *action.NotifyChannel, what action.NotifyEvent) (*action.DueNotification, error) {
	for {
		var rows []notificationRow
		err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", c.Organization).Where("kind = ?", string(c.Kind)).Where("event = ?", string(what)).
			Where("status = 'pending'").Where("next_at <= ?", database.NewTimestamp(st.db.Now())).Order("next_at", "id").Limit(1).Scan(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading what to tell: %w", err)
		}
		if len(rows) == 0 {
			return nil, nil
		}
		w, err := st.notifyWork(ctx, &rows[0])
		if w != nil || err != nil {
			return w, err
		}
		err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
			_, err := voided(tx, database.NewTimestamp(st.db.Now())).Where("id = ?", rows[0].ID).Exec(ctx)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("ending notification %s: %w", rows[0].ID, err)
		}
	}
}

// notifyWork reads what a notification tells of; nil when there is no use in it.
func (st *Store) notifyWork(ctx context.Context, r *notificationRow) (*action.DueNotification, error) {
	w := &action.DueNotification{Notification: r.notification()}
	read := st.callWork
	if w.EnvRequest != "" {
		read = st.envWork
	}
	if of, err := read(ctx, w); !of || err != nil {
		return nil, err
	}
	var err error
	w.Session, err = st.sessions.Session(ctx, w.SessionID())
	if errors.Is(err, action.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if w.Session.Automation != "" {
		a, err := st.inbound.Automation(ctx, r.Organization, w.Session.Automation)
		if err != nil && !errors.Is(err, action.ErrNotFound) {
			return nil, err
		}
		w.Automation = a.Name
	}
	return w, nil
}

// callWork reads the call that a notification tells of into w, and reports whether
// it is there, and waits if that is what is to be told.
func (st *Store) callWork(ctx context.Context, w *action.DueNotification) (bool, error) {
	var err error
	w.Call, err = st.calls.Invocation(ctx, w.Organization, w.Invocation)
	if errors.Is(err, action.ErrNotFound) {
		return false, nil
	}
	waits := w.Call.Status == action.StatusPending && (w.Call.ExpiresAt == nil || w.Call.ExpiresAt.After(st.db.Now()))
	return err == nil && (waits || w.Event == action.NotifySettled), err
}

// SettleNotification writes what came of an attempt. It returns false, and has
// written nothing, when the worker lost the channel: who has it sends again.
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

// ReleaseChannel lets others have a channel that the worker has.
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
