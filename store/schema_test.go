package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/database"
	"sallyport/store/history"
)

// openRaw is a way to the rows past everything that this package checks.
func openRaw(t *testing.T, path string) *sql.DB {
	t.Helper()
	raw, err := database.Connect(path, 1, map[string][]string{"_pragma": {"foreign_keys(1)"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	return raw.DB
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "data", "s.db") }

// openAt opens a file. One that does not exist starts as a copy of a migrated
// one, which costs a tenth of the migrations.
func openAt(t *testing.T, path string) *DB {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		migrated(t, path)
	}
	db, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.db.Close() })
	return db
}

// migrated makes a file with all tables.
func migrated(t testing.TB, path string) {
	t.Helper()
	dbtest.FileFrom(t, "store", path, func(path string) error {
		db, err := Open(context.Background(), Config{Path: path})
		if err != nil {
			return err
		}
		return db.db.Close()
	})
}

const when = "2026-11-21T00:00:00.000000Z"

// onBoth runs a test on the bare tables of both databases.
func onBoth(t *testing.T, test func(t *testing.T, raw *sql.DB)) {
	t.Run("SQLite", func(t *testing.T) {
		path := newPath(t)
		openAt(t, path)
		test(t, openRaw(t, path))
	})
	t.Run("Postgres", func(t *testing.T) {
		db := openPostgres(t, Config{})
		test(t, db.db.Read.DB)
	})
}

// seed writes a session and rows of each status by hand.
func seed(t *testing.T, raw *sql.DB) {
	t.Helper()
	mustExec(t, raw, `INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at) VALUES ('s', 'default', 'interactive', 'coding', 'me', '`+when+`')`)
	for status, columns := range map[string]string{
		"pending":   "expires_at = 'T'",
		"approved":  "approved_by = 'me', approved_at = 'T'",
		"executing": "approved_by = 'me', started_at = 'T', executor = 'e', lease_until = 'T'",
		"completed": "approved_by = 'me', started_at = 'T', completed_at = 'T', result = '{}', sealed_result = BYTES, pickup_until = 'T'",
		"failed":    "completed_at = 'T', error_code = 'x', error_message = 'y'",
		"denied":    "completed_at = 'T', denied_reason = 'human', approved_by = 'me'",
		"expired":   "completed_at = 'T'",
	} {
		if err := insertRow(t, raw, status, status, columns); err != nil {
			t.Fatalf("%s: %v", status, err)
		}
	}
}

// insertRow writes a row in two columns lists: those that all have, and those
// given as in an UPDATE.
func insertRow(t *testing.T, raw *sql.DB, id, status, assignments string) error {
	t.Helper()
	columns := []string{
		"id", "organization_id", "session_id", "status", "joins", "unattended", "created_at", "waiter_seen_at", "policy_version",
		"source_id", "action", "params_hash", "tool_hash", "revision", "risk", "mode", "mode_source", "source_name", "decision", "params",
	}
	values := []string{
		"'" + id + "'", "'default'", "'s'", "'" + status + "'", "1", "0", "'T'", "'T'", "1",
		"'linear'", "'x'", "'hash of " + id + "'", "''", "''", "'write'", "'require_approval'", "'inferred'", "'Linear'", "'[]'", "'{}'",
	}
	for _, a := range strings.Split(assignments, ", ") {
		column, value, ok := strings.Cut(a, " = ")
		if !ok {
			continue
		}
		set := false
		for i := range columns {
			if columns[i] == column {
				values[i], set = value, true
			}
		}
		if !set {
			columns, values = append(columns, column), append(values, value)
		}
	}
	table := "open_calls"
	if action.Status(status).Terminal() || strings.Contains(assignments, "completed_at") || !hasOpenCalls(t, raw) {
		table = "invocations"
	}
	text := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
	return change(t, raw, text)
}

// hasOpenCalls reports whether the migration that separates open calls was applied.
func hasOpenCalls(t *testing.T, raw *sql.DB) bool {
	t.Helper()
	query := "SELECT count(*) FROM sqlite_schema WHERE name = 'open_calls'"
	if _, ok := raw.Driver().(*stdlib.Driver); ok {
		query = "SELECT count(to_regclass('open_calls'))"
	}
	var n int
	if err := raw.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// change runs a text in which T and BYTES stand for values.
func change(t *testing.T, raw *sql.DB, text string) error {
	t.Helper()
	bytes := "X'01'"
	if _, ok := raw.Driver().(*stdlib.Driver); ok {
		bytes = "'\\x01'"
	}
	_, err := raw.ExecContext(t.Context(), strings.NewReplacer("'T'", "'"+when+"'", "BYTES", bytes).Replace(text))
	return err
}

func mustExec(t *testing.T, raw *sql.DB, text string) {
	t.Helper()
	if _, err := raw.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func TestTerminalRowsDoNotChange(t *testing.T) {
	onBoth(t, terminalRowsDoNotChange)
}

func terminalRowsDoNotChange(t *testing.T, raw *sql.DB) {
	seed(t, raw)
	rows, err := raw.QueryContext(t.Context(), "SELECT * FROM invocations")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err := errors.Join(err, rows.Err()); err != nil {
		t.Fatal(err)
	}
	rows.Close()
	if len(columns) < 30 {
		t.Fatalf("columns: %v", columns)
	}
	free := map[string]string{"sealed_params": "NULL", "sealed_result": "NULL", "pickup_until": "'" + when + "'", "delivered_at": "'" + when + "'"}
	for _, id := range []string{"completed", "failed", "denied", "expired"} {
		for _, c := range columns {
			value, may := free[c]
			if !may {
				value = c // not even to what it is
			}
			_, err := raw.ExecContext(t.Context(), "UPDATE invocations SET "+c+" = "+value+" WHERE id = '"+id+"'")
			if may && err != nil {
				t.Errorf("%s of a row that is %s: %v", c, id, err)
			}
			if !may && (err == nil || !strings.Contains(err.Error(), "a terminal invocation does not change")) {
				t.Errorf("%s of a row that is %s was changed: %v", c, id, err)
			}
		}
	}
	for _, id := range []string{"pending", "approved", "executing"} {
		if err := change(t, raw, "DELETE FROM open_calls WHERE id = '"+id+"'"); err == nil || !strings.Contains(err.Error(), "an open call is not removed") {
			t.Errorf("an open row was removed: %v", err)
		}
	}
}

func TestInvocationConstraints(t *testing.T) {
	onBoth(t, impossibleStatesAreImpossible)
}

func impossibleStatesAreImpossible(t *testing.T, raw *sql.DB) {
	seed(t, raw)
	refusal := regexp.MustCompile("constraint failed|violates|invalid input syntax for type timestamp")
	for name, text := range map[string]string{
		"an end without a time":             "UPDATE open_calls SET status = 'expired' WHERE id = 'pending'",
		"pending without end":               "UPDATE open_calls SET expires_at = NULL WHERE id = 'pending'",
		"approved by nobody":                "UPDATE open_calls SET status = 'approved', approved_at = created_at WHERE id = 'pending'",
		"approved at no time":               "UPDATE open_calls SET status = 'approved', approved_by = 'me' WHERE id = 'pending'",
		"executing without executor":        "UPDATE open_calls SET status = 'executing', approved_by = 'me', started_at = created_at, lease_until = created_at WHERE id = 'pending'",
		"executing without lease":           "UPDATE open_calls SET status = 'executing', approved_by = 'me', started_at = created_at, executor = 'e' WHERE id = 'pending'",
		"executing without approval":        "UPDATE open_calls SET status = 'executing', started_at = created_at, executor = 'e', lease_until = created_at WHERE id = 'pending'",
		"an unknown status":                 "UPDATE open_calls SET status = 'done' WHERE id = 'pending'",
		"an unknown risk":                   "UPDATE open_calls SET risk = 'none' WHERE id = 'pending'",
		"an unknown mode":                   "UPDATE open_calls SET mode = 'maybe' WHERE id = 'pending'",
		"denied by policy but pending":      "UPDATE open_calls SET mode = 'deny' WHERE id = 'pending'",
		"a time that is none":               "UPDATE open_calls SET created_at = 'noon' WHERE id = 'pending'",
		"a session of another organization": "UPDATE open_calls SET organization_id = 'other' WHERE id = 'pending'",
		"two open rows of one call":         "UPDATE open_calls SET params_hash = 'hash of approved' WHERE id = 'pending'",
	} {
		if err := change(t, raw, text); err == nil || !refusal.MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct{ status, set string }{
		"an open row among those that ended": {"pending", "completed_at = 'T'"},
		"completed without running":          {"completed", "completed_at = 'T', mode = 'allow'"},
		"failed without a code":              {"failed", "completed_at = 'T'"},
		"a code without failure":             {"expired", "completed_at = 'T', error_code = 'x'"},
		"denied without a reason":            {"denied", "completed_at = 'T'"},
		"a reason without denial":            {"expired", "completed_at = 'T', denied_reason = 'human'"},
		"sealed params after the end":        {"expired", "completed_at = 'T', sealed_params = BYTES"},
		"a sealed result for nobody":         {"expired", "completed_at = 'T', sealed_result = BYTES"},
		"no time of the end":                 {"expired", ""},
	} {
		if err := insertRow(t, raw, "impossible", c.status, c.set); err == nil || !refusal.MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustExec(t, raw, "UPDATE open_calls SET params_hash = 'hash of completed' WHERE id = 'pending'") // that one is not open
	mustExec(t, raw, "UPDATE open_calls SET joins = 0, params_hash = 'hash of approved' WHERE id = 'pending'")
}

func TestSQLiteTimeFormat(t *testing.T) {
	path := newPath(t)
	openAt(t, path)
	raw := openRaw(t, path)
	seed(t, raw)
	err := change(t, raw, "UPDATE open_calls SET created_at = '2026-11-21 00:00:00' WHERE id = 'pending'")
	if err == nil || !strings.Contains(err.Error(), "constraint failed") {
		t.Errorf("another form: %v", err)
	}
}

func TestSQLiteConnectionSettings(t *testing.T) {
	path := newPath(t)
	db := openAt(t, path)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "10000", "query_only": "0", "wal_autocheckpoint": "12000", "journal_size_limit": "67108864"} {
		var got string
		if err := db.db.Write.DB.DB.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("writer: %s is %s, want %s (%v)", pragma, got, want, err)
		}
	}
	_, err := db.db.Read.ExecContext(t.Context(), "DELETE FROM organizations")
	if err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("a reader wrote: %v", err)
	}
	if n := db.db.Write.DB.Stats().MaxOpenConnections; n != 1 {
		t.Errorf("%d writers", n)
	}
}

func TestFilePermissions(t *testing.T) {
	path := newPath(t)
	db, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer db.db.Close()
	if err := db.db.ExclusiveTransaction(t.Context(), func(ctx context.Context, tx bun.Tx) error {
		_, err := history.BumpPolicyVersion(ctx, tx, DefaultOrganization)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, path + ".lock": 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: mode %o, want %o", filepath.Base(name), got, want)
		}
	}
}

func TestFileLock(t *testing.T) {
	path := newPath(t)
	db := openAt(t, path)
	_, err := Open(t.Context(), Config{Path: path})
	if err == nil || !strings.Contains(err.Error(), "in use by process "+strconv.Itoa(os.Getpid())) {
		t.Fatalf("a second one: %v", err)
	}
	if err := db.db.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
}

func TestOpenRequiresPathOrURL(t *testing.T) {
	if _, err := Open(t.Context(), Config{}); err == nil {
		t.Error("opened nothing")
	}
}

func TestFileIsNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is a letter to my aunt. ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Config{Path: path})
	if err == nil || !strings.Contains(err.Error(), "not a database") {
		t.Fatalf("opened a letter: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	openAt(t, path) // the failed one let go of the lock
}

// onEmpty runs a test on databases without any table.
func onEmpty(t *testing.T, test func(t *testing.T, db *bun.DB)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		db, err := database.Connect(filepath.Join(t.TempDir(), "m.db"), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		test(t, db)
	})
	t.Run("Postgres", func(t *testing.T) {
		pool, err := database.OpenPool(Config{URL: dbtest.Postgres(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		test(t, database.NewPostgres(pool))
	})
}

func TestMigrationChecksums(t *testing.T) {
	onEmpty(t, migrationsAreWhatWasApplied)
}

func migrationsAreWhatWasApplied(t *testing.T, db *bun.DB) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files := fstest.MapFS{
		"0001_a.sql": file("CREATE TABLE a (a TEXT); -- is it? ?0 yes\nINSERT INTO a VALUES ('?');"),
		"0002_b.sql": file("CREATE TABLE b (b TEXT);"),
		"README.md":  file("not one"),
	}
	run := func(want string, names ...string) {
		t.Helper()
		done, err := database.MigrateFiles(t.Context(), db, files, time.Now)
		if (err == nil) != (want == "") || err != nil && !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Fatalf("error %v, want %q", err, want)
		}
		var got []string
		for _, m := range done {
			got = append(got, m.Name)
		}
		if !slices.Equal(got, names) {
			t.Fatalf("applied %v, want %v", got, names)
		}
	}
	run("", "0001_a.sql", "0002_b.sql")
	run("")
	files["0003_c.sql"] = file("CREATE TABLE c (c TEXT); CREATE TABLE c (c TEXT);")
	run("0003_c.sql.*already exists")
	files["0003_c.sql"] = file("CREATE TABLE c (c TEXT);") // the failed one left nothing
	run("", "0003_c.sql")
	files["0002_b.sql"] = file("CREATE TABLE b (b TEXT, more TEXT);")
	run("0002_b.sql: the file differs")
	files["0002_b.sql"] = file("CREATE TABLE b (b TEXT);")
	delete(files, "0003_c.sql")
	run("0003_c.sql was applied by a newer version")
}

// TestMigrationStatusIsReadOnly asks before there is anything, afterwards, and when
// the history is not this program's.
func TestMigrationStatusIsReadOnly(t *testing.T) {
	path := newPath(t)
	for name, c := range map[string]Config{"SQLite": {Path: path}, "Postgres": {URL: dbtest.Postgres(t)}} {
		t.Run(name, func(t *testing.T) {
			status := func(want string, pending bool) {
				t.Helper()
				list, err := database.MigrationStatus(t.Context(), c)
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Fatalf("error %v, want %q", err, want)
				}
				if len(list) == 0 || (list[0].AppliedAt == nil) != pending || !strings.Contains(list[0].SQL, "CREATE TABLE") {
					t.Fatalf("pending %t: %+v", pending, list)
				}
			}
			status("", true)
			status("", true)
			if _, err := os.Stat(filepath.Dir(path)); c.Path != "" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is there (%v)", err)
			}
			done, err := database.Migrate(t.Context(), c)
			if err != nil || len(done) == 0 || done[0].AppliedAt == nil {
				t.Fatalf("applied %+v, %v", done, err)
			}
			if done, err = database.Migrate(t.Context(), c); err != nil || len(done) != 0 {
				t.Fatalf("applied again %+v, %v", done, err)
			}
			status("", false)
			if c.Path != "" {
				files, err := os.ReadDir(filepath.Dir(path))
				if err != nil || len(files) != 2 { // the database and its lock
					t.Errorf("files %v, %v", files, err)
				}
			}
			db, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer db.db.Close()
			status("", false) // while it is open, too
			if _, err := db.db.Write.DB.ExecContext(t.Context(), "UPDATE schema_migrations SET checksum = 'x' WHERE name = '0001_start.sql'"); err != nil {
				t.Fatal(err)
			}
			status("the file differs", false)
			if _, err := db.db.Write.DB.ExecContext(t.Context(), "UPDATE schema_migrations SET name = '9999_future.sql' WHERE name = '0001_start.sql'"); err != nil {
				t.Fatal(err)
			}
			status("applied by a newer version", true)
		})
	}
}
