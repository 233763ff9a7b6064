package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// grantAge is how long a grant is kept after it ended, and a request after its
// time. The events of policy say for longer what it was, and invocations which
// grant let them run.
const grantAge = 30 * 24 * time.Hour

// SweepGrants expires requests that nobody decided in time or whose session
// ended, and forgets grants and requests that ended long ago: at most limit of
// each. It returns how many rows it changed or deleted.
func (db *DB) SweepGrants(ctx context.Context, now time.Time, limit int) (int, error) {
	n, err := db.expireRequests(ctx, now, orHundred(limit))
	if err != nil {
		return n, err
	}
	for _, s := range endedGrants(now) {
		gone, err := db.forget(ctx, s, limit)
		n += gone
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func endedGrants(now time.Time) []stale {
	before := at(now.Add(-grantAge))
	return []stale{
		{table: "grants", key: "id", time: "expires_at", before: before},
		{table: "grants", key: "id", time: "revoked_at", before: before},
		{table: "grants", key: "id", time: "spent_at", before: before},
		{table: "grant_requests", key: "id", time: "expires_at", before: before},
	}
}

func (db *DB) expireRequests(ctx context.Context, now time.Time, limit int) (n int, err error) {
	some, err := exists(ctx, overdueRequests(db.read.NewSelect(), now, 1))
	if err == nil && some {
		err = db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
			n, err = affected(expireOverdue(tx, now, limit).Exec(ctx))
			return err
		}})
	}
	if err != nil {
		return 0, fmt.Errorf("expiring requests for grants: %w", err)
	}
	return n, nil
}

// overdueRequests finds pending requests that nobody can use any more. Few are
// pending, and all of them may be looked at, each with its session: as EXISTS,
// PostgreSQL would read all sessions instead.
func overdueRequests(q *bun.SelectQuery, now time.Time, limit int) *bun.SelectQuery {
	return q.TableExpr("grant_requests AS r").Column("r.id").Where("r.status = 'pending'").
		Where(`r.expires_at <= ?0 OR (SELECT CASE WHEN s.revoked_at IS NOT NULL OR s.expires_at <= ?0 THEN 1 END FROM sessions AS s
  WHERE s.organization_id = r.organization_id AND s.id = r.session_id) = 1`, at(now)).
		Order("r.expires_at").Limit(int64(limit))
}

// expireOverdue ends them, in the same way as [sweep.update].
func expireOverdue(db bun.IDB, now time.Time, limit int) *bun.UpdateQuery {
	due := overdueRequests(db.NewSelect(), now, limit)
	q := db.NewUpdate().Table("grant_requests").Set("status = ?", string(action.RequestExpired))
	if shared(db) {
		q = q.Where("id = ANY (ARRAY(?))", due.For("NO KEY UPDATE OF r SKIP LOCKED"))
	} else {
		q = q.Where("id IN (?)", due)
	}
	return q.Where("status = 'pending'")
}
