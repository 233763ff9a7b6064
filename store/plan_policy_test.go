package store

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/policy"
)

// policyQueries are those of an organization "o" that has much of everything.
func policyQueries(db *DB) map[string]string {
	now := database.NewTimestamp(time.Now())
	after := database.Cursor{Time: database.NewTimestamp(time.Now().Add(-time.Hour)), ID: "id"}
	events := func(f action.PolicyEventFilter) string {
		f.Organization = "o"
		return history.PolicyEventsQuery(f, db.db.Read, after, 50).String()
	}
	return map[string]string{
		"modes":                     selectOverrides(db.db.Read, "o").String(),
		"capabilities":              policy.CapabilitiesQuery(db.db.Read, "o", "").String(),
		"capabilities of a group":   policy.CapabilitiesQuery(db.db.Read, "o", "g7").String(),
		"quotas":                    policy.QuotasQuery(db.db.Read, "o").String(),
		"gates":                     policy.GatesQuery(db.db.Read, "o", "", "").String(),
		"gates of a group":          policy.GatesQuery(db.db.Read, "o", "g7", "").String(),
		"gates of a task":           policy.GatesQuery(db.db.Read, "o", "", "t7").String(),
		"gates of both":             policy.GatesQuery(db.db.Read, "o", "g7", "t7").String(),
		"open gates":                policy.OpenGatesQuery(db.db.Read, "o", now).String(),
		"tools of a connector":      connect.ReviewsQuery(db.db.Read, "o", "c7").String(),
		"reviewed tools":            connect.ReviewedToolsQuery(db.db.Read, "o").String(),
		"history":                   events(action.PolicyEventFilter{}),
		"history of a kind":         events(action.PolicyEventFilter{Kind: "gate"}),
		"history of a subject":      events(action.PolicyEventFilter{Subject: "s7"}),
		"history of both":           events(action.PolicyEventFilter{Kind: "gate", Subject: "s7"}),
		"history of a person":       events(action.PolicyEventFilter{By: "me7"}),
		"count of a kind's history": history.FilterPolicyEvents(action.PolicyEventFilter{Organization: "o", Kind: "gate"}, db.db.Read.NewSelect().Table("policy_events")).ColumnExpr("1").Limit(database.MaxCount + 1).String(),
	}
}

func TestPolicyQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db := openAt(t, newPath(t))
	want := map[string]string{
		"modes":                     "PRIMARY KEY (organization_id=?)",
		"capabilities":              "sqlite_autoindex_capabilities_1 (organization_id=?)",
		"capabilities of a group":   "sqlite_autoindex_capabilities_1 (organization_id=? AND group_id=?)",
		"quotas":                    "PRIMARY KEY (organization_id=?)",
		"gates":                     "gate_approvals_list (organization_id=?)",
		"gates of a group":          "gate_approvals_group (organization_id=? AND group_id=?)",
		"gates of a task":           "gate_approvals_task (organization_id=? AND task_id=?)",
		"gates of both":             "gate_approvals_task (organization_id=? AND task_id=?)",
		"open gates":                "gate_approvals_open (organization_id=? AND expires_at>?)",
		"tools of a connector":      "sqlite_autoindex_tool_reviews_1 (organization_id=? AND connector_id=?)",
		"reviewed tools":            "sqlite_autoindex_tool_reviews_1 (organization_id=?)",
		"history":                   "policy_events_list (organization_id=? AND (at,id)<(?,?))",
		"history of a kind":         "policy_events_kind (organization_id=? AND kind=? AND (at,id)<(?,?))",
		"history of a subject":      "policy_events_subject (organization_id=? AND subject=? AND (at,id)<(?,?))",
		"history of both":           "(organization_id=? AND ",
		"history of a person":       "policy_events_by (organization_id=? AND by=? AND (at,id)<(?,?))",
		"count of a kind's history": "policy_events_kind (organization_id=? AND kind=?)",
	}
	for name, query := range policyQueries(db) {
		plan := explain(t, db, query)
		if want[name] == "" || !strings.Contains(plan, want[name]) || strings.Contains(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}

const policyRows = `
INSERT INTO organizations (id, name, created_at) SELECT 'o' || n, 'O', now() FROM generate_series(1, 20) n;
INSERT INTO organizations (id, name, created_at) VALUES ('o', 'O', now());
INSERT INTO policy_overrides (organization_id, automation_id, source_id, action, mode, updated_by, updated_at)
  SELECT 'o' || n % 20 + 1, '', 's', 'x' || n, 'allow', 'me', now() FROM generate_series(1, 20000) n;
INSERT INTO capabilities (organization_id, group_id, provider, level, granted_by, granted_at)
  SELECT 'o' || n % 20 + 1, 'g' || n % 100, 'p' || n, 1, 'me', now() FROM generate_series(1, 20000) n;
INSERT INTO quotas (organization_id, source_id, action, per, calls, seconds, updated_by, updated_at)
  SELECT 'o' || n % 20 + 1, 's', 'x' || n, 'session', 1, 1, 'me', now() FROM generate_series(1, 20000) n;
INSERT INTO gate_approvals (id, organization_id, group_id, task_id, gate, approved_by, approved_at, expires_at)
  SELECT 'g' || n, CASE n % 2 WHEN 0 THEN 'o' ELSE 'o1' END, 'g' || n % 50, 't' || n % 5000, 'Security', 'me', now() - (20000 - n) * interval '1 min',
    now() - (19900 - n) * interval '1 min' FROM generate_series(1, 20000) n;
INSERT INTO connectors (id, organization_id, name, slug, url, enabled, revision, created_at, updated_at)
  SELECT 'c' || n, 'o', 'c' || n, 'c' || n, 'https://c.example.com', true, 1, now(), now() FROM generate_series(1, 50) n;
INSERT INTO connectors (id, organization_id, name, slug, url, enabled, revision, created_at, updated_at)
  SELECT 'd' || n, 'o1', 'c' || n, 'c' || n, 'https://c.example.com', true, 1, now(), now() FROM generate_series(1, 50) n;
INSERT INTO tool_reviews (organization_id, connector_id, tool, current_behaviour, current_text, current_definition, seen_at)
  SELECT 'o1', 'd' || n % 50 + 1, 't' || n, 'h', 'h', repeat('x', 500), now() FROM generate_series(1, 10000) n;
INSERT INTO tool_reviews (organization_id, connector_id, tool, current_behaviour, current_text, current_definition, seen_at,
    reviewed_behaviour, reviewed_text, reviewed_definition, reviewed_by, reviewed_at)
  SELECT 'o', 'c' || n % 50 + 1, 't' || n, 'h', 'h', repeat('x', 500), now(), 'h', 'h', repeat('x', 500), 'me', now() FROM generate_series(1, 2000) n;
INSERT INTO policy_events (id, organization_id, kind, subject, by, at, before, after)
  SELECT 'e' || n, CASE n % 2 WHEN 0 THEN 'o' ELSE 'o1' END, CASE n % 200 WHEN 0 THEN 'gate' ELSE 'grant' END, 's' || n % 4000, 'me' || n % 300,
    now() - (20000 - n) * interval '1 min', 'null', 'null' FROM generate_series(1, 20000) n;
ANALYZE`

func TestPolicyQueriesUseTheirIndexOnPostgres(t *testing.T) {
	db := openPostgres(t, Config{})
	if _, err := db.db.Write.DB.DB.ExecContext(t.Context(), policyRows); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"modes":                     "policy_overrides_pkey",
		"capabilities":              "capabilities_pkey",
		"capabilities of a group":   "capabilities_pkey",
		"quotas":                    "quotas_pkey",
		"gates":                     "Index Scan Backward using gate_approvals_list",
		"gates of a group":          "gate_approvals_group",
		"gates of a task":           "gate_approvals_task",
		"gates of both":             "gate_approvals_task",
		"open gates":                "gate_approvals_open",
		"tools of a connector":      "tool_reviews_pkey",
		"reviewed tools":            "tool_reviews_pkey",
		"history":                   "Index Scan Backward using policy_events_list",
		"history of a kind":         "policy_events_kind",
		"history of a subject":      "policy_events_subject",
		"history of both":           "policy_events_(kind|subject)",
		"history of a person":       "policy_events_by",
		"count of a kind's history": "policy_events_kind",
	}
	for name, query := range policyQueries(db) {
		plan := explainPostgres(t, db, query)
		if want[name] == "" || !regexp.MustCompile(want[name]).MatchString(plan) || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}
