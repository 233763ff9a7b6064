package store

import (
	"database/sql"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/uptrace/bun"

	"sallyport/internal/dbtest"
	"sallyport/store/database"
)

func TestGrantConstraints(t *testing.T) {
	onBoth(t, impossibleGrantsAreImpossible)
}

func impossibleGrantsAreImpossible(t *testing.T, raw *sql.DB) {
	seed(t, raw)
	for _, text := range []string{
		`INSERT INTO grants (id, organization_id, scope, session_id, source_id, action, covers_any, tool_hash, max_calls, created_by, created_at)
  VALUES ('exact', 'default', 'session', 's', 'linear', 'x', 0, 'hash', 2, 'me', 'T')`,
		`INSERT INTO grants (id, organization_id, scope, source_id, action, covers_any, created_by, created_at)
  VALUES ('any', 'default', 'organization', '', '', 1, 'me', 'T')`,
		`INSERT INTO grant_requests (id, organization_id, session_id, status, terms, created_at, expires_at)
  VALUES ('wish', 'default', 's', 'pending', '{}', 'T', 'T')`,
		`UPDATE grants SET invocation_id = 'i', request_id = 'r' WHERE id = 'exact'`,
	} {
		if err := change(t, raw, text); err != nil {
			t.Fatal(err)
		}
	}
	refusal := regexp.MustCompile("constraint failed|violates|invalid input syntax for type timestamp")
	for name, text := range map[string]string{
		"an unknown scope":                  `UPDATE grants SET scope = 'all' WHERE id = 'any'`,
		"a session's grant without one":     `UPDATE grants SET session_id = NULL WHERE id = 'exact'`,
		"an organization's with a session":  `UPDATE grants SET session_id = 's' WHERE id = 'any'`,
		"a session that is not there":       `UPDATE grants SET session_id = 'other' WHERE id = 'exact'`,
		"exact without an action":           `UPDATE grants SET action = '' WHERE id = 'exact'`,
		"exact without a source":            `UPDATE grants SET source_id = '' WHERE id = 'exact'`,
		"any with an action":                `UPDATE grants SET action = 'x' WHERE id = 'any'`,
		"any for one definition":            `UPDATE grants SET tool_hash = 'hash' WHERE id = 'any'`,
		"neither exact nor any":             `UPDATE grants SET covers_any = 2 WHERE id = 'any'`,
		"a budget of none":                  `UPDATE grants SET max_calls = 0 WHERE id = 'any'`,
		"more used than there is":           `UPDATE grants SET used_calls = 3 WHERE id = 'exact'`,
		"used up, and nobody noted it":      `UPDATE grants SET used_calls = 2 WHERE id = 'exact'`,
		"used up before it is":              `UPDATE grants SET spent_at = created_at WHERE id = 'exact'`,
		"used up without a budget":          `UPDATE grants SET spent_at = created_at WHERE id = 'any'`,
		"used less than never":              `UPDATE grants SET used_calls = -1 WHERE id = 'any'`,
		"revoked by nobody":                 `UPDATE grants SET revoked_at = created_at WHERE id = 'any'`,
		"revoked at no time":                `UPDATE grants SET revoked_by = 'me' WHERE id = 'any'`,
		"made by nobody":                    `UPDATE grants SET created_by = '' WHERE id = 'any'`,
		"pins of nothing":                   `UPDATE grants SET pins = '{}' WHERE id = 'any'`,
		"a time that is none":               `UPDATE grants SET expires_at = 'noon' WHERE id = 'any'`,
		"two grants of one approval":        `UPDATE grants SET invocation_id = 'i' WHERE id = 'any'`,
		"two grants of one request":         `UPDATE grants SET request_id = 'r' WHERE id = 'any'`,
		"an unknown status":                 `UPDATE grant_requests SET status = 'maybe'`,
		"approved by nobody":                `UPDATE grant_requests SET status = 'approved', grant_id = 'any'`,
		"approved without a grant":          `UPDATE grant_requests SET status = 'approved', decided_by = 'me', decided_at = created_at`,
		"denied at no time":                 `UPDATE grant_requests SET status = 'denied', decided_by = 'me'`,
		"decided and pending":               `UPDATE grant_requests SET decided_by = 'me', decided_at = created_at`,
		"a grant of a denied request":       `UPDATE grant_requests SET status = 'denied', decided_by = 'me', decided_at = created_at, grant_id = 'any'`,
		"a request of another organization": `UPDATE grant_requests SET organization_id = 'other'`,
		"let through by a grant of no name": `UPDATE open_calls SET mode_source = 'grant' WHERE id = 'pending'`,
		"a grant that let nothing through":  `UPDATE open_calls SET grant_id = 'any' WHERE id = 'pending'`,
	} {
		if err := change(t, raw, text); err == nil || !refusal.MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{
		`UPDATE grants SET used_calls = 2, spent_at = created_at WHERE id = 'exact'`,
		`UPDATE grants SET source_id = 'linear' WHERE id = 'any'`,
		`UPDATE grants SET revoked_at = created_at, revoked_by = 'me'`,
		`UPDATE grant_requests SET status = 'approved', decided_by = 'me', decided_at = created_at, grant_id = 'any'`,
		`UPDATE open_calls SET mode_source = 'grant', grant_id = 'any' WHERE id = 'pending'`,
	} {
		mustExec(t, raw, text)
	}
}

// TestMigrationsUpdateOldRows applies the migration where calls are already.
func TestMigrationsUpdateOldRows(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		db, err := database.Connect(filepath.Join(t.TempDir(), "m.db"), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		oldRowsAreBroughtUpToDate(t, db)
	})
	t.Run("Postgres", func(t *testing.T) {
		pool, err := database.OpenPool(Config{URL: dbtest.Postgres(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		oldRowsAreBroughtUpToDate(t, database.NewPostgres(pool))
	})
}

func oldRowsAreBroughtUpToDate(t *testing.T, db *bun.DB) {
	all, err := database.Migrations(database.Shared(db))
	if err != nil {
		t.Fatal(err)
	}
	old := fstest.MapFS{}
	for _, name := range []string{"0001_start.sql", "0002_instances.sql", "0003_policy.sql"} {
		text, err := fs.ReadFile(all, name)
		if err != nil {
			t.Fatal(err)
		}
		old[name] = &fstest.MapFile{Data: text}
	}
	if _, err := database.MigrateFiles(t.Context(), db, old, time.Now); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db.DB, "INSERT INTO organizations (id, name, created_at) VALUES ('default', 'Default', '"+when+"')")
	seed(t, db.DB)
	if _, err := database.MigrateFiles(t.Context(), db, all, time.Now); err != nil {
		t.Fatal(err)
	}
	n, err := db.NewSelect().Table("all_calls").Where("grant_id IS NULL").Where("summary IS NULL").Count(t.Context())
	if err != nil || n != 7 {
		t.Errorf("%d rows, %v", n, err)
	}
	_, err = db.ExecContext(t.Context(), "UPDATE invocations SET summary = 'x' WHERE id = 'completed'")
	if err == nil || !strings.Contains(err.Error(), "a terminal invocation does not change") {
		t.Errorf("history was changed: %v", err)
	}
}
