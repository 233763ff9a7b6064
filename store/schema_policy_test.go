package store

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/database"
)

func TestPolicyConstraints(t *testing.T) {
	onBoth(t, impossiblePolicyIsImpossible)
}

func impossiblePolicyIsImpossible(t *testing.T, raw *sql.DB) {
	for _, text := range []string{
		`INSERT INTO connectors (id, organization_id, name, slug, url, enabled, revision, created_at, updated_at) VALUES ('c', 'default', 'c', 'c', 'https://c.example.com', TRUE, 1, 'T', 'T')`,
		`INSERT INTO capabilities (organization_id, group_id, provider, level, granted_by, granted_at) VALUES ('default', 'g', 'p', 2, 'me', 'T')`,
		`INSERT INTO gate_approvals (id, organization_id, group_id, task_id, gate, approved_by, approved_at, expires_at) VALUES ('a', 'default', 'g', 't', 'Security', 'me', 'T', 'T')`,
		`INSERT INTO quotas (organization_id, source_id, action, per, calls, seconds, updated_by, updated_at) VALUES ('default', 's', 'x', 'session', 1, 1, 'me', 'T')`,
		`INSERT INTO tool_reviews (organization_id, connector_id, tool, current_behaviour, current_text, current_definition, seen_at) VALUES ('default', 'c', 'x', 'h', 'h', '{}', 'T')`,
		`INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at) VALUES ('s', 'default', 'interactive', 'coding', 'me', 'T')`,
		`INSERT INTO policy_events (id, organization_id, kind, subject, by, at, before, after) VALUES ('e', 'default', 'mode', 's', 'me', 'T', 'null', 'null')`,
	} {
		if err := change(t, raw, text); err != nil {
			t.Fatal(err)
		}
	}
	refusal := regexp.MustCompile("constraint failed|violates|invalid input syntax for type timestamp|history does not change|what a session is does not change")
	for name, text := range map[string]string{
		"an unknown level":               "capabilities SET level = 4",
		"production without a gate":      "capabilities SET level = 3",
		"a gate without a name":          "capabilities SET required_gate = ''",
		"calls without a window":         "capabilities SET rate_calls = 1",
		"a rate of nothing":              "capabilities SET rate_calls = 0, rate_seconds = 1",
		"a window of days":               "capabilities SET rate_calls = 1, rate_seconds = 86401",
		"revoked by nobody":              "capabilities SET revoked_at = 'T'",
		"revoked at no time":             "capabilities SET revoked_by = 'me'",
		"granted by nobody":              "capabilities SET granted_by = ''",
		"granted at noon":                "capabilities SET granted_at = 'noon'",
		"a group of no name":             "capabilities SET group_id = ''",
		"an organization that is none":   "capabilities SET organization_id = 'other'",
		"an approval for nothing":        "gate_approvals SET actions = '[]'",
		"approved by nobody":             "gate_approvals SET approved_by = ''",
		"an approval for ever":           "gate_approvals SET expires_at = NULL",
		"an approval for no task":        "gate_approvals SET task_id = ''",
		"an unknown scope":               "quotas SET per = 'hour'",
		"a quota of nothing":             "quotas SET calls = 0",
		"a quota of no time":             "quotas SET seconds = 0",
		"an unknown rule":                "connectors SET review = 'maybe'",
		"no risks that are some":         "connectors SET tool_risks = '{}'",
		"a review of nothing":            "tool_reviews SET reviewed_by = 'me', reviewed_at = 'T'",
		"a review by nobody":             "tool_reviews SET reviewed_behaviour = 'h', reviewed_text = 'h', reviewed_definition = '{}', reviewed_at = 'T'",
		"a review without texts":         "tool_reviews SET reviewed_behaviour = 'h', reviewed_definition = '{}', reviewed_by = 'me', reviewed_at = 'T'",
		"half a tool":                    "tool_reviews SET current_text = NULL",
		"a tool without a definition":    "tool_reviews SET current_definition = NULL",
		"a tool that is nothing":         "tool_reviews SET current_behaviour = NULL, current_text = NULL, current_definition = NULL",
		"a definition that is too large": "tool_reviews SET current_definition = '" + strings.Repeat("x", 1<<20+1) + "'",
		"a tool of another organization": "tool_reviews SET organization_id = 'other'",
		"a choice that is none":          "organizations SET self_approval = 2",
		"a limit below none":             "organizations SET denial_limit = -1",
		"a default group of no name":     "organizations SET default_group = ''",
		"history that changes":           "policy_events SET before = before",
		"a session in another's name":    "sessions SET created_by = 'you'",
		"a session of another group":     "sessions SET group_id = 'x'",
		"a session for another task":     "sessions SET task_id = 'T-2'",
	} {
		if err := change(t, raw, "UPDATE "+text); err == nil || !refusal.MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := change(t, raw, "DELETE FROM policy_events"); err == nil || !strings.Contains(err.Error(), "history does not change") {
		t.Errorf("history that goes: %v", err)
	}
	mustExec(t, raw, "DELETE FROM connectors")
	var left int
	if err := raw.QueryRowContext(t.Context(), "SELECT count(*) FROM tool_reviews").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d tools are left of a connector that went (%v)", left, err)
	}
}

// TestPolicyOfAnEarlierVersion: what was there before there were reviews and
// settings goes on as it was.
func TestPolicyOfAnEarlierVersion(t *testing.T) {
	path := newPath(t)
	for name, c := range map[string]Config{"SQLite": {Path: path}, "Postgres": {URL: dbtest.Postgres(t)}} {
		t.Run(name, func(t *testing.T) {
			earlier(t, c)
			db, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer db.db.Close()
			ctx := t.Context()
			got, err := db.Connector(ctx, "o", "c")
			if err != nil || got.Review != action.ReviewTrust || got.Risks != nil || got.Revision != 4 {
				t.Errorf("the connector: %+v, %v", got, err)
			}
			rules, err := db.Rules(ctx, "o")
			if err != nil || rules.Settings != action.DefaultSettings() || rules.Version != 7 || len(rules.Overrides) != 1 {
				t.Errorf("the rules: %+v, %v", rules, err)
			}
			s, err := db.Session(ctx, "s")
			if err != nil || s.Event != "" {
				t.Errorf("the session: %+v, %v", s, err)
			}
			tools := map[string]action.ToolVersion{"x": {ToolHashes: action.ToolHashes{Behaviour: "h", Text: "t"}, Definition: []byte("{}")}}
			if changed, err := db.ObserveTools(ctx, "o", "c", 4, tools); err != nil || !changed {
				t.Fatalf("the first list is no news (%v)", err)
			}
			if rules, err = db.Rules(ctx, "o"); err != nil || !maps.Equal(rules.Reviewed, map[action.Key]action.ToolHashes{{Source: "connector:c", Action: "x"}: tools["x"].ToolHashes}) {
				t.Errorf("what is reviewed: %v, %v", rules.Reviewed, err)
			}
		})
	}
}

// earlier makes the tables of migration 0002, with rows.
func earlier(t *testing.T, c Config) {
	t.Helper()
	db, release, err := c.OpenForMigration()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(db.Close(), release()) }()
	all, err := database.Migrations(c.URL != "")
	if err != nil {
		t.Fatal(err)
	}
	old := fstest.MapFS{}
	for _, name := range []string{"0001_start.sql", "0002_instances.sql"} {
		text, err := fs.ReadFile(all, name)
		if err != nil {
			t.Fatal(err)
		}
		old[name] = &fstest.MapFile{Data: text}
	}
	if _, err := database.MigrateFiles(t.Context(), db, old, c.WithDefaults().Now); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`INSERT INTO organizations (id, name, policy_version, created_at) VALUES ('o', 'O', 7, '%[1]s')`,
		`INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at) VALUES ('s', 'o', 'interactive', 'coding', 'me', '%[1]s')`,
		`INSERT INTO connectors (id, organization_id, name, slug, url, enabled, revision, created_at, updated_at) VALUES ('c', 'o', 'c', 'c', 'https://c.example.com', TRUE, 4, '%[1]s', '%[1]s')`,
		`INSERT INTO policy_overrides (organization_id, automation_id, source_id, action, mode, updated_by, updated_at) VALUES ('o', '', 'connector:c', '*', 'allow', 'me', '%[1]s')`,
	} {
		mustExec(t, db.DB, fmt.Sprintf(text, when))
	}
}
