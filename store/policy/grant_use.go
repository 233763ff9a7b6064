package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
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
		g := rows[i].grant()
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
		return 0, fmt.Errorf("expiring grant requests: %w", err)
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

// ApproveRequest creates the requested grant, or a narrower one. Errors: ErrInvalid
// with the field that is wider than requested; ErrTooMany (code "too_many_grants");
// ErrNotFound; ErrGone if the request has expired; ErrConflict if it is decided (the
// message names the decision and the user) or its session has ended; ErrForbidden
// (code "self_approval") if v.By created the session and may not approve its calls.
func (st *Store) ApproveRequest(ctx context.Context, v action.RequestVerdict) (req action.GrantRequest, g action.Grant, err error) {
	id, err := database.NewID()
	if err != nil {
		return action.GrantRequest{}, action.Grant{}, err
	}
	now := st.db.Now()
	req, err = st.decideRequest(ctx, v, now, func(ctx context.Context, tx bun.IDB, r *RequestRow, requested *action.GrantRequest) error {
		if err := sessions.CheckApproval(ctx, tx, r.Organization, r.Session, v.By, now); err != nil {
			return err
		}
		terms := requested.Terms
		if v.Terms != nil {
			terms = *v.Terms
		}
		if err := terms.CheckNarrower(&requested.Terms); err != nil {
			return err
		}
		if err := terms.Check(now); err != nil {
			return err
		}
		g = action.Grant{
			ID: id, Organization: r.Organization, Terms: terms, Request: r.ID, CreatedBy: v.By, CreatedAt: now,
		}
		if terms.Scope == action.ScopeSession {
			g.Session = r.Session
		}
		if !terms.Any {
			g.ToolHash = requested.ToolHash
		}
		r.Status, r.Grant = string(action.RequestApproved), database.NullString(id)
		return st.PutGrant(ctx, tx, &g)
	})
	if err != nil {
		return action.GrantRequest{}, action.Grant{}, err
	}
	return req, g, nil
}

// DenyRequest denies a request, and the same request for some time. It has the errors
// of [Store.ApproveRequest], except that a user may deny requests of their own
// session.
func (st *Store) DenyRequest(ctx context.Context, v action.RequestVerdict) (action.GrantRequest, error) {
	return st.decideRequest(ctx, v, st.db.Now(), func(_ context.Context, _ bun.IDB, r *RequestRow, _ *action.GrantRequest) error {
		r.Status = string(action.RequestDenied)
		return nil
	})
}

// decideRequest applies decide to a pending request, and stores and records the result.
func (st *Store) decideRequest(
	ctx context.Context, v action.RequestVerdict, now time.Time,
	decide func(ctx context.Context, tx bun.IDB, r *RequestRow, requested *action.GrantRequest) error,
) (req action.GrantRequest, err error) {
	if v.By == "" {
		return action.GrantRequest{}, errors.New("a decision needs a user")
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readRequest(ctx, tx, v.Organization, v.ID)
		if err != nil {
			return err
		}
		if err := checkPending(ctx, tx, r, now); err != nil {
			return err
		}
		before := r.request()
		if err := decide(ctx, tx, r, &before); err != nil {
			return err
		}
		r.DecidedBy, r.DecidedAt, r.DecidedNote = database.NullString(v.By), database.NewTimestamp(now), database.NullString(v.Note)
		if err := writeDecision(ctx, tx, r, now); err != nil {
			return err
		}
		req = r.request()
		change := action.PolicyEvent{Organization: r.Organization, Kind: action.EventRequest, Subject: r.ID, By: v.By}
		return st.history.RecordChange(ctx, tx, change, before, req)
	})
	return req, err
}

// writeDecision writes a decision by compare-and-swap, because a sweep may have
// expired the request.
func writeDecision(ctx context.Context, tx bun.IDB, r *RequestRow, now time.Time) error {
	n, err := database.RowsAffected(tx.NewUpdate().Model(r).Column("status", "grant_id", "decided_by", "decided_at", "decided_note").
		WherePK().Where("status = 'pending'").Exec(ctx))
	if err != nil {
		return fmt.Errorf("deciding request %s: %w", r.ID, err)
	}
	if n > 0 {
		return nil
	}
	stored, err := readRequest(ctx, tx, r.Organization, r.ID)
	if err != nil {
		return err
	}
	return checkPending(ctx, tx, stored, now)
}

// checkPending returns why a request is no longer pending, or nil if it is.
func checkPending(ctx context.Context, tx bun.IDB, r *RequestRow, now time.Time) error {
	switch {
	case r.Status == string(action.RequestExpired), r.Status == string(action.RequestPending) && !r.ExpiresAt.Time.After(now):
		return action.Errorf(action.ErrGone, "request_expired", "This request expired before a decision. The agent must request it again.")
	case r.Status == string(action.RequestPending):
		return nil
	}
	return action.Errorf(action.ErrConflict, "already_decided", "This request was already %s by %s.",
		r.Status, history.UserName(ctx, tx, r.Organization, string(r.DecidedBy)))
}
