package store

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/people"
	"sallyport/store/sessions"
)

// instanceQueries are asked every second or with every request of a session.
func instanceQueries(db *DB) map[string]string {
	now, old := time.Now(), time.Now().Add(-9*time.Minute)
	return map[string]string{
		"signals":           database.Signals(db.db.Read, now.Add(-5*time.Second), 100).String(),
		"look for signals":  database.ExpiredSignals(old).Find(db.db.Read.NewSelect(), 1).String(),
		"sweep signals":     database.ExpiredSignals(old).Remove(db.db.Read, 100).String(),
		"ended":             db.db.Read.NewRaw(sessions.MCPSessionEndedSQL, DefaultOrganization, "session 7").String(),
		"look for MCP ends": sessions.ExpiredMCPSessions(now).Find(db.db.Read.NewSelect(), 1).String(),
		"sweep MCP ends":    sessions.ExpiredMCPSessions(now).Remove(db.db.Read, 100).String(),
		"look for API keys": people.ExpiredAPIKeys(now).Find(db.db.Read.NewSelect(), 1).String(),
		"sweep API keys":    people.ExpiredAPIKeys(now).Remove(db.db.Read, 100).String(),
		"versions":          history.VersionsQuery(db.db.Read).String(),
	}
}

func TestInstanceQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db := openAt(t, newPath(t))
	want := map[string][]string{
		"signals":           {"SEARCH signal_row USING INDEX signals_time (created_at>?)"},
		"look for signals":  {"signals_time (created_at<?)"},
		"sweep signals":     {"signals_time (created_at<?)", "sqlite_autoindex_signals_1 (id=?)"},
		"ended":             {"SEARCH ended_mcp_sessions USING PRIMARY KEY (organization_id=? AND session=?)"},
		"look for MCP ends": {"ended_mcp_sessions_expiry (expires_at<?)"},
		"sweep MCP ends":    {"ended_mcp_sessions_expiry (expires_at<?)", "USING PRIMARY KEY (organization_id=? AND session=?)"},
		"look for API keys": {"api_keys_expiry (expires_at<?)"},
		"sweep API keys":    {"api_keys_expiry (expires_at<?)", "sqlite_autoindex_api_keys_1 (id=?)"},
		"versions":          {"SCAN organizations USING INDEX sqlite_autoindex_organizations_1"},
	}
	for name, query := range instanceQueries(db) {
		plan := explain(t, db, query)
		for _, w := range want[name] {
			if !strings.Contains(plan, w) {
				t.Errorf("%s: no %s in the plan of %s\n%s", name, w, query, plan)
			}
		}
		if len(want[name]) == 0 || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: the plan of %s\n%s", name, query, plan)
		}
	}
}

// instanceRows are what a busy deployment holds: signals of ten minutes, ended
// sessions of a day, and few pending calls among many that ended.
const instanceRows = `
INSERT INTO organizations (id, name, created_at) SELECT 'o' || n, 'O', now() FROM generate_series(1, 20) n;
INSERT INTO signals (id, organization_id, session, kind, created_at, data)
  SELECT 'i' || n, 'default', 's' || n, 'k', now() - n * interval '0.03 s', '{}' FROM generate_series(1, 20000) n;
INSERT INTO ended_mcp_sessions (organization_id, session, expires_at)
  SELECT 'default', 'session ' || n, now() + (n - 20) * interval '4 s' FROM generate_series(1, 20000) n;
INSERT INTO users (id, organization_id, name, role, created_at) VALUES ('u', 'default', 'u', 'owner', now());
INSERT INTO api_keys (id, organization_id, user_id, name, role, hash, created_at, expires_at)
  SELECT 'k' || n, 'default', 'u', 'k', 'owner', repeat('h', 16), now(), now() + (n - 20) * interval '4 s' FROM generate_series(1, 5000) n;
INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at)
  SELECT 's' || n, 'o' || n, 'interactive', 'coding', 'me', now() FROM generate_series(1, 20) n;
INSERT INTO open_calls (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at,
    policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params)
  SELECT 'i' || n, 'o' || n % 20 + 1, 's' || n % 20 + 1, 'pending', 1, 0, now(), now(), now() + interval '5 min',
    1, 'linear', 'x', 'h' || n, '', '', 'write', 'require_approval', 'inferred', 'Linear', '[]', repeat('x', 200)
  FROM generate_series(1, 100) n;
INSERT INTO invocations (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at, completed_at,
    policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params)
  SELECT 'i' || n, 'o' || n % 20 + 1, 's' || n % 20 + 1, 'expired', 1, 0, now(), now(), now() + interval '5 min', now(),
    1, 'linear', 'x', 'h' || n, '', '', 'write', 'require_approval', 'inferred', 'Linear', '[]', repeat('x', 200)
  FROM generate_series(101, 30000) n;
ANALYZE`

func TestInstanceQueriesUseTheirIndexOnPostgres(t *testing.T) {
	db := openPostgres(t, Config{})
	if _, err := db.db.Write.DB.DB.ExecContext(t.Context(), instanceRows); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"signals":           `Index Scan using signals_time on signals`,
		"look for signals":  `Index (Only )?Scan using signals_time on signals`,
		"sweep signals":     `(?s)Limit.*Index Scan using signals_time.*Tid Scan on signals`,
		"ended":             `Index Only Scan using ended_mcp_sessions_pkey`,
		"look for MCP ends": `Index (Only )?Scan using ended_mcp_sessions_expiry`,
		"sweep MCP ends":    `(?s)Limit.*Index Scan using ended_mcp_sessions_expiry.*Tid Scan on ended_mcp_sessions`,
		"look for API keys": `Index (Only )?Scan using api_keys_expiry`,
		"sweep API keys":    `(?s)Limit.*Index Scan using api_keys_expiry.*Tid Scan on api_keys`,
		"versions":          `on organizations`,
	}
	for name, query := range instanceQueries(db) {
		var plan []string
		if err := db.db.Read.NewRaw("EXPLAIN "+query).Scan(t.Context(), &plan); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		if want[name] == "" || !regexp.MustCompile(want[name]).MatchString(text) {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, text)
		}
		for _, table := range []string{"signals", "ended_mcp_sessions", "api_keys", "invocations"} {
			if strings.Contains(text, fmt.Sprintf("Seq Scan on %s", table)) {
				t.Errorf("%s reads all of %s:\n%s", name, table, text)
			}
		}
	}
}
