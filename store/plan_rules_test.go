package store

import (
	"regexp"
	"strings"
	"testing"

	"sallyport/ingest/event"
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/inbound"
)

// ruleQueries are those of what comes in and of workers who look for what is due.
func ruleQueries(db *DB) map[string]string {
	now := database.NewTimestamp(db.db.Now())
	later := database.Timestamp{Time: now.Time.AddDate(0, 0, 1)}
	t := &event.Trigger{Organization: "o7", Provider: "slack", Integration: "i7"}
	return map[string]string{
		"a trigger":                db.db.Read.NewSelect().Model((*inbound.TriggerRow)(nil)).Where("id = ?", "t7").String(),
		"an automation's id":       db.db.Read.NewSelect().Table("automations").ColumnExpr("count(*)").Where("id = ?", "a7").String(),
		"an automation's webhooks": inbound.SelectWebhookTriggers(db.db.Read, "a7", "slack").String(),
		"a provider's triggers":    inbound.ActiveTriggers(db.db.Read, "o7", "slack").String(),
		"an automation's triggers": inbound.SelectTriggers(db.db.Read, "o7", "a7").String(),
		"all triggers":             inbound.SelectTriggers(db.db.Read, "o7", "").String(),
		"an automation's schedule": inbound.SelectSchedules(db.db.Read, "o7", "a7").String(),
		"secrets that are over":    inbound.ExpiredSecrets(now.Time).Find(db.db.Read.NewSelect(), 100).String(),
		"secrets":                  inbound.SelectLiveSecrets(db.db.Read, "o7", "t7", now).String(),
		"those of an account":      connect.AccountIntegrationsQuery(db.db.Read, "slack", "a7").String(),
		"what is due":              inbound.DuePolls(db.db.Read.NewSelect(), now).String(),
		"taking what is due":       inbound.ClaimPoll(db.db.Read, "w", now, later).String(),
		"how quick a group is":     inbound.MinPollSeconds(db.db.Read, t).String(),
	}
}

func TestRuleQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db, _ := preparedFile(t)
	want := map[string]string{
		"a trigger":                "sqlite_autoindex_triggers_1 (id=?)",
		"an automation's id":       "automations_id (id=?)",
		"an automation's webhooks": "triggers_automation (automation_id=?)",
		"a provider's triggers":    "triggers_provider (organization_id=? AND provider=?",
		"an automation's triggers": "triggers_",
		"all triggers":             "triggers_list (organization_id=?)",
		"an automation's schedule": "schedules_list (organization_id=?)",
		"secrets that are over":    "signing_secrets_age (expires_at<?)",
		"secrets":                  "signing_secrets_owner (organization_id=? AND owner_id=?)",
		"those of an account":      "integrations_account_of (provider=? AND account=?)",
		"what is due":              "poll_groups_due (next_at<?)",
		"taking what is due":       "poll_groups_due (next_at<?)",
		"how quick a group is":     "triggers_provider (organization_id=? AND provider=? AND enabled=?)",
	}
	for name, query := range ruleQueries(db) {
		plan := explain(t, db, query)
		if want[name] == "" || !strings.Contains(plan, want[name]) || strings.Contains(plan, "SCAN") {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}

const manyRules = `
INSERT INTO organizations (id, name, created_at) SELECT 'o' || n, 'O', now() FROM generate_series(0, 99) n;
INSERT INTO automations (organization_id, id, name, enabled, instructions, created_by, created_at, updated_at)
  SELECT 'o' || n % 100, 'a' || n, 'a' || n, true, '', 'me', now(), now() FROM generate_series(0, 4999) n;
INSERT INTO triggers (id, organization_id, automation_id, name, kind, provider, type, enabled, config, created_by, created_at, updated_at)
  SELECT 't' || n, 'o' || n % 100, 'a' || n % 5000, 't', 'webhook', 'slack' || n % 7, 'x', true, '{}', 'me', now(), now() FROM generate_series(0, 9999) n;
INSERT INTO schedules (id, organization_id, automation_id, name, cron, time_zone, enabled, missed, created_by, created_at, updated_at)
  SELECT 's' || n, 'o' || n % 100, 'a' || n % 5000, 's', 'x', 'UTC', true, 'once', 'me', now(), now() FROM generate_series(0, 4999) n;
INSERT INTO signing_secrets (id, organization_id, owner_id, sealed, created_at)
  SELECT 's' || n, 'o' || n % 100, 't' || n % 10000, 'x', now() FROM generate_series(0, 9999) n;
INSERT INTO integrations (id, organization_id, provider, kind, account, name, visibility, holder, timeout_seconds, status, revision, version, created_by, created_at, updated_at)
  SELECT 'i' || n, 'o' || n % 100, 'slack', 'oauth2', 'a' || n / 2, 'n', 'organization', '', 0, 'active', 1, 1, 'me', now(), now() FROM generate_series(0, 9999) n;
INSERT INTO poll_groups (id, organization_id, provider, integration_id, poll_seconds, next_at, failures, turn)
  SELECT 'g' || n, 'o' || n % 100, 'slack', 'i' || n, 60, now() + (n - 50) * interval '1 minute', 0, 0 FROM generate_series(0, 9999) n;
ANALYZE`

func TestRuleQueriesUseTheirIndexOnPostgres(t *testing.T) {
	db := openPostgres(t, Config{})
	if _, err := db.db.Write.DB.DB.ExecContext(t.Context(), manyRules); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a trigger":                "triggers_pkey",
		"an automation's id":       "automations_id",
		"an automation's webhooks": "triggers_automation",
		"a provider's triggers":    "triggers_(provider|list)",
		"an automation's triggers": "triggers_(automation|list)",
		"all triggers":             "triggers_(list|provider)",
		"an automation's schedule": "schedules_list",
		"secrets that are over":    "signing_secrets_age",
		"secrets":                  "signing_secrets_owner",
		"those of an account":      "integrations_account_of",
		"what is due":              "poll_groups_due",
		"taking what is due":       "poll_groups_due",
		"how quick a group is":     "triggers_(provider|list)",
	}
	for name, query := range ruleQueries(db) {
		plan := explainPostgres(t, db, query)
		if want[name] == "" || !regexp.MustCompile(want[name]).MatchString(plan) || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s: no %s in the plan of %s\n%s", name, want[name], query, plan)
		}
	}
}
