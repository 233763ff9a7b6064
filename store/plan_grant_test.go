package store

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/policy"
)

// grantQueries are those of an organization "o" with a session "s".
func grantQueries(db *DB) map[string]string {
	now := time.Now()
	after := database.Cursor{Time: database.NewTimestamp(now.Add(-time.Hour)), ID: "id"}
	text := func(query string, args ...any) string { return db.db.Read.NewRaw(query, args...).String() }
	list := func(f action.GrantFilter) string {
		f.Organization = "o"
		return database.NewestFirst(policy.FilterGrants(f, db.db.Read.NewSelect().Model((*policy.GrantRow)(nil)), now), after, 50).String()
	}
	requests := func(f action.RequestFilter) string {
		f.Organization = "o"
		return database.NewestFirst(policy.FilterRequests(f, db.db.Read.NewSelect().Model((*policy.RequestRow)(nil))), after, 50).String()
	}
	queries := map[string]string{
		"grants for a call":     text(policy.GrantsForSQL, nil, "o", "s", "linear", "x", database.NewTimestamp(now)),
		"grants in a place":     (&policy.GrantRow{Organization: "o", Session: "s", Source: "linear", Action: "x", CreatedAt: database.NewTimestamp(now)}).SameTargetQuery(db.db.Read).String(),
		"use":                   text(policy.UseGrantSQL, nil, "o", "s", "g7", database.NewTimestamp(now)),
		"revoke":                text("UPDATE grants SET revoked_at = ?, revoked_by = ? WHERE organization_id = ? AND id = ? AND revoked_at IS NULL", database.NewTimestamp(now), "me", "o", "g7"),
		"list":                  list(action.GrantFilter{}),
		"list of a session":     list(action.GrantFilter{Session: "s"}),
		"list for everybody":    list(action.GrantFilter{Scope: action.ScopeOrganization}),
		"list for a session":    list(action.GrantFilter{Session: "s", Covering: true, Usable: true}),
		"requests":              requests(action.RequestFilter{}),
		"inbox":                 requests(action.RequestFilter{Status: action.RequestPending}),
		"requests of a session": requests(action.RequestFilter{Session: "s"}),
		"recent requests": policy.RecentRequestsQuery(db.db.Read.NewSelect().Model((*policy.RequestRow)(nil)),
			&policy.RequestRow{Organization: "o", Session: "s", CreatedAt: database.NewTimestamp(now)}).String(),
		"look for overdue requests": policy.OverdueRequestsQuery(db.db.Read.NewSelect(), now, 1).String(),
		"expire requests":           policy.ExpireRequestsQuery(db.db.Read, now, 100).String(),
	}
	for _, s := range policy.EndedGrants(now) {
		queries["look for old "+s.Table+" by "+s.Time] = s.Find(db.db.Read.NewSelect(), 1).String()
		queries["sweep old "+s.Table+" by "+s.Time] = s.Remove(db.db.Read, 100).String()
	}
	return queries
}

func TestGrantQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db := openAt(t, newPath(t))
	want := map[string]string{
		"grants for a call":                 `grants USING INDEX grants_covering \(organization_id=\? AND source_id=\? AND action=\? AND <expr>=\?\)`,
		"grants in a place":                 `grants USING INDEX grants_covering \(organization_id=\? AND source_id=\? AND action=\? AND <expr>=\?\)`,
		"use":                               `SEARCH grants USING INDEX sqlite_autoindex_grants_1 \(id=\?\)`,
		"revoke":                            `SEARCH grants USING INDEX sqlite_autoindex_grants_1 \(id=\?\)`,
		"list":                              `grants_list \(organization_id=\? AND \(created_at,id\)<\(\?,\?\)\)`,
		"list of a session":                 `grants_session \(organization_id=\? AND <expr>=\? AND \(created_at,id\)<\(\?,\?\)\)`,
		"list for everybody":                `grants_session \(organization_id=\? AND <expr>=\? AND \(created_at,id\)<\(\?,\?\)\)`,
		"list for a session":                `grants_(session|covering|list) \(organization_id=\? AND`,
		"requests":                          `grant_requests_list \(organization_id=\? AND \(created_at,id\)<\(\?,\?\)\)`,
		"inbox":                             `grant_requests_inbox \(organization_id=\? AND status=\? AND \(created_at,id\)<\(\?,\?\)\)`,
		"requests of a session":             `grant_requests_session \(organization_id=\? AND session_id=\? AND \(created_at,id\)<\(\?,\?\)\)`,
		"recent requests":                   `grant_requests_session \(organization_id=\? AND session_id=\?\)`,
		"look for overdue requests":         `grant_requests_expiry`,
		"expire requests":                   `(?s)sqlite_autoindex_grant_requests_1 \(id=\?\).*grant_requests_expiry`,
		"look for old grants by expires_at": `grants_expired \(expires_at<\?\)`,
		"look for old grants by revoked_at": `grants_revoked \(revoked_at<\?\)`,
		"look for old grants by spent_at":   `grants_spent \(spent_at<\?\)`,
		"look for old grant_requests by expires_at": `grant_requests_age \(expires_at<\?\)`,
		"sweep old grants by expires_at":            `grants_expired \(expires_at<\?\)`,
		"sweep old grants by revoked_at":            `grants_revoked \(revoked_at<\?\)`,
		"sweep old grants by spent_at":              `grants_spent \(spent_at<\?\)`,
		"sweep old grant_requests by expires_at":    `grant_requests_age \(expires_at<\?\)`,
	}
	for name, query := range grantQueries(db) {
		plan := explain(t, db, query)
		if want[name] == "" || !regexp.MustCompile(want[name]).MatchString(plan) {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}

// grantRows are what a busy deployment holds: many sessions with grants of
// their own, most used up, and requests, of which few wait.
const grantRows = `
INSERT INTO organizations (id, name, created_at) VALUES ('o', 'O', now()), ('p', 'P', now());
INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at)
  SELECT CASE WHEN n = 7 THEN 's' ELSE 's' || n END, CASE WHEN n % 10 = 0 THEN 'p' ELSE 'o' END, 'interactive', 'coding', 'me' || n % 9, now()
  FROM generate_series(1, 5000) n;
INSERT INTO grants (id, organization_id, scope, session_id, source_id, action, covers_any, max_calls, used_calls, spent_at, expires_at, created_by, created_at)
  SELECT 'g' || n, s.organization_id, CASE WHEN n % 50 = 0 THEN 'organization' ELSE 'session' END, CASE WHEN n % 50 > 0 THEN s.id END,
    'linear', 'x' || n % 5, 0, 1, CASE WHEN n % 3 > 0 THEN 1 ELSE 0 END, CASE WHEN n % 3 > 0 THEN now() - n % 700 * interval '1 hour' END,
    CASE WHEN n % 2 = 0 THEN now() + (n % 1500 - 750) * interval '1 hour' END, 'you', now() - n * interval '1 min'
  FROM generate_series(1, 40000) n JOIN sessions s ON s.id = CASE WHEN n % 5000 = 6 THEN 's' ELSE 's' || n % 5000 + 1 END;
UPDATE grants SET revoked_at = created_at, revoked_by = 'me' WHERE id LIKE '%7';
INSERT INTO grant_requests (id, organization_id, session_id, status, terms, created_at, expires_at, decided_by, decided_at)
  SELECT 'r' || n, s.organization_id, s.id, CASE WHEN n <= 100 THEN 'pending' ELSE 'denied' END, '{}', now() - n * interval '1 min',
    now() - (n - 50) * interval '1 min', CASE WHEN n > 100 THEN 'me' END, CASE WHEN n > 100 THEN now() - n * interval '1 min' END
  FROM generate_series(1, 40000) n JOIN sessions s ON s.id = CASE WHEN n % 5000 = 6 THEN 's' ELSE 's' || n % 5000 + 1 END;
ANALYZE`

func TestGrantQueriesUseTheirIndexOnPostgres(t *testing.T) {
	db := openPostgres(t, Config{})
	if _, err := db.db.Write.DB.DB.ExecContext(t.Context(), grantRows); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"grants for a call":                 `Index Scan( Backward)? using grants_covering`,
		"grants in a place":                 `Index Scan( Backward)? using grants_covering`,
		"use":                               `Index Scan( Backward)? using grants_pkey`,
		"revoke":                            `Index Scan( Backward)? using grants_pkey`,
		"list":                              `Index Scan( Backward)? using grants_list`,
		"list of a session":                 `Index Scan( Backward)? using grants_session`,
		"list for everybody":                `Index Scan( Backward)? using grants_session`,
		"list for a session":                `(Index Scan using|Bitmap Index Scan on) grants_`,
		"requests":                          `Index Scan( Backward)? using grant_requests_list`,
		"inbox":                             `Index Scan( Backward)? using grant_requests_`,
		"requests of a session":             `grant_requests_session`,
		"recent requests":                   `grant_requests_session`,
		"look for overdue requests":         `grant_requests_expiry`,
		"expire requests":                   `(?s)grant_requests_expiry.*sessions_`,
		"look for old grants by expires_at": `Index (Only )?Scan using grants_expired`,
		"look for old grants by revoked_at": `Index (Only )?Scan using grants_revoked`,
		"look for old grants by spent_at":   `Index (Only )?Scan using grants_spent`,
		"look for old grant_requests by expires_at": `Index (Only )?Scan using grant_requests_age`,
		"sweep old grants by expires_at":            `(?s)grants_expired.*Tid Scan on grants`,
		"sweep old grants by revoked_at":            `(?s)grants_revoked.*Tid Scan on grants`,
		"sweep old grants by spent_at":              `(?s)grants_spent.*Tid Scan on grants`,
		"sweep old grant_requests by expires_at":    `(?s)grant_requests_age.*Tid Scan on grant_requests`,
	}
	for name, query := range grantQueries(db) {
		plan := explainPostgres(t, db, query)
		if want[name] == "" || !regexp.MustCompile(want[name]).MatchString(plan) || strings.Contains(plan, "Seq Scan on grant") || strings.Contains(plan, "Seq Scan on sessions") {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}
