package store

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/connect"
	"sallyport/store/database"
)

// connectorQueries are those of calls that ask their callers, and of sign-ins.
func connectorQueries(db *DB) map[string]string {
	now := time.Now()
	return map[string]string{
		"who is asking":   calls.OpenRounds(db.db.Read, []string{"i7", "i8", "i9"}).String(),
		"take a round":    calls.TakeableRound(db.db.Read, "default", "i7", action.ClientElicitsForm, database.NewTimestamp(now), database.NewTimestamp(now)).String(),
		"look for rounds": calls.ExpiredRounds(now).Find(db.db.Read.NewSelect(), 1).String(),
		"sweep rounds":    calls.ExpiredRounds(now).Remove(db.db.Read, 100).String(),
		"its replies":     "SELECT key FROM round_replies WHERE round_id = 'r7'",
		"its calls":       "SELECT id FROM rounds WHERE invocation_id = 'i7'", // as the foreign key asks
		"open sign-ins":   connect.OAuthFlowsQuery(db.db.Read, "o").String(),
		"its sign-ins":    "SELECT state_hash FROM oauth_flows WHERE organization_id = 'o' AND connector_id = 'c7'",
		"its tokens":      db.db.Read.NewSelect().Model(&connect.OAuthGrantRow{OAuthGrant: action.OAuthGrant{Organization: "o", Connector: "c7"}}).WherePK().String(),
		"a sign-in":       "SELECT by FROM oauth_flows WHERE state_hash = 's7'",
	}
}

func TestConnectorQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db := openAt(t, newPath(t))
	want := map[string]string{
		"who is asking":   "rounds_invocation (invocation_id=?)",
		"take a round":    "rounds_invocation (invocation_id=?)",
		"look for rounds": "rounds_age (until<?)",
		"sweep rounds":    "rounds_age (until<?)",
		"its replies":     "PRIMARY KEY (round_id=?)",
		"its calls":       "rounds_invocation (invocation_id=?)",
		"open sign-ins":   "oauth_flows_connector (organization_id=?)",
		"its sign-ins":    "oauth_flows_connector (organization_id=? AND connector_id=?)",
		"its tokens":      "sqlite_autoindex_oauth_grants_1 (organization_id=? AND connector_id=?)",
		"a sign-in":       "PRIMARY KEY (state_hash=?)",
	}
	for name, query := range connectorQueries(db) {
		plan := explain(t, db, query)
		if want[name] == "" || !strings.Contains(plan, want[name]) || strings.Contains(plan, "SCAN") {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}

const connectorRowsSQL = `
INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at) VALUES ('s', 'default', 'interactive', 'coding', 'me', now());
INSERT INTO invocations (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, completed_at,
    policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params)
  SELECT 'i' || n, 'default', 's', 'expired', 1, 0, now(), now(), now(),
    1, 'linear', 'x', 'h' || n, '', '', 'write', 'require_approval', 'inferred', 'Linear', '[]', '{}' FROM generate_series(1, 20000) n;
INSERT INTO rounds (id, organization_id, invocation_id, session_id, needs, keys, asked_at, until, closed_at)
  SELECT 'r' || n, 'default', 'i' || n, 's', 1, '["a"]', now(), now() - n * interval '1 s', now() FROM generate_series(1, 20000) n;
INSERT INTO round_replies (round_id, key, at, sealed) SELECT 'r' || n % 20000 + 1, 'k' || n, now(), 'x' FROM generate_series(1, 40000) n;
INSERT INTO organizations (id, name, created_at) SELECT 'o' || n, 'O', now() FROM generate_series(1, 200) n;
INSERT INTO organizations (id, name, created_at) VALUES ('o', 'O', now());
INSERT INTO connectors (id, organization_id, name, slug, url, enabled, revision, created_at, updated_at)
  SELECT 'c' || n, CASE WHEN n < 50 THEN 'o' ELSE 'o' || n % 200 + 1 END, 'c' || n, 'c' || n, 'https://c.example.com', true, 1, now(), now()
  FROM generate_series(1, 5000) n;
INSERT INTO oauth_grants (organization_id, connector_id, issuer, status, updated_at, version, sealed)
  SELECT organization_id, id, 'https://i', 'connected', now(), 1, 'x' FROM connectors;
INSERT INTO oauth_flows (state_hash, organization_id, connector_id, by, expires_at, sealed)
  SELECT 's' || id, organization_id, id, 'me', now(), 'x' FROM connectors;
ANALYZE`

func TestConnectorQueriesUseTheirIndexOnPostgres(t *testing.T) {
	db := openPostgres(t, Config{})
	if _, err := db.db.Write.DB.DB.ExecContext(t.Context(), connectorRowsSQL); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"who is asking":   "rounds_invocation",
		"take a round":    "rounds_invocation",
		"look for rounds": "rounds_age",
		"sweep rounds":    `(?s)Limit.*Index Scan using rounds_age.*Tid Scan on rounds`,
		"its replies":     "round_replies_pkey",
		"its calls":       "rounds_invocation",
		"open sign-ins":   "oauth_flows_connector",
		"its sign-ins":    "oauth_flows_connector",
		"its tokens":      "oauth_grants_pkey",
		"a sign-in":       "oauth_flows_pkey",
	}
	for name, query := range connectorQueries(db) {
		plan := explainPostgres(t, db, query)
		if want[name] == "" || !regexp.MustCompile(want[name]).MatchString(plan) || strings.Contains(strings.ReplaceAll(plan, "Seq Scan on open_calls", ""), "Seq Scan") {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}
