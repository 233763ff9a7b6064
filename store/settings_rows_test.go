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

// settingsTables are those whose rows [TestStoredSettings] compares.
var settingsTables = []string{
	"automations", "triggers", "schedules", "capabilities", "policy_overrides", "gate_approvals", "quotas", "organizations", "grants",
	"connectors", "integrations", "provider_apps", "policy_events",
}

// accountTables are the tables whose rows [TestStoredAccounts] compares.
var accountTables = []string{
	"users", "removed_users", "api_keys", "secrets", "notify_channels", "run_endpoints", "workspaces", "repositories", "variables", "env_requests",
	"logins", "login_links", "oauth_grants", "oauth_flows", "integration_flows", "signing_secrets", "policy_events",
}

// TestStoredSettings compares each column of the tables of settings,
// and the history of their changes, with what the version before stored: rows
// outlive versions, and history is exported.
func TestStoredSettings(t *testing.T) {
	compareRows(t, "settings", settingsTables, changeSettings)
}

// TestStoredAccounts does the same with the tables of users and
// credentials, and with requests that people answer.
func TestStoredAccounts(t *testing.T) {
	compareRows(t, "accounts", accountTables, changeAccounts)
}

func compareRows(t *testing.T, name string, tables []string, change func(*testing.T, *DB, time.Time, func()) string) {
	onBothOpen(t, func(t *testing.T, db *DB, raw *sql.DB) {
		now := time.Date(2026, 1, 2, 3, 4, 5, 120_000_678, time.FixedZone("", 3600))
		db.db.TimeNow = func() time.Time { return now }
		words := change(t, db, now, func() { now = now.Add(time.Second) })
		if err := db.db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, table := range tables {
			text.WriteString(dumpTable(t, raw, table, database.Shared(db.db.Read)))
		}
		compareGolden(t, name+"_"+strings.ToLower(filepath.Base(t.Name())), text.String())
		compareGolden(t, name+"_words", words)
	})
}

// answers collects the JSON of what the database returns, and ticks after each call.
type answers struct {
	*testing.T
	tick func()
	list []string
}

func (a *answers) keep(v any, err error) {
	a.Helper()
	if a.ok(err); err != nil {
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		a.Fatal(err)
	}
	a.list = append(a.list, string(text))
}

func (a *answers) ok(err error) {
	a.Helper()
	if a.tick(); err != nil {
		a.Fatal(err)
	}
}

// generatedID matches an ID of version 7.
var generatedID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]+`)

func (a *answers) text() string {
	return generatedID.ReplaceAllString(strings.Join(a.list, "\n")+"\n", "<id>")
}

// changeSettings writes, changes and removes rows of each table, and returns the
// JSON of what the database answers; it ticks between them.
func changeSettings(t *testing.T, db *DB, now time.Time, tick func()) string {
	a := &answers{T: t, tick: tick}
	keep, ok, ctx, org := a.keep, a.ok, t.Context(), DefaultOrganization
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
	return a.text()
}

// changeAccounts writes, changes and removes rows of [accountTables].
func changeAccounts(t *testing.T, db *DB, now time.Time, tick func()) string {
	a := &answers{T: t, tick: tick}
	keep, ok, ctx, org := a.keep, a.ok, t.Context(), DefaultOrganization
	later := now.AddDate(100, 0, 0) // the server compares keys with its own clock

	ok(db.CreateUser(ctx, action.User{ID: "u1", Organization: org, Name: "Ann <é>", Role: action.RoleOwner}, "me"))
	ok(db.CreateUser(ctx, action.User{ID: "u2", Organization: org, Name: "Bob", Role: action.RoleMember, CreatedAt: now.Add(-time.Hour)}, "me"))
	ok(db.SetUserRole(ctx, org, "u2", action.RoleAdmin, "u1"))
	ok(db.SetUserRole(ctx, org, "u2", action.RoleAdmin, "nobody: it is the same"))
	in := action.Identity{Organization: org, Issuer: "https://idp.example", Subject: "s1", Name: "Bob", Role: action.RoleMember, AssertedAt: now}
	bob, err := db.AdmitUser(ctx, in)
	keep(bob, err)
	keep(db.AdmitUser(ctx, in))
	in.Role, in.AssertedAt = action.RoleAdmin, now.Add(time.Minute)
	keep(db.AdmitUser(ctx, in))
	in.Name, in.AssertedAt = "Ann <é>", now.Add(2*time.Minute)
	keep(db.AdmitUser(ctx, in))
	keep(db.User(ctx, org, bob.ID))
	in.Subject, in.Name, in.Role = "s2", "Eve", action.RoleOwner
	eve, err := db.AdmitUser(ctx, in)
	keep(eve, err)

	hash := strings.Repeat("h", 16)
	ok(db.CreateAPIKey(ctx, action.APIKey{ID: "k1", Organization: org, User: "u2", Name: "ci", Role: action.RoleOwner, Scope: action.ScopeRuns, ExpiresAt: &later}, hash+"1"))
	ok(db.CreateAPIKey(ctx, action.APIKey{ID: "k2", Organization: org, User: "u1", Role: action.RoleMember, CreatedAt: now.Add(-time.Hour)}, hash+"2"))
	ok(db.CreateAPIKey(ctx, action.APIKey{ID: "k3", Organization: org, User: bob.ID, Name: "his", Role: action.RoleMember}, hash+"3"))
	ok(db.TouchAPIKey(ctx, "k1", now))
	ok(db.Flush(ctx))
	ok(db.RenewAPIKey(ctx, org, "k1", later.Add(time.Hour)))
	ok(db.RevokeAPIKey(ctx, org, "k2", now))
	ok(db.RevokeAPIKey(ctx, org, "k2", later))
	for _, id := range []string{"k1", "k2"} {
		key, stored, err := db.APIKey(ctx, id)
		keep([]any{key, stored}, err)
	}
	keep(db.CutOffUser(ctx, org, "https://idp.example", "s1"))
	keep(db.ListAPIKeys(ctx, org))
	ok(db.DeleteUser(ctx, org, eve.ID, "u1"))
	ok(db.DeleteUser(ctx, org, bob.ID, "u1"))
	keep(db.RemovedUsers(ctx, org))
	ok(db.ReadmitUser(ctx, org, bob.ID, action.RoleAdmin, "u1"))
	keep(db.ListUsers(ctx, org))

	ok(db.PutSecret(ctx, action.Secret{Organization: org, Key: "token", Host: "Docs.example:8443", UpdatedBy: "me"}, []byte{1, 2}))
	ok(db.PutSecret(ctx, action.Secret{Organization: org, Key: "other", Host: "other.example", UpdatedBy: "me", CreatedAt: now.Add(-time.Hour)}, []byte{3}))
	ok(db.SecretUsed(ctx, org, "token", now))
	ok(db.Flush(ctx))
	ok(db.PutSecret(ctx, action.Secret{Organization: org, Key: "token", Host: "docs.example", UpdatedBy: "you", CreatedAt: now.Add(-time.Minute)}, []byte{4}))
	secret, sealed, err := db.SecretValue(ctx, org, "token")
	keep([]any{secret, sealed}, err)
	keep(db.ListSecrets(ctx, org))
	ok(db.DeleteSecret(ctx, org, "other"))

	hook := action.NotifyChannel{Organization: org, Kind: action.NotifyWebhook, Enabled: true, Wants: action.WantsAll, URL: "https://hooks.example/path", UpdatedBy: "me"}
	keepChannel := func(c action.NotifyChannel, err error) {
		t.Helper()
		keep([]any{c, c.Sealed}, err)
	}
	keepChannel(db.SetNotifyChannel(ctx, hook, &event.Secret{ID: "s1", Sealed: []byte{9}}))
	hook.Wants, hook.UpdatedBy = action.WantsDanger, "you"
	keepChannel(db.SetNotifyChannel(ctx, hook, nil))
	slack := action.NotifyChannel{Organization: org, Kind: action.NotifySlack, Wants: action.WantsUnattended, Sealed: []byte{8}, UpdatedBy: "me"}
	keepChannel(db.SetNotifyChannel(ctx, slack, nil))
	slack.Sealed, slack.Integration, slack.Target, slack.Enabled = nil, "i1", "C1", true
	keepChannel(db.SetNotifyChannel(ctx, slack, nil))
	keepChannel(db.SetNotifyChannel(ctx, slack, nil))
	keep(db.NotifyChannels(ctx, ""))
	ok(db.DeleteNotifyChannel(ctx, org, action.NotifyWebhook, "me"))
	keepChannel(db.NotifyChannel(ctx, org, action.NotifySlack))

	end := event.Endpoint{Organization: org, URL: "https://runs.example/a", Enabled: true, UpdatedBy: "me"}
	keep(db.SetRunEndpoint(ctx, end, &event.Secret{ID: "s2", Sealed: []byte{7}}))
	end.Enabled, end.UpdatedBy = false, "you"
	keep(db.SetRunEndpoint(ctx, end, nil))
	keep(db.SetRunEndpoint(ctx, end, nil))
	ok(db.DeleteRunEndpoint(ctx, org, "me"))
	keep(db.SetRunEndpoint(ctx, end, nil))
	keep(db.RunEndpoint(ctx, org))

	call := action.ToolCall{Organization: org, Session: "s1", Tool: "save", ID: "1", Invocation: "i", ParamsHash: "h"}
	keep(db.AddRepository(ctx, action.Repository{ID: "r1", Organization: org, Host: "git.example", Path: "Acme/Shop", CreatedBy: "u1"}, "u1"))
	keep(db.CheckedRepository(ctx, org, "r1", "main", "it's <gone>", db.Now()))
	keep(db.PutVariables(ctx, action.SealedVariable{Variable: action.Variable{Organization: org, Name: "A", UpdatedBy: "u1"}, Sealed: []byte("sealed")}))
	for i, group := range []string{"", "g"} {
		call.Session = fmt.Sprint("s", i)
		keep(db.CreateWorkspace(ctx, action.Workspace{
			ID: fmt.Sprint("w", i), Organization: org, Name: "shop " + group, Repositories: []action.WorkspaceRepository{{Repository: "r1", Branch: "next"}},
			Size: action.SizeSmall, WorkHosts: []string{"*.example.com"}, CreatedBy: "u1",
		}))
		keep(db.CreateSession(ctx, action.Session{ID: call.Session, Organization: org, Type: action.TypeSetup, Group: group, Workspace: fmt.Sprint("w", i), CreatedBy: "u1"}))
		keep(db.SaveEnvFiles(ctx, call, json.RawMessage(` [{"path" : ".env <é>"}] `)))
	}
	call.ID = "2"
	keep(db.SaveServiceCommands(ctx, call, json.RawMessage(`[{"name":"a"}]`)))
	call.ID = "3"
	keep(db.SaveServiceCommands(ctx, call, json.RawMessage(`[]`)))
	keep(db.Workspace(ctx, org, "w1"))
	keep(db.ListWorkspaces(ctx, org))
	keep(db.ListRepositories(ctx, action.RepositoryFilter{Organization: org}))
	keep(db.ListVariables(ctx, org, "w1"))

	var asked []action.EnvRequest
	yes := true
	for _, key := range []string{"A", "B", "C", "D"} {
		keys := []action.EnvKey{{Key: key, Description: "it's <é> & more", Type: "secret", Required: &yes, Suggestions: []action.EnvSuggestion{{Label: "<x>"}}}}
		r, created, err := db.RequestEnv(ctx, org, "s1", keys)
		keep([]any{r, created}, err)
		again, created, err := db.RequestEnv(ctx, org, "s1", keys)
		keep([]any{again, created}, err)
		asked = append(asked, r)
	}
	keep(db.DecideEnv(ctx, action.EnvVerdict{Organization: org, ID: asked[0].ID, By: "u1", Sealed: []byte{5}, Names: []string{"A"}}))
	values, err := db.TakeEnv(ctx, org, "s1", "taker")
	keep(len(values), err)
	keep(db.DecideEnv(ctx, action.EnvVerdict{Organization: org, ID: asked[1].ID, By: "u1", Note: "No <é>"}))
	keep(db.DecideEnv(ctx, action.EnvVerdict{Organization: org, ID: asked[2].ID, By: "u1", Sealed: []byte{6}, Names: []string{"C"}}))
	keep(db.EnvRequest(ctx, org, asked[0].ID))
	keep(db.ListEnvRequests(ctx, action.EnvFilter{Organization: org, Status: action.EnvPending}))
	keep(db.SweepEnv(ctx, now.Add(48*time.Hour), 10))
	keep(db.ListEnvRequests(ctx, action.EnvFilter{Organization: org}))

	for i, via := range []action.Via{"", "passkey"} {
		code := fmt.Sprint(hash, i)
		ok(db.CreateLoginLink(ctx, action.LoginLink{Organization: org, User: "u1", CodeHash: code, KeyHash: hash, Via: via}))
		keep(db.RedeemLoginLink(ctx, code, hash+"cookie"+code, action.Login{ID: "l" + fmt.Sprint(i), ExpiresAt: now.Add(time.Hour)}, db.db.Now()))
	}
	ok(db.CreateLoginLink(ctx, action.LoginLink{Organization: org, User: "u1", CodeHash: hash + "unused", KeyHash: hash, ExpiresAt: now.Add(3 * time.Minute)}))
	login, key, err := db.Login(ctx, hash+"cookie"+hash+"0")
	keep([]any{login, key}, err)
	keep(db.ListLogins(ctx, org, "u1"))
	ok(db.EndLogin(ctx, org, "u1", "l0"))
	keep(db.LoginEnd(ctx, hash+"cookie"+hash+"0"))

	for _, id := range []string{"c1", "c2"} {
		ok(db.CreateConnector(ctx, action.Connector{ID: id, Organization: org, Name: "Wiki " + id, Slug: id, URL: "https://docs.example/mcp", Enabled: true, OAuth: &action.OAuthSettings{Kind: action.OAuthCode}}, nil, "me"))
	}
	ok(db.PutOAuthFlow(ctx, action.OAuthFlow{StateHash: hash + "1", Organization: org, Connector: "c1", By: "u1", ExpiresAt: later, Sealed: []byte{1}}))
	ok(db.PutOAuthFlow(ctx, action.OAuthFlow{StateHash: hash + "2", Organization: org, Connector: "c2", By: "u1", ExpiresAt: later, Sealed: []byte{2}}))
	oauthFlow, err := db.TakeOAuthFlow(ctx, hash+"1", now)
	keep(oauthFlow, err)
	tokens := action.OAuthGrant{Organization: org, Connector: "c1", Issuer: "https://auth.example", ClientID: "id", Scope: "a b", Status: action.OAuthConnected, Reason: "old", By: "u1", ExpiresAt: &later, Sealed: []byte{3}}
	ok(db.PutOAuthGrant(ctx, tokens))
	tokens.Version, tokens.Sealed, tokens.ExpiresAt, tokens.By, tokens.UpdatedAt = 1, []byte{4}, nil, "", now
	ok(db.PutOAuthGrant(ctx, tokens))
	tokens.Connector, tokens.Version, tokens.Status, tokens.Reason, tokens.By, tokens.UpdatedAt = "c2", 0, action.OAuthReconnect, "Sign in.", "u1", time.Time{}
	ok(db.PutOAuthGrant(ctx, tokens))
	stored, err := db.OAuthGrant(ctx, org, "c1")
	keep([]any{stored, stored.Version, stored.Sealed}, err)
	keep(db.ListOAuthGrants(ctx, org))
	ok(db.DeleteOAuthGrant(ctx, org, "c2", "me"))
	for i := range 2 {
		ok(db.PutIntegrationFlow(ctx, action.IntegrationFlow{StateHash: fmt.Sprint(hash, i), Organization: org, Provider: "slack", By: "u1", Login: "l", ExpiresAt: later, Sealed: []byte{5}}))
	}
	keep(db.TakeIntegrationFlow(ctx, org, hash+"0", "u1", "l", now))
	return a.text()
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
			lines[i] = generatedID.ReplaceAllString(fmt.Sprintf("  %s: %T %q", name, v, fmt.Sprint(v)), "<id>")
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
