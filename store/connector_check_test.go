package store

import (
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/internal/dbtest"
)

// TestStoredURLWithCredential: its connector can be turned off, and
// mended, and the history does not repeat it.
func TestStoredURLWithCredential(t *testing.T) {
	for name, c := range map[string]func(*testing.T) Config{
		"SQLite":   func(t *testing.T) Config { return Config{Path: newPath(t)} },
		"Postgres": func(t *testing.T) Config { return Config{URL: dbtest.Postgres(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(t.Context(), c(t))
			if err != nil {
				t.Fatal(err)
			}
			defer db.db.Close()
			urlWithACredential(t, db)
			headerWithACredential(t, db)
		})
	}
}

// headerWithACredential: the same of a header.
func headerWithACredential(t *testing.T, db *DB) {
	c := action.Connector{ID: "h", Organization: DefaultOrganization, Name: "Hub", Slug: "hub", URL: "https://mcp.example.com/mcp", Enabled: true}
	if err := db.CreateConnector(t.Context(), c, nil, "alice"); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db.db.Write.DB.DB, `UPDATE connectors SET headers = '{"X-Api-Key":"abc"}' WHERE id = 'h'`)
	c.Headers, c.Enabled = map[string]string{"X-Api-Key": "abc"}, false
	if err := db.UpdateConnector(t.Context(), c, nil, "alice"); err != nil {
		t.Error(err)
	}
	c.Headers = map[string]string{"X-Api-Key": "abcd"}
	if err := db.UpdateConnector(t.Context(), c, nil, "alice"); err == nil {
		t.Error("another credential in a header was taken")
	}
}

func urlWithACredential(t *testing.T, db *DB) {
	c := action.Connector{ID: "c", Organization: DefaultOrganization, Name: "Git", Slug: "code", URL: "https://mcp.example.com/mcp", Enabled: true}
	if err := db.CreateConnector(t.Context(), c, nil, "alice"); err != nil {
		t.Fatal(err)
	}
	c.URL += "?api_key=sk_live_abcdef1234567890"
	mustExec(t, db.db.Write.DB.DB, "UPDATE connectors SET url = '"+c.URL+"'")
	c.Enabled = false
	if err := db.UpdateConnector(t.Context(), c, nil, "alice"); err != nil {
		t.Fatal(err)
	}
	other := c
	other.URL += "x"
	if err := db.UpdateConnector(t.Context(), other, nil, "alice"); err == nil {
		t.Error("another URL with a credential was taken")
	}
	c.URL = "https://mcp.example.com/mcp"
	if err := db.UpdateConnector(t.Context(), c, nil, "alice"); err != nil {
		t.Fatal(err)
	}
	events, err := db.PolicyEvents(t.Context(), action.PolicyEventFilter{Organization: DefaultOrganization, Subject: c.Source()})
	if err != nil || len(events.Items) != 3 {
		t.Fatalf("%d events, %v", len(events.Items), err)
	}
	for _, e := range events.Items[:2] {
		if text := string(e.Before) + string(e.After); strings.Contains(text, "sk_live") || !strings.Contains(text, "mcp?api_key=[redacted:24]") {
			t.Errorf("the event tells %s", text)
		}
	}
}
