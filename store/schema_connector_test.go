package store

import (
	"database/sql"
	"regexp"
	"testing"

	"sallyport/action"
	"sallyport/internal/dbtest"
)

func TestRoundAndOAuthConstraints(t *testing.T) {
	onBoth(t, impossibleRoundsAndSignIns)
}

func impossibleRoundsAndSignIns(t *testing.T, raw *sql.DB) {
	seed(t, raw)
	for _, text := range []string{
		`INSERT INTO secrets (organization_id, key, host, sealed, updated_by, created_at, updated_at) VALUES ('default', 'k', 'h', BYTES, 'me', 'T', 'T')`,
		`INSERT INTO connectors (id, organization_id, name, slug, url, enabled, revision, created_at, updated_at, oauth) VALUES ('c', 'default', 'c', 'c', 'https://c.example.com', TRUE, 1, 'T', 'T', '{"kind":"x"}')`,
		`INSERT INTO oauth_grants (organization_id, connector_id, issuer, status, updated_at, version, sealed) VALUES ('default', 'c', 'https://i', 'connected', 'T', 1, BYTES)`,
		`INSERT INTO oauth_flows (state_hash, organization_id, connector_id, by, expires_at, sealed) VALUES ('s', 'default', 'c', 'me', 'T', BYTES)`,
		`INSERT INTO rounds (id, organization_id, invocation_id, session_id, needs, keys, sealed, asked_at, until) VALUES ('r', 'default', 'executing', 's', 1, '["a"]', BYTES, 'T', 'T')`,
		`INSERT INTO round_replies (round_id, key, at, sealed) VALUES ('r', 'a', 'T', BYTES)`,
	} {
		if err := change(t, raw, text); err != nil {
			t.Fatal(err)
		}
	}
	refusal := regexp.MustCompile("constraint failed|violates|invalid input syntax for type timestamp")
	for name, text := range map[string]string{
		"a question that needs nothing":    "rounds SET needs = 0",
		"a question that needs all":        "rounds SET needs = 65536",
		"a round of no questions":          "rounds SET keys = '[]'",
		"answered by nobody":               "rounds SET answered_at = 'T'",
		"an open round without questions":  "rounds SET sealed = NULL",
		"a closed round with its question": "rounds SET closed_at = 'T'",
		"a question for ever":              "rounds SET until = NULL",
		"asked at noon":                    "rounds SET asked_at = 'noon'",
		"a reply to no round":              "round_replies SET round_id = 'x'",
		"a reply to no question":           "round_replies SET key = ''",
		"a reply that says nothing":        "round_replies SET sealed = NULL",
		"OAuth and a secret":               "connectors SET secret_key = 'k'",
		"no headers that are some":         "connectors SET headers = '{}'",
		"no questions that are some":       "connectors SET may_ask = '[]'",
		"a preset without a name":          "connectors SET preset = ''",
		"tokens of no connector":           "oauth_grants SET connector_id = 'x'",
		"tokens of another organization":   "oauth_grants SET organization_id = 'other'",
		"tokens of nobody":                 "oauth_grants SET issuer = ''",
		"an unknown status":                "oauth_grants SET status = 'maybe'",
		"a reason for nothing":             "oauth_grants SET reason = 'x'",
		"tokens before the first":          "oauth_grants SET version = 0",
		"a sign-in for no connector":       "oauth_flows SET connector_id = 'x'",
		"a sign-in of nobody":              "oauth_flows SET by = ''",
		"a sign-in for ever":               "oauth_flows SET expires_at = NULL",
	} {
		if err := change(t, raw, "UPDATE "+text); err == nil || !refusal.MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustExec(t, raw, "DELETE FROM connectors")
	mustExec(t, raw, "DELETE FROM rounds")
	for _, table := range []string{"oauth_grants", "oauth_flows", "round_replies"} {
		var left int
		if err := raw.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&left); err != nil || left != 0 {
			t.Errorf("%d rows are left in %s (%v)", left, table, err)
		}
	}
}

// TestConnectorOfEarlierVersion means what it meant.
func TestConnectorOfEarlierVersion(t *testing.T) {
	path := newPath(t)
	for name, c := range map[string]Config{"SQLite": {Path: path}, "Postgres": {URL: dbtest.Postgres(t)}} {
		t.Run(name, func(t *testing.T) {
			earlier(t, c)
			db, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer db.db.Close()
			got, err := db.Connector(t.Context(), "o", "c")
			if err != nil || got.Headers != nil || got.OAuth != nil || got.MayAsk != nil || got.PerAgent || got.Preset != "" {
				t.Errorf("the connector: %+v, %v", got, err)
			}
			got.Name, got.MayAsk = "Renamed", []action.AskKind{}
			got.Headers = map[string]string{}
			if err := db.UpdateConnector(t.Context(), got, nil, "alice"); err != nil {
				t.Fatal(err)
			}
			if got, err = db.Connector(t.Context(), "o", "c"); err != nil || got.Revision != 4 {
				t.Errorf("renamed: %+v, %v", got, err)
			}
		})
	}
}
