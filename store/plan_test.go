package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/calls"
	"sallyport/store/database"
	"sallyport/store/policy"
)

// hotQuery is one that is asked often: it must not grow with the rows at rest.
type hotQuery struct {
	name, sql string
	sqlite    []string // each must stand in SQLite's plan
	postgres  []string // likewise
	sorts     bool     // PostgreSQL may sort: there are few rows at most
	merges    bool     // both may sort: it merges lists with a limit
	scans     bool     // it may read the table: a limit ends that soon
}

// hotQueries are those of an organization "o" with a session "s".
func hotQueries(db *DB) []hotQuery {
	now := time.Now()
	rules := action.SweepRules{Now: now, SeenBefore: now.Add(-2 * time.Minute), ApprovedBefore: now.Add(-5 * time.Minute), LeaseBefore: now, Limit: 100}
	alone := rules
	alone.SoleInstance = "me"
	after := database.Cursor{Time: database.NewTimestamp(now.Add(-time.Hour)), ID: "id"}
	text := func(query string, args ...any) string { return db.db.Read.NewRaw(query, args...).String() }
	// The lists of open and of ended calls; of one status there is one.
	list := func(i int, f action.InvocationFilter) string {
		f.Organization = "o"
		return searchFor(f).Lists[i].SelectPage(db.db.Read, "o", searchFor(f).F.TimeRange().Until(after), 50).String()
	}
	count := func(i int, f action.InvocationFilter) string {
		f.Organization = "o"
		return searchFor(f).Lists[i].Match(db.db.Read.NewSelect(), "o", calls.TimeRange{}).ColumnExpr("1").Limit(database.MaxCount + 1).String()
	}
	places := func(f action.InvocationFilter) string {
		f.Organization = "o"
		return searchFor(f).SelectCursors(db.db.Read, searchFor(f).F.TimeRange().Until(after), 250).String()
	}
	among := func(f action.InvocationFilter) string {
		f.Organization = "o"
		return searchFor(f).SelectMatching(db.db.Read.NewSelect().Table("all_calls").Column("id"), []database.Cursor{{ID: "i7"}, {ID: "i17"}, {ID: "i27"}}).String()
	}
	everything := action.InvocationFilter{
		Session: "s", Run: "r", Automation: "a", Group: "g", Person: "me", Statuses: []action.Status{"completed"}, Source: "linear", Action: "x",
		Risk: "write", Mode: "allow",
	}
	between := "(created_at,id)>(?,?) AND (created_at,id)<(?,?))"
	since := now.AddDate(0, 0, -7)
	const byID = "USING INDEX sqlite_autoindex_invocations_1 (id=?)"
	one := []string{"invocations_pkey"}
	const openByID = "USING INDEX sqlite_autoindex_open_calls_1 (id=?)"
	oneOpen := []string{"open_calls_pkey"}
	queries := []hotQuery{
		{name: "load", sql: text(calls.LoadSQL, nil, "o", "i7"), sqlite: []string{byID, openByID}, postgres: append(one, oneOpen...)},
		{
			name: "begin", sql: text(calls.CheckSQL, nil, "o", "s", "linear", "x", "hash 7", database.NewTimestamp(now), "k", 1, 1, database.NewTimestamp(now.Add(-15*time.Minute)), 3, 0),
			sqlite: []string{
				"SEARCH s USING INDEX sqlite_autoindex_sessions_2 (organization_id=? AND id=?)",
				"SEARCH k USING PRIMARY KEY (organization_id=? AND session_id=? AND source_id=? AND action=? AND key=?)",
				"open_calls_once (organization_id=? AND session_id=? AND source_id=? AND action=? AND params_hash=?)",
				"invocations_undelivered (organization_id=? AND session_id=? AND source_id=? AND action=? AND params_hash=? AND pickup_until>?)",
				"invocations_refused (organization_id=? AND session_id=? AND source_id=? AND action=? AND params_hash=? AND completed_at>?)",
				"invocations_refused (organization_id=? AND session_id=? AND source_id=? AND action=?)\n",
				"open_calls_session (organization_id=? AND session_id=?)",
			},
			postgres: []string{"sessions_", "idempotency_keys_pkey", "open_calls_once", "invocations_undelivered", "invocations_refused", "open_calls_"},
		},
		{
			name: "finish", sqlite: []string{openByID}, postgres: oneOpen,
			sql: text(calls.FinishSQL(db.db.Shared()), append([]any{nil}, calls.FinishArgs(&action.Finish{Organization: "o", ID: "i7", Executor: "e", Status: action.StatusCompleted, Now: now})...)...),
		},
		{name: "delivered", sql: text(calls.DeliveredSQL, nil, database.NewTimestamp(now), "o", "i7"), sqlite: []string{byID}, postgres: one},
		{name: "approve", sql: text(calls.ApproveSQL, nil, "me", database.NewTimestamp(now), "o", "i7", "s", "p", "t"), sqlite: []string{openByID, "sqlite_autoindex_sessions_2 (organization_id=? AND id=?)"}, postgres: []string{"open_calls_"}},
		{name: "deny", sql: text(calls.DenySQL(db.db.Shared()), nil, "me", database.NewTimestamp(now), "o", "i7", "s", "p", "t", nil), sqlite: []string{openByID}, postgres: []string{"open_calls_"}}, // its key, or what a session has pending
		{name: "claim", sql: text(calls.ClaimSQL, nil, "e", database.NewTimestamp(now), database.NewTimestamp(now), "o", "i7"), sqlite: []string{openByID}, postgres: oneOpen},
		{name: "seen", sql: calls.MarkSeen(db.db.Read, []string{"i7", "i8"}, database.NewTimestamp(now)).String(), sqlite: []string{openByID}, postgres: oneOpen, sorts: true},
		{name: "policy", sql: text(policy.OverridesSQL, nil, "o"), sqlite: []string{"SEARCH p USING PRIMARY KEY (organization_id=?)"}, sorts: true},
		{
			name: "events", sql: "SELECT * FROM invocation_events WHERE organization_id = 'o' AND invocation_id = 'i7' ORDER BY at, id",
			sqlite: []string{"invocation_events_list (organization_id=? AND invocation_id=?)"}, postgres: []string{"invocation_events_"}, sorts: true,
		},
		{name: "list", sql: list(1, action.InvocationFilter{}), sqlite: []string{"invocations_list (organization_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"invocations_list"}},
		{name: "list of open calls", sql: list(0, action.InvocationFilter{}), sqlite: []string{"open_calls_list (organization_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"open_calls_"}, sorts: true},
		{name: "open list of a session", sql: list(0, action.InvocationFilter{Session: "s"}), sqlite: []string{"open_calls_session (organization_id=? AND (session_id,created_at,id)>(?,?,?) AND (session_id,created_at,id)<(?,?,?))"}, postgres: []string{"open_calls_"}, sorts: true},
		{name: "open list of a person", sql: list(0, action.InvocationFilter{Person: "me", From: since}), sqlite: []string{"open_calls_list (organization_id=? AND " + between}, postgres: []string{"open_calls_"}, sorts: true},
		{name: "list of a session", sql: list(1, action.InvocationFilter{Session: "s"}), sqlite: []string{"invocations_session (organization_id=? AND (session_id,created_at,id)>(?,?,?) AND (session_id,created_at,id)<(?,?,?))"}, postgres: []string{"invocations_session"}},
		{name: "inbox", sql: list(0, action.InvocationFilter{Statuses: []action.Status{"pending"}}), sqlite: []string{"open_calls_inbox (organization_id=? AND (status,created_at,id)>(?,?,?) AND (status,created_at,id)<(?,?,?))"}, postgres: []string{"open_calls_"}, sorts: true},
		{name: "list by status", sql: list(0, action.InvocationFilter{Statuses: []action.Status{"completed"}}), sqlite: []string{"invocations_inbox (organization_id=? AND (status,created_at,id)>(?,?,?) AND (status,created_at,id)<(?,?,?))"}, postgres: []string{"invocations_"}},
		{name: "count", sql: count(1, action.InvocationFilter{}), sqlite: []string{"SEARCH invocations USING COVERING INDEX invocations_"}, scans: true},
		{name: "count of open calls", sql: count(0, action.InvocationFilter{}), sqlite: []string{"SEARCH open_calls USING COVERING INDEX open_calls_"}, scans: true},
		{name: "count of the inbox", sql: count(0, action.InvocationFilter{Statuses: []action.Status{"pending"}}), sqlite: []string{"COVERING INDEX open_calls_inbox (organization_id=? AND (status,created_at,id)>(?,?,?) AND (status,created_at,id)<(?,?,?))"}, postgres: []string{"open_calls_inbox"}},
		{name: "count of a session", sql: count(1, action.InvocationFilter{Session: "s"}), sqlite: []string{"COVERING INDEX invocations_session (organization_id=? AND (session_id,created_at,id)>(?,?,?) AND (session_id,created_at,id)<(?,?,?))"}, postgres: []string{"invocations_session"}},
		{name: "list of a week", sql: list(1, action.InvocationFilter{From: since}), sqlite: []string{"invocations_list (organization_id=? AND " + between}, postgres: []string{"invocations_list"}},
		{name: "list of a person", sql: list(1, action.InvocationFilter{Person: "me", From: since}), sqlite: []string{"invocations_person (organization_id=? AND (approved_by,created_at,id)>(?,?,?) AND (approved_by,created_at,id)<(?,?,?))"}, postgres: []string{"invocations_person"}, sorts: true},
		{name: "list of dangers", sql: list(1, action.InvocationFilter{Risk: "danger", From: since}), sqlite: []string{"invocations_danger (organization_id=? AND " + between}, postgres: []string{"invocations_danger"}, sorts: true},
		{name: "list of a mode", sql: list(1, action.InvocationFilter{Mode: "deny", From: since}), sqlite: []string{"invocations_mode (organization_id=? AND (mode,created_at,id)>(?,?,?) AND (mode,created_at,id)<(?,?,?))"}, postgres: []string{"invocations_mode"}, sorts: true},
		{name: "places of all", sql: places(action.InvocationFilter{Source: "linear", From: since}), sqlite: []string{"COVERING INDEX invocations_list (organization_id=? AND " + between}, postgres: []string{"invocations_list"}, merges: true},
		{name: "places of a session", sql: places(action.InvocationFilter{Session: "s", Statuses: []action.Status{"completed"}}), sqlite: []string{"COVERING INDEX invocations_session (organization_id=? AND (session_id,created_at,id)>(?,?,?) AND (session_id,created_at,id)<(?,?,?))"}, postgres: []string{"invocations_session"}, sorts: true},
		{name: "places of a status", sql: places(action.InvocationFilter{Statuses: []action.Status{"completed"}, Source: "linear"}), sqlite: []string{"COVERING INDEX invocations_inbox (organization_id=? AND (status,created_at,id)>(?,?,?) AND (status,created_at,id)<(?,?,?))"}, postgres: []string{"invocations_"}},
		{name: "places of a person", sql: places(action.InvocationFilter{Person: "me", Source: "linear"}), sqlite: []string{"COVERING INDEX invocations_person (organization_id=? AND (approved_by,created_at,id)>(?,?,?) AND (approved_by,created_at,id)<(?,?,?))"}, postgres: []string{"invocations_person"}, merges: true},
		{name: "places of an automation", sql: places(action.InvocationFilter{Automation: "a", From: since}), sqlite: []string{"PRIMARY KEY (organization_id=? AND (kind,name,created_at,id)>(?,?,?,?) AND (kind,name,created_at,id)<(?,?,?,?))"}, postgres: []string{"invocation_origins_pkey"}, sorts: true},
		{name: "places of a group", sql: places(action.InvocationFilter{Group: "g", From: since}), sqlite: []string{"PRIMARY KEY (organization_id=? AND (kind,name,created_at,id)>(?,?,?,?) AND (kind,name,created_at,id)<(?,?,?,?))"}, postgres: []string{"invocation_origins_pkey"}, sorts: true},
		{name: "among places", sql: among(everything), sqlite: []string{byID, "SEARCH s USING INDEX sqlite_autoindex_sessions_1 (id=?)"}, postgres: []string{"invocations_pkey"}, sorts: true},
		{name: "unclaimed", sql: calls.SelectUnclaimed(db.db.Read, now, 10).String(), sqlite: []string{"open_calls_unclaimed (approved_at<?)"}, postgres: []string{"open_calls_unclaimed"}},
		{name: "look for old keys", sql: calls.ExpiredKeys(db.db.Read.NewSelect(), rules, 1).Column("k.invocation_id").String(), sqlite: []string{"idempotency_keys_age (created_at<?)", "sqlite_autoindex_invocations_1 (id=?)"}, postgres: []string{"idempotency_keys_age", "invocations_pkey"}},
		{name: "sweep old keys", sql: calls.DeleteExpiredKeys(db.db.Read, rules).String(), sqlite: []string{"idempotency_keys_age (created_at<?)", "sqlite_autoindex_invocations_1 (id=?)"}, postgres: []string{"idempotency_keys_age", "invocations_pkey", "Tid Scan on idempotency_keys"}},
		{name: "login", sql: "SELECT * FROM logins WHERE cookie_hash = 'cookie 7 0000000000'", sqlite: []string{"SEARCH logins USING INDEX sqlite_autoindex_logins"}, postgres: []string{"logins_cookie_hash_key"}},
	}
	kinds := [][]calls.Sweep{calls.Sweeps(rules)}
	if !db.db.Shared() { // otherwise no instance is alone
		kinds = append(kinds, calls.Sweeps(alone))
	}
	for _, kind := range kinds {
		for _, s := range kind {
			index, column := sweepIndex(s.Name)
			byKey := "sqlite_autoindex_open_calls_1 (id=?)"
			if s.Name == "sealed" {
				byKey = "sqlite_autoindex_invocations_1 (id=?)"
			}
			queries = append(
				queries,
				hotQuery{name: "look for " + s.Name, sql: s.Select(db.db.Read.NewSelect(), 1).String(), sqlite: []string{index + column}, postgres: []string{index}},
				hotQuery{name: "sweep " + s.Name, sql: s.Update(db.db.Read, 100).String(), sqlite: []string{index + column, byKey}, postgres: []string{index}, sorts: s.Name != "sealed"},
			)
		}
	}
	return queries
}

func sweepIndex(what string) (index, column string) {
	switch what {
	case "expired":
		return "open_calls_expiry", " (expires_at<?)"
	case "withdrawn":
		return "open_calls_silent", " (created_at<?)"
	case "unclaimed":
		return "open_calls_unclaimed", " (approved_at<?)"
	case "sealed":
		return "invocations_sealed", " (pickup_until<?)"
	}
	return "open_calls_lease", "" // without a bound when there is one instance
}

func TestHotQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db := openAt(t, newPath(t))
	for _, q := range hotQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			bad := []string{"SCAN invocations\n", "SCAN open_calls\n", "SCAN i\n", "TEMP B-TREE"}
			if q.merges {
				bad = bad[:3]
			}
			checkPlan(t, q.sql, explain(t, db, q.sql), q.sqlite, bad)
		})
	}
	t.Run("several statuses", func(t *testing.T) {
		plan := explain(t, db, severalStatuses(db))
		if strings.Count(plan, "_inbox (organization_id=? AND (status,created_at,id)>(?,?,?) AND (status,created_at,id)<(?,?,?))") != 2 {
			t.Errorf("each status should be looked up in order:\n%s", plan)
		}
	})
}

// searchFor is the search of a filter, whose run has one session.
func searchFor(f action.InvocationFilter) *calls.Search {
	whole := calls.InvocationFilter{InvocationFilter: f}
	if f.Run != "" {
		whole.Sessions = []string{"s"}
	}
	return whole.Search()
}

// severalStatuses takes one look-up each.
func severalStatuses(db *DB) string {
	f := action.InvocationFilter{Organization: "o", Statuses: []action.Status{"pending", "completed"}}
	return searchFor(f).SelectCursors(db.db.Read, calls.TimeRange{Before: database.Cursor{Time: database.NewTimestamp(time.Now().Add(-time.Hour)), ID: "id"}}, 50).String()
}

func checkPlan(t *testing.T, query, plan string, want, bad []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(plan, w) {
			t.Errorf("no %s in the plan", w)
		}
	}
	for _, b := range bad {
		if strings.Contains(plan, b) {
			t.Errorf("%s in the plan", strings.TrimSpace(b))
		}
	}
	if t.Failed() {
		t.Logf("%s\n%s", query, plan)
	}
}

// busy fills PostgreSQL as a deployment is after some weeks: nearly all calls
// ended, a few run, and many wait for people of whom the statistics, which are
// always late, know nothing yet.
const busy = `
ALTER TABLE invocations SET (autovacuum_enabled = off); -- statistics are those of the ANALYZE below
ALTER TABLE open_calls SET (autovacuum_enabled = off);
INSERT INTO organizations (id, name, created_at) SELECT 'o' || n, 'O', now() FROM generate_series(1, 9) n;
INSERT INTO organizations (id, name, created_at) VALUES ('o', 'O', now());
INSERT INTO sessions (id, organization_id, kind, type, group_id, created_by, created_at)
  SELECT 's' || n, CASE WHEN n <= 200 THEN 'o' ELSE 'o' || n % 9 + 1 END, 'interactive', 'coding', CASE WHEN n % 9 = 0 THEN 'g' END, 'me', now() FROM generate_series(1, 400) n;
INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at) VALUES ('s', 'o', 'interactive', 'coding', 'me', now());
CREATE TEMP TABLE made (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at, approved_at,
    started_at, lease_until, completed_at, pickup_until, delivered_at, policy_version, source_id, action, params_hash, tool_hash, revision,
    risk, mode, mode_source, executor, approved_by, denied_reason, source_name, decision, params, result, sealed_result) AS
  SELECT 'i' || n, s.organization_id, s.id, r.status, n % 2, 0, born, born,
    NULL::timestamptz,
    CASE WHEN r.status = 'approved' THEN now() END,
    CASE WHEN r.status IN ('executing', 'completed') THEN born END,
    CASE WHEN r.status = 'executing' THEN now() + n % 60 * interval '1 s' END,
    CASE WHEN r.status IN ('completed', 'denied') THEN born END,
    CASE WHEN r.status = 'completed' THEN born + interval '15 minutes' END,
    CASE WHEN n % 50 > 0 AND r.status = 'completed' THEN born END,
    1, 'linear', 'x', 'hash ' || n, '', '', 'write', CASE WHEN r.status = 'denied' THEN 'require_approval' ELSE 'allow' END, 'organization',
    CASE WHEN r.status IN ('executing', 'completed') THEN 'me' END, CASE WHEN r.status = 'approved' THEN 'me' END,
    CASE WHEN r.status = 'denied' THEN 'human' END, 'Linear', '[]', repeat('x', 300), repeat('y', 300),
    CASE WHEN r.status = 'completed' AND n > 37000 THEN '\x01'::bytea END
  FROM (SELECT n, now() - (38000 - n) * interval '30 s' AS born, CASE WHEN n % 10 = 0 THEN 's' ELSE 's' || n % 401 END AS session,
      CASE WHEN n > 37990 THEN 'approved' WHEN n > 37900 THEN 'executing' WHEN n % 40 = 0 THEN 'denied' ELSE 'completed' END AS status
    FROM generate_series(1, 38000) n) r JOIN sessions s ON s.id = r.session;
INSERT INTO invocations (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at, approved_at,
    started_at, lease_until, completed_at, pickup_until, delivered_at, policy_version, source_id, action, params_hash, tool_hash, revision,
    risk, mode, mode_source, executor, approved_by, denied_reason, source_name, decision, params, result, sealed_result)
  SELECT * FROM made WHERE completed_at IS NOT NULL ORDER BY created_at;
INSERT INTO open_calls (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at, approved_at,
    started_at, lease_until, policy_version, source_id, action, params_hash, tool_hash, revision,
    risk, mode, mode_source, executor, approved_by, source_name, decision, params)
  SELECT id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at, approved_at,
    started_at, lease_until, policy_version, source_id, action, params_hash, tool_hash, revision,
    risk, mode, mode_source, executor, approved_by, source_name, decision, params FROM made WHERE completed_at IS NULL;
DROP TABLE made;
INSERT INTO idempotency_keys (organization_id, session_id, source_id, action, key, invocation_id, params_hash, created_at)
  SELECT organization_id, session_id, source_id, action, 'k' || id, id, params_hash, now() - random() * interval '70 hours'
  FROM invocations WHERE created_at > now() - interval '70 hours';
INSERT INTO invocation_events (id, organization_id, invocation_id, kind, at, data)
  SELECT 'e' || id, organization_id, id, 'late_outcome', created_at, '{}' FROM invocations WHERE params_hash LIKE '%7';
INSERT INTO users (id, organization_id, name, role, created_at) SELECT 'u' || n, 'o', 'u' || n, 'admin', now() FROM generate_series(1, 100) n;
INSERT INTO logins (id, cookie_hash, key_hash, organization_id, user_id, created_at, seen_at, expires_at)
  SELECT 'l' || n, 'cookie ' || n || ' 0000000000', repeat('k', 16), 'o', 'u' || n % 100 + 1, now(), now(), now() + interval '1 day' FROM generate_series(1, 2000) n;
ANALYZE;
INSERT INTO open_calls (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at,
    policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params)
  SELECT 'p' || n, s.organization_id, s.id, 'pending', 1, 0, now(), now(), now() + n % 300 * interval '1 s',
    1, 'linear', 'x', 'hash p' || n, '', '', 'write', 'require_approval', 'inferred', 'Linear', '[]', repeat('x', 300)
  FROM generate_series(1, 5000) n JOIN sessions s ON s.id = 's' || n % 400 + 1;`

func openBusy(t *testing.T) *DB {
	t.Helper()
	url := dbtest.PostgresFrom(t, "busy", func(url string) error {
		db, err := Open(t.Context(), Config{URL: url})
		if err != nil {
			return err
		}
		_, err = db.db.Read.DB.ExecContext(t.Context(), busy)
		return errors.Join(err, db.db.Close())
	})
	db, err := Open(t.Context(), Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.db.Close() })
	return db
}

func TestHotQueriesUseTheirIndexOnPostgres(t *testing.T) {
	db := openBusy(t)
	for _, q := range hotQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			bad := []string{"Seq Scan on invocations", "Seq Scan on open_calls", "Seq Scan on idempotency_keys", "Seq Scan on logins", "Seq Scan on invocation_events"}
			if !q.sorts && !q.merges {
				bad = append(bad, "Sort")
			}
			if q.scans {
				bad = bad[2:]
			}
			checkPlan(t, q.sql, explainPostgres(t, db, q.sql), q.postgres, bad)
		})
	}
	t.Run("several statuses", func(t *testing.T) {
		plan := explainPostgres(t, db, severalStatuses(db))
		if strings.Count(plan, "Limit") != 3 || strings.Contains(plan, "Seq Scan on invocations") {
			t.Errorf("each status should be looked up in order:\n%s", plan)
		}
	})
}

func explain(t *testing.T, db *DB, query string) string {
	t.Helper()
	return readPlan(t, db, "EXPLAIN QUERY PLAN "+query, 4)
}

func explainPostgres(t *testing.T, db *DB, query string) string {
	t.Helper()
	return readPlan(t, db, "EXPLAIN "+query, 1)
}

// readPlan returns the last of the plan's columns.
func readPlan(t *testing.T, db *DB, query string, columns int) string {
	t.Helper()
	rows, err := db.db.Write.DB.DB.QueryContext(context.Background(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		dest := make([]any, columns)
		for i := range dest {
			dest[i] = new(any)
		}
		var detail string
		dest[columns-1] = &detail
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
