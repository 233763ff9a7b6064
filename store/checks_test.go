package store

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// listed is a comparison with more than two constants, for which SQLite makes a
// table in memory each time.
var listed = regexp.MustCompile(`IN \('\w+'(, '\w+'){2,}\)`)

// Tables that are written with every call and every event compare with no lists,
// and their text is still SQL that allows what it did.
func TestConstraintsOfHotTablesAreCheap(t *testing.T) {
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "checks.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.db.Close()
	text := func(query string, args ...any) (said string) {
		t.Helper()
		if err := db.db.Write.DB.DB.QueryRowContext(t.Context(), query, args...).Scan(&said); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return said
	}
	for _, table := range []string{"open_calls", "invocations", "seal_queue", "audit_seals", "inbox", "events", "runs", "outbox"} {
		sql := text("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", table)
		if list := listed.FindString(sql); list != "" {
			t.Errorf("%s compares with a list: %s", table, list)
		}
		if !strings.Contains(sql, " OR ") {
			t.Errorf("%s compares with nothing: %s", table, sql)
		}
	}
	if said := text("PRAGMA integrity_check"); said != "ok" {
		t.Errorf("the tables are not whole: %s", said)
	}
	for _, bad := range []string{
		"INSERT INTO seal_queue (organization_id, row_id, kind) VALUES ('default', 'a', 'other')",
		"INSERT INTO inbox (id, organization_id, endpoint, provider, dedup_key, size, status, attempt, next_at, received_at) VALUES ('a', 'default', 'e', 'p', 'k', 1, 'other', 0, '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z')",
	} {
		if _, err := db.db.Write.DB.DB.ExecContext(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "CHECK constraint failed") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
