package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

// settingsTables are those whose rows [TestSettingsAreStoredAsBefore] compares.
var settingsTables = []string{
	"automations", "triggers", "schedules", "capabilities", "policy_overrides", "gate_approvals", "quotas", "organizations", "grants",
	"connectors", "integrations", "provider_apps", "policy_events",
}

// TestSettingsAreStoredAsBefore compares each column of the tables of settings,
// and the history of their changes, with what the version before stored: rows
// outlive versions, and history is exported.
func TestSettingsAreStoredAsBefore(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, raw *sql.DB) {
		now := time.Date(2026, 1, 2, 3, 4, 5, 120_000_678, time.FixedZone("", 3600))
		db.db.TimeNow = func() time.Time { return now }
		words := changeSettings(t, db, now, func() { now = now.Add(time.Second) })
		if err := db.db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, table := range settingsTables {
			text.WriteString(dumpTable(t, raw, table, database.Shared(db.db.Read)))
		}
		compareGolden(t, "settings_"+strings.ToLower(filepath.Base(t.Name())), text.String())
		compareGolden(t, "settings_words", words)
	})
}

// changeSettings writes, changes and removes rows of each table, and returns the
// JSON of what the database answers; it ticks between them.
func changeSettings(t *testing.T, db *DB, now time.Time, tick func()) string {
	var answers []string
	ctx, org := t.Context(), DefaultOrganization
	keep := func(v any, err error) {
		t.Helper()
		if tick(); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, string(text))
	}
	ok := func(err error) {
		t.Helper()
		if tick(); err != nil {
			t.Fatal(err)
		}
	}
	later := now.Add(24 * time.Hour)

	for _, id := range []string{"a1", "a2"} {
		keep(db.CreateAutomation(ctx, event.Automation{ID: id, Organization: org, Name: "Auto " + id, Enabled: true, Instructions: "it's <b>\\ é", CreatedBy: "me"}))
	}
	keep(db.UpdateAutomation(ctx, event.Automation{ID: "a1", Organization: org, Name: "Auto", Instructions: strings.Repeat("é", 1500)}, "you"))
	keep(db.UpdateAutomation(ctx, event.Automation{ID: "a1", Organization: org, Name: "Auto", Instructions: strings.Repeat("é", 1500)}, "nobody: it is the same"))
	keep(db.Automation(ctx, org, "Auto"))
	keep(db.ListAutomations(ctx, org))

	keep(db.PutIntegration(ctx, action.Integration{
		ID: "i1", Organization: org, Provider: "slack", Kind: action.KindBotToken, Account: "T1", AccountName: "Acme", Name: "Slack",
		Visibility: action.VisibleOrganization, Scopes: []string{"a", "<b>"}, Settings: json.RawMessage(`{"x":1.50}`), CreatedBy: "me", Sealed: []byte{1, 2, 3}, ExpiresAt: &later,
	}, "me"))
	keep(db.PutIntegration(ctx, action.Integration{
		ID: "i2", Organization: org, Provider: "github", Kind: action.KindOAuth2, Broker: action.BrokerNango, Account: "A", Name: "Mine", User: "me",
		Visibility: action.VisiblePrivate, BaseURL: "https://github.example", TimeoutSeconds: 9, CreatedBy: "me", Sealed: []byte{4},
	}, "me"))
	keep(db.ChangeIntegration(ctx, action.Integration{ID: "i1", Organization: org, Name: "Slack 2", Visibility: action.VisibleOrganization, TimeoutSeconds: 7}, "you"))
	keep(db.SetIntegrationStatus(ctx, org, "i2", 0, action.IntegrationDeleted, "Gone.", "me"))
	keep(db.Integrations(ctx, org))

	trigger := event.Trigger{ID: "t1", Organization: org, Automation: "a1", Name: "T", Kind: event.Webhooks, Provider: "slack", Type: "message", Enabled: true, Config: []byte(` { "channel" : 1.50, "x":"<é>" } `), CreatedBy: "me"}
	keep(db.CreateTrigger(ctx, trigger, &event.Secret{ID: "s1", Sealed: []byte{9}}))
	trigger.ID, trigger.Kind, trigger.Integration, trigger.PollSeconds, trigger.CreatedAt = "t2", event.Polling, "i1", 60, now.Add(-time.Hour)
	keep(db.CreateTrigger(ctx, trigger, nil))
	trigger.Enabled, trigger.Name, trigger.Config = false, "Off", nil
	keep(db.UpdateTrigger(ctx, trigger, "you"))
	keep(db.ListTriggers(ctx, org, ""))
	got, err := db.Trigger(ctx, org, "t2")
	keep(string(got.Config), err)

	keep(db.CreateSchedule(ctx, event.Schedule{ID: "c1", Organization: org, Automation: "a1", Name: "daily", Cron: "0 9 * * *", TimeZone: "Europe/Berlin", Enabled: true, Missed: event.MissedOnce, NextAt: &later, CreatedBy: "me"}))
	keep(db.CreateSchedule(ctx, event.Schedule{ID: "c2", Organization: org, Automation: "a2", Name: "daily", Cron: "0 9 * * *", TimeZone: "UTC", Missed: event.MissedSkip, NextAt: &later, CreatedBy: "me"}))
	keep(db.UpdateSchedule(ctx, event.Schedule{ID: "c1", Organization: org, Name: "daily", Cron: "0 9 * * *", TimeZone: "UTC", Enabled: true, Missed: event.MissedOnce, NextAt: &now}, "you"))
	keep(db.ListSchedules(ctx, org, ""))

	capability := action.Capability{Organization: org, Group: "g", Provider: "slack", Level: action.LevelWrite, GrantedBy: "me", DeniedActions: []string{}}
	keep(db.PutCapability(ctx, capability))
	capability.Level, capability.Gate, capability.AllowedActions, capability.DeniedActions = action.LevelProduction, "Security", []string{}, []string{"post", "it's"}
	capability.Rate, capability.ExpiresAt = &action.Rate{Calls: 3, Seconds: 60}, &later
	keep(db.PutCapability(ctx, capability))
	keep(db.PutCapability(ctx, capability))
	capability.Provider = "github"
	keep(db.PutCapability(ctx, capability))
	keep(db.ListCapabilities(ctx, org, ""))
	ok(db.DeleteCapability(ctx, org, "g", "github", "you"))

	override := action.Override{Organization: org, Key: action.Key{Source: "slack", Action: "post"}, Mode: action.ModeDeny, UpdatedBy: "me"}
	ok(db.SetOverride(ctx, override))
	override.Mode = action.ModeAllow
	ok(db.SetOverride(ctx, override))
	override.UpdatedBy = "nobody: it is the same"
	ok(db.SetOverride(ctx, override))
	override.Automation, override.UpdatedBy = "a2", "me"
	ok(db.SetOverride(ctx, override))
	override.Automation = "a1"
	ok(db.SetOverride(ctx, override))
	ok(db.UnsetOverride(ctx, org, "a1", override.Key, "you"))
	list, version, err := db.Overrides(ctx, org)
	keep(fmt.Sprint(list, version), err)

	gate, err := db.ApproveGate(ctx, action.GateApproval{Organization: org, Group: "g", Task: "t", Gate: "Security", ApprovedBy: "me"})
	keep(gate, err)
	keep(db.ApproveGate(ctx, action.GateApproval{Organization: org, Group: "g", Task: "t2", Gate: "Security", Actions: []string{"slack:*"}, ApprovedBy: "me", ExpiresAt: &later}))
	ok(db.RevokeGate(ctx, org, gate.ID, "you"))
	keep(db.ListGates(ctx, org, "", ""))

	quota := action.Quota{Organization: org, Key: action.Key{Source: "slack", Action: "*"}, Per: action.PerGroup, Rate: action.Rate{Calls: 1, Seconds: 2}, UpdatedBy: "me"}
	ok(db.SetQuota(ctx, quota))
	ok(db.SetQuota(ctx, quota))
	quota.Calls = 5
	ok(db.SetQuota(ctx, quota))
	quota.Per = action.PerSession
	ok(db.SetQuota(ctx, quota))
	ok(db.UnsetQuota(ctx, org, quota.Key, action.PerSession, "you"))
	keep(db.ListQuotas(ctx, org))

	ok(db.SetSettings(ctx, org, action.Settings{DenialLimit: 7, UnverifiedEvents: true}, "me"))
	keep(db.Settings(ctx, org))

	calls := int64(4)
	grant, err := db.CreateGrant(ctx, action.Grant{Organization: org, CreatedBy: "me", Terms: action.Terms{
		Scope: action.ScopeOrganization, Source: "slack", Action: "post", Pins: map[string]json.RawMessage{"/c": json.RawMessage(`"<x>"`)}, MaxCalls: &calls, ExpiresAt: &later,
	}})
	keep(grant, err)
	keep(db.CreateGrant(ctx, action.Grant{Organization: org, CreatedBy: "me", Terms: action.Terms{Scope: action.ScopeOrganization, Any: true}}))
	keep(db.RevokeGrant(ctx, org, grant.ID, "you"))

	connector := action.Connector{ID: "k1", Organization: org, Name: "Docs", Slug: "docs", URL: "https://docs.example/mcp", Enabled: true}
	ok(db.CreateConnector(ctx, connector, nil, "me"))
	connector.ID, connector.Name, connector.Slug = "k2", "Wiki", "wiki"
	connector.Headers, connector.Risks = map[string]string{"X-A": "<1>"}, map[string]action.Risk{"rm": action.RiskDanger}
	connector.OAuth, connector.MayAsk = &action.OAuthSettings{Kind: action.OAuthCode, Scopes: []string{"r"}}, []action.AskKind{action.AskURL}
	connector.Review, connector.PerAgent, connector.Preset, connector.TimeoutSeconds = action.ReviewRequired, true, "wiki", 30
	ok(db.CreateConnector(ctx, connector, nil, "me"))
	connector.Headers, connector.OAuth, connector.DefaultRisk = map[string]string{}, nil, action.RiskWrite
	ok(db.UpdateConnector(ctx, connector, nil, "you"))
	connector.Name = "The wiki"
	ok(db.UpdateConnector(ctx, connector, nil, "you"))
	keep(db.ListConnectors(ctx, org))
	ok(db.SetOverride(ctx, action.Override{Organization: org, Key: action.Key{Source: "connector:k1", Action: "x"}, Mode: action.ModeDeny, UpdatedBy: "me"}))
	_, err = db.DeleteConnector(ctx, org, "k1", "you")
	ok(err)

	ok(db.PutProviderApp(ctx, action.ProviderApp{Organization: org, Provider: "github", ClientID: "c", Slug: "s", AppID: "1", BaseURL: "https://github.example", Secrets: []string{"b", "a"}, Sealed: []byte{7}}, "me"))
	ok(db.PutProviderApp(ctx, action.ProviderApp{Organization: org, Provider: "github", ClientID: "c2"}, "you"))
	ok(db.PutProviderApp(ctx, action.ProviderApp{Organization: org, Provider: "nango", Keys: map[string]string{"github": "gh"}}, "me"))
	ok(db.PutProviderApp(ctx, action.ProviderApp{Organization: org, Provider: "linear"}, "me"))
	keep(db.ListProviderApps(ctx, org))
	ok(db.DeleteProviderApp(ctx, org, "linear", "you"))

	ok(db.DeleteTrigger(ctx, org, "t1", "you"))
	ok(db.DeleteSchedule(ctx, org, "c1", "you"))
	ok(db.DeleteAutomation(ctx, org, "a2", "you"))
	ok(db.DeleteAutomation(ctx, org, "a1", "you"))
	ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]+`)
	return ids.ReplaceAllString(strings.Join(answers, "\n")+"\n", "<id>")
}

// dumpTable returns the rows of a table, a column a line, with the kind of its
// value as the driver has it.
func dumpTable(t *testing.T, raw *sql.DB, table string, server bool) string {
	t.Helper()
	rows, err := raw.QueryContext(context.Background(), "SELECT * FROM "+table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]+`)
	var all []string
	for rows.Next() {
		values := make([]any, len(names))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		lines := make([]string, len(names))
		for i, name := range names {
			if table == "organizations" && name == "created_at" {
				continue // before the test set the clock
			}
			v := *values[i].(*any)
			if at, ok := v.(time.Time); ok {
				v = at.UTC().Format(database.Layout)
			}
			lines[i] = ids.ReplaceAllString(fmt.Sprintf("  %s: %T %q", name, v, fmt.Sprint(v)), "<id>")
		}
		all = append(all, table+"\n"+strings.Join(lines, "\n")+"\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(was), len(is)) {
		if i >= len(was) || i >= len(is) || was[i] != is[i] {
			t.Fatalf("%s differs in line %d:\n%s\nwant\n%s", path, i+1, strings.Join(is[min(i, len(is)):min(i+3, len(is))], "\n"), strings.Join(was[min(i, len(was)):min(i+3, len(was))], "\n"))
		}
	}
}
