package store

import (
	"database/sql"
	"regexp"
	"testing"

	"sallyport/internal/dbtest"
)

func TestIntegrationConstraints(t *testing.T) {
	onBoth(t, impossibleIntegrations)
}

// integrationRows are of i, which everybody sees, and of user connections of u.
var integrationRows = []string{
	`INSERT INTO integrations (id, organization_id, provider, kind, account, name, visibility, holder, timeout_seconds, status, revision, version, sealed, created_by, created_at, updated_at)
	  VALUES ('i', 'default', 'slack', 'oauth2', 'a', 'n', 'organization', '', 0, 'active', 1, 1, BYTES, 'me', 'T', 'T')`,
	`INSERT INTO integrations (id, organization_id, provider, kind, account, name, user_id, visibility, holder, timeout_seconds, status, revision, version, created_by, created_at, updated_at)
	  VALUES ('live', 'default', 'slack', 'oauth2', 'a', 'n', 'u', 'private', 'u', 0, 'active', 1, 1, 'u', 'T', 'T')`,
	`INSERT INTO integrations (id, organization_id, provider, kind, account, name, user_id, visibility, holder, timeout_seconds, status, revision, version, created_by, created_at, updated_at)
	  VALUES ('gone', 'default', 'slack', 'oauth2', 'b', 'n', 'u', 'private', 'u', 0, 'deleted', 1, 1, 'u', 'T', 'T')`,
	`INSERT INTO provider_apps (organization_id, provider, secrets, sealed, updated_by, updated_at) VALUES ('default', 'slack', '["x"]', BYTES, 'me', 'T')`,
	`INSERT INTO integration_flows (state_hash, organization_id, provider, by, login, expires_at, sealed) VALUES ('s', 'default', 'slack', 'me', 'l', 'T', BYTES)`,
	`INSERT INTO automation_connections (organization_id, automation_id, integration_id) VALUES ('default', 'a', 'i')`,
	`INSERT INTO vault_keys (name, sealed, created_at) VALUES ('k', BYTES, 'T')`,
	`INSERT INTO connectors (id, organization_id, name, slug, url, enabled, revision, created_at, updated_at) VALUES ('c', 'default', 'c', 'c', 'https://c.example.com', TRUE, 1, 'T', 'T')`,
}

func impossibleIntegrations(t *testing.T, raw *sql.DB) {
	seed(t, raw)
	for _, text := range integrationRows {
		if err := change(t, raw, text); err != nil {
			t.Fatal(err)
		}
	}
	refusal := regexp.MustCompile("constraint failed|violates|history does not change|invalid input syntax for type timestamp")
	for name, text := range map[string]string{
		"an unknown kind":                   "integrations SET kind = 'password' WHERE id = 'i'",
		"an unknown broker":                 "integrations SET broker = 'other' WHERE id = 'i'",
		"a broker of an API key":            "integrations SET broker = 'nango', kind = 'api_key' WHERE id = 'i'",
		"an unknown visibility":             "integrations SET visibility = 'public' WHERE id = 'i'",
		"a user connection that all see":    "integrations SET visibility = 'organization', holder = '', account = 'c' WHERE id = 'live'",
		"a user connection of another":      "integrations SET holder = 'v' WHERE id = 'live'",
		"a private one that all see":        "integrations SET visibility = 'private' WHERE id = 'i'",
		"an open one that one sees":         "integrations SET holder = 'me' WHERE id = 'i'",
		"a user without an id":              "integrations SET user_id = '' WHERE id = 'live'",
		"a service without a name":          "integrations SET provider = '' WHERE id = 'i'",
		"an integration of no organization": "integrations SET organization_id = 'x' WHERE id = 'i'",
		"an integration without a name":     "integrations SET name = '' WHERE id = 'i'",
		"more time than there is":           "integrations SET timeout_seconds = 121 WHERE id = 'i'",
		"less than no time":                 "integrations SET timeout_seconds = -1 WHERE id = 'i'",
		"an unknown status":                 "integrations SET status = 'dead' WHERE id = 'i'",
		"a credential that was deleted":     "integrations SET status = 'deleted' WHERE id = 'i'",
		"a reason for nothing":              "integrations SET reason = 'x' WHERE id = 'i'",
		"no scopes that are some":           "integrations SET scopes = '[]' WHERE id = 'i'",
		"before the first revision":         "integrations SET revision = 0 WHERE id = 'i'",
		"before the first version":          "integrations SET version = 0 WHERE id = 'i'",
		"made by nobody":                    "integrations SET created_by = '' WHERE id = 'i'",
		"made at noon":                      "integrations SET created_at = 'noon' WHERE id = 'i'",
		"one account twice":                 "integrations SET user_id = NULL, visibility = 'organization', holder = '' WHERE id = 'live'",
		"one account of a user twice":       "integrations SET account = 'a' WHERE id = 'gone'",
		"two connections of a user":         "integrations SET status = 'expired' WHERE id = 'gone'",
		"a registration at nothing":         "provider_apps SET provider = ''",
		"secrets that nobody keeps":         "provider_apps SET sealed = NULL",
		"no secrets that are some":          "provider_apps SET secrets = '[]'",
		"no keys that are some":             "provider_apps SET keys = '{}'",
		"a registration of nobody":          "provider_apps SET updated_by = ''",
		"a connection of nobody":            "integration_flows SET by = ''",
		"a connection of no login":          "integration_flows SET login = ''",
		"a connection to nothing":           "integration_flows SET provider = ''",
		"a connection for ever":             "integration_flows SET expires_at = NULL",
		"a connection without its verifier": "integration_flows SET sealed = NULL",
		"a binding to nothing":              "automation_connections SET integration_id = ''",
		"a binding of nothing":              "automation_connections SET automation_id = ''",
		"a key without a name":              "vault_keys SET name = ''",
		"a key that is none":                "vault_keys SET sealed = NULL",
		"a session bound to an empty list":  "sessions SET connections = '[]'",
		"a connector with too much time":    "connectors SET timeout_seconds = 121",
	} {
		if err := change(t, raw, "UPDATE "+text); err == nil || !refusal.MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"the same account of a user":       "integrations SET visibility = 'private', holder = 'me' WHERE id = 'i'",
		"a user connection of his service": "integrations SET status = 'expired', provider = 'linear' WHERE id = 'gone'",
		"a deleted one without a reason":   "integrations SET status = 'deleted', sealed = NULL WHERE id = 'i'",
	} {
		if err := change(t, raw, "UPDATE "+text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIntegrationOfEarlierVersion is bound to nothing, and has the usual time.
func TestIntegrationOfEarlierVersion(t *testing.T) {
	for name, c := range map[string]Config{"SQLite": {Path: newPath(t)}, "Postgres": {URL: dbtest.Postgres(t)}} {
		t.Run(name, func(t *testing.T) {
			earlier(t, c)
			db, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer db.db.Close()
			connector, err := db.Connector(t.Context(), "o", "c")
			if err != nil || connector.TimeoutSeconds != 0 {
				t.Errorf("the connector: %+v, %v", connector, err)
			}
			session, err := db.Session(t.Context(), "s")
			if err != nil || session.Connections != nil {
				t.Errorf("the session: %+v, %v", session, err)
			}
		})
	}
}
