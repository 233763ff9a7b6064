package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sallyport/action"
)

// ofEnv precedes the id of a request for variables where a notification names
// what it tells of: everything else is a call.
const ofEnv = "env:"

// joinEnv joins the request that a notification n tells of, if it is one. The
// expression is on the side of n, so that the key of requests is used.
const joinEnv = "LEFT JOIN env_requests AS r ON r.id = substr(n.invocation_id, 5) AND n.invocation_id LIKE 'env:%'"

// envToTell returns, as notifications name them, requests for variables that
// wait, were made before a time, and were not told of by the channel. A channel
// for dangerous calls alone hears of none.
func (db *DB) envToTell(ctx context.Context, c *action.NotifyChannel, now, made stamp) (subjects []string, err error) {
	if c.Wants == action.WantsDanger {
		return nil, nil
	}
	q := db.read.NewSelect().TableExpr("env_requests AS r").ColumnExpr("'env:' || r.id").Where("r.organization_id = ?", c.Organization).
		Where("r.status = 'pending'").Where("r.expires_at > ?", now).Where("r.created_at <= ?", made).
		Where("NOT EXISTS (SELECT 1 FROM notifications AS n WHERE n.invocation_id = 'env:' || r.id AND n.kind = ? AND n.event = 'held')", string(c.Kind))
	if c.Wants == action.WantsUnattended {
		q = q.Where("EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = r.session_id AND s.kind = 'unattended')")
	}
	if err := q.OrderExpr("r.created_at DESC").Limit(lookOthers).Scan(ctx, &subjects); err != nil {
		return nil, fmt.Errorf("looking for requests for variables to tell of: %w", err)
	}
	return subjects, nil
}

// envWork reads the request that a notification tells of into w, and reports
// whether it is there, and waits if that is what is to be told.
func (db *DB) envWork(ctx context.Context, w *action.NotifyWork) (bool, error) {
	r, err := db.EnvRequest(ctx, w.Organization, w.EnvRequest)
	if errors.Is(err, action.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.Variables = &r
	waits := r.Status == action.EnvPending && r.ExpiresAt.After(db.now())
	return waits || w.Event == action.NotifySettled, nil
}

// subject puts what a row names into one of two fields.
func subject(n action.Notification) action.Notification {
	if id, ok := strings.CutPrefix(n.Invocation, ofEnv); ok {
		n.EnvRequest, n.Invocation = id, ""
	}
	return n
}
