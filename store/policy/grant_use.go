package policy

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

// UseGrantSQL consumes one call of a grant by compare-and-swap: it checks everything
// again that may have changed since the decision.
//
//	?1 organization, ?2 session, ?3 grant, ?4 now
var UseGrantSQL = `UPDATE grants SET used_calls = used_calls + 1, spent_at = CASE WHEN used_calls + 1 = max_calls THEN ?4 ELSE spent_at END
WHERE organization_id = ?1 AND id = ?3 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?4)
  AND (max_calls IS NULL OR used_calls < max_calls) AND (scope = 'organization' OR session_id = ?2)
  AND created_by <> ` + sessions.ExcludedApproverSQL("?1", "?2")

// RevokeSourceGrants revokes and records every grant that names the source, because
// it leads to another server now, or to none, whatever the hashes of its tools.
func (st *Store) RevokeSourceGrants(ctx context.Context, tx bun.Tx, organization, source, by string) error {
	var rows []GrantRow
	err := tx.NewUpdate().Model(&rows).Set("revoked_at = ?, revoked_by = ?", database.NewTimestamp(st.db.Now()), by).
		Where("organization_id = ?", organization).Where("source_id = ?", source).Where("revoked_at IS NULL").Returning(grantColumns).Scan(ctx)
	if err != nil {
		return fmt.Errorf("revoking the grants of %s: %w", source, err)
	}
	for i := range rows {
		g, err := rows[i].grant()
		if err != nil {
			return err
		}
		before := g
		before.RevokedAt, before.RevokedBy = nil, ""
		if err := st.history.RecordChange(ctx, tx, grantEvent(&g, by), before, g); err != nil {
			return err
		}
	}
	return nil
}

// grantRetention is how long a grant is kept after its end, and a request after its
// expiry. History keeps their content longer, and invocations the id of the grant
// that covered them.
const grantRetention = 30 * 24 * time.Hour

// SweepGrants expires pending requests that are overdue or whose session has ended,
// and deletes grants and requests after their retention: at most limit of each. It
// returns how many rows it changed or deleted.
func (st *Store) SweepGrants(ctx context.Context, now time.Time, limit int) (int, error) {
	n, err := st.expireRequests(ctx, now, database.LimitOrDefault(limit))
	if err != nil {
		return n, err
	}
	for _, s := range EndedGrants(now) {
		deleted, err := st.db.DeleteExpired(ctx, s, limit)
		n += deleted
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// EndedGrants selects the grants and requests whose retention is over.
func EndedGrants(now time.Time) []database.Expired {
	before := database.NewTimestamp(now.Add(-grantRetention))
	return []database.Expired{
		{Table: "grants", Key: "id", Time: "expires_at", Before: before},
		{Table: "grants", Key: "id", Time: "revoked_at", Before: before},
		{Table: "grants", Key: "id", Time: "spent_at", Before: before},
		{Table: "grant_requests", Key: "id", Time: "expires_at", Before: before},
	}
}

func (st *Store) expireRequests(ctx context.Context, now time.Time, limit int) (n int, err error) {
	exists, err := database.Exists(ctx, OverdueRequestsQuery(st.db.Read.NewSelect(), now, 1))
	if err == nil && exists {
		err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
			n, err = database.RowsAffected(ExpireRequestsQuery(tx, now, limit).Exec(ctx))
			return err
		}})
	}
	if err != nil {
		return 0, fmt.Errorf("expiring requests for grants: %w", err)
	}
	return n, nil
}

// OverdueRequestsQuery selects pending requests that have expired or whose session has
// ended. Few are pending, so it may read each with its session; for an EXISTS,
// PostgreSQL would read all sessions.
func OverdueRequestsQuery(q *bun.SelectQuery, now time.Time, limit int) *bun.SelectQuery {
	return q.TableExpr("grant_requests AS r").Column("r.id").Where("r.status = 'pending'").
		Where(`r.expires_at <= ?0 OR (SELECT CASE WHEN s.revoked_at IS NOT NULL OR s.expires_at <= ?0 THEN 1 END FROM sessions AS s
  WHERE s.organization_id = r.organization_id AND s.id = r.session_id) = 1`, database.NewTimestamp(now)).
		Order("r.expires_at").Limit(int64(limit))
}

// ExpireRequestsQuery expires them, and skips rows that another instance has locked.
func ExpireRequestsQuery(db bun.IDB, now time.Time, limit int) *bun.UpdateQuery {
	due := OverdueRequestsQuery(db.NewSelect(), now, limit)
	q := db.NewUpdate().Table("grant_requests").Set("status = ?", string(action.RequestExpired))
	if database.Shared(db) {
		q = q.Where("id = ANY (ARRAY(?))", due.For("NO KEY UPDATE OF r SKIP LOCKED"))
	} else {
		q = q.Where("id IN (?)", due)
	}
	return q.Where("status = 'pending'")
}
