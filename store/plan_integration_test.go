package store

import (
	"regexp"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/store/connect"
)

// integrationQueries are those of an organization "o" that disconnected a lot.
func integrationQueries(db *DB) map[string]string {
	return map[string]string{
		"all":                   connect.LiveIntegrations(db.db.Read, "o").String(),
		"visible ones":          connect.VisibleIntegrations(db.db.Read, "o", "u7").String(),
		"one of them":           connect.VisibleIntegrations(db.db.Read, "o", "u7").Where("id = ?", "i7").String(),
		"those of a user":       connect.HeldByQuery(db.db.Read, "o", "u7").String(),
		"that of an account":    connect.IntegrationQuery(db.db.Read, "o", "slack", "", "a7", false).String(),
		"a user's own":          connect.IntegrationQuery(db.db.Read, "o", "slack", "u7", "a7", true).String(),
		"those of a provider":   (&connect.ProviderAppRow{ProviderApp: action.ProviderApp{Organization: "o", Provider: "slack"}}).Users(db.db.Read).ColumnExpr("id").String(),
		"open connections":      connect.IntegrationFlowsQuery(db.db.Read, "o").String(),
		"what is bound":         connect.BindingsQuery(db.db.Read, "o", "a7").String(),
		"registrations":         db.db.Read.NewSelect().Model((*connect.ProviderAppRow)(nil)).Where("organization_id = 'o'").Order("provider").String(),
		"a connection's answer": "SELECT by FROM integration_flows WHERE state_hash = 's7'",
	}
}

func TestIntegrationQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db := openAt(t, newPath(t))
	want := map[string]string{
		"all":                   "integrations_live (organization_id=?)",
		"visible ones":          "integrations_live (organization_id=?)",
		"one of them":           "sqlite_autoindex_integrations_1 (id=?)",
		"those of a user":       "integrations_live (organization_id=?)",
		"that of an account":    "integrations_account (organization_id=? AND provider=?",
		"a user's own":          "integrations_",
		"those of a provider":   "integrations_",
		"open connections":      "integration_flows_organization (organization_id=?)",
		"what is bound":         "(organization_id=? AND automation_id=?)",
		"registrations":         "sqlite_autoindex_provider_apps_1 (organization_id=?)",
		"a connection's answer": "PRIMARY KEY (state_hash=?)",
	}
	for name, query := range integrationQueries(db) {
		plan := explain(t, db, query)
		if want[name] == "" || !strings.Contains(plan, want[name]) || strings.Contains(plan, "SCAN") {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}

const manyIntegrations = `
INSERT INTO organizations (id, name, created_at) SELECT 'o' || n, 'O', now() FROM generate_series(1, 100) n;
INSERT INTO organizations (id, name, created_at) VALUES ('o', 'O', now());
INSERT INTO integrations (id, organization_id, provider, kind, account, name, visibility, holder, timeout_seconds, status, revision, version, created_by, created_at, updated_at)
  SELECT 'i' || n, CASE WHEN n < 10000 THEN 'o' ELSE 'o' || n % 100 + 1 END, 'slack', 'oauth2', 'a' || n, 'n', 'private', 'u' || n % 1000, 0,
    CASE WHEN n % 100 = 0 THEN 'active' ELSE 'deleted' END, 1, 1, 'u' || n % 1000, now(), now() FROM generate_series(1, 20000) n;
INSERT INTO integration_flows (state_hash, organization_id, provider, by, login, expires_at, sealed)
  SELECT 's' || n, 'o' || n % 100 + 1, 'slack', 'me', 'l', now(), 'x' FROM generate_series(1, 10000) n;
INSERT INTO automation_connections (organization_id, automation_id, integration_id)
  SELECT 'o', 'a' || n % 1000, 'i' || n FROM generate_series(1, 20000) n;
INSERT INTO provider_apps (organization_id, provider, updated_by, updated_at) SELECT 'o' || n % 100 + 1, 'p' || n, 'me', now() FROM generate_series(1, 5000) n;
ANALYZE`

func TestIntegrationQueriesUseTheirIndexOnPostgres(t *testing.T) {
	db := openPostgres(t, Config{})
	if _, err := db.db.Write.DB.DB.ExecContext(t.Context(), manyIntegrations); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"all":                   "integrations_live",
		"visible ones":          "integrations_live",
		"one of them":           "integrations_pkey",
		"those of a user":       "integrations_(live|account)",
		"that of an account":    "integrations_account",
		"a user's own":          "integrations_(own|account)",
		"those of a provider":   "integrations_(live|account)",
		"open connections":      "integration_flows_organization",
		"what is bound":         "automation_connections_pkey",
		"registrations":         "provider_apps_pkey",
		"a connection's answer": "integration_flows_pkey",
	}
	for name, query := range integrationQueries(db) {
		plan := explainPostgres(t, db, query)
		if want[name] == "" || !regexp.MustCompile(want[name]).MatchString(plan) || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}
