package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/database"
)

// TestMigrationMovesOpenCalls migrates a database of the version before, with calls of each
// status and what belongs to them, first with a migration that is interrupted.
func TestMigrationMovesOpenCalls(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { openCallsAreMoved(t, Config{Path: filepath.Join(t.TempDir(), "m.db")}) })
	t.Run("Postgres", func(t *testing.T) { openCallsAreMoved(t, Config{URL: dbtest.Postgres(t)}) })
}

const openCallsMigration = "0025_open_calls.sql"

func openCallsAreMoved(t *testing.T, c Config) {
	raw, release, err := c.WithDefaults().OpenForMigration()
	if err != nil {
		t.Fatal(err)
	}
	all, err := database.Migrations(database.Shared(raw))
	if err != nil {
		t.Fatal(err)
	}
	before := fstest.MapFS{}
	names, err := fs.Glob(all, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name < openCallsMigration {
			text, err := fs.ReadFile(all, name)
			if err != nil {
				t.Fatal(err)
			}
			before[name] = &fstest.MapFile{Data: text}
		}
	}
	migrate := func(files fs.FS) error {
		_, err := database.MigrateFiles(t.Context(), raw, files, time.Now)
		return err
	}
	if err := migrate(before); err != nil {
		t.Fatal(err)
	}
	mustExec(t, raw.DB, "INSERT INTO organizations (id, name, created_at) VALUES ('default', 'Default', '"+when+"')")
	seed(t, raw.DB)
	for _, text := range []string{
		`UPDATE invocations SET sealed_params = BYTES, expires_at = '2999-01-01T00:00:00.000000Z', summary = 'Pay', answered = 1 WHERE id = 'pending'`,
		`UPDATE invocations SET lease_until = '2999-01-01T00:00:00.000000Z', mode = 'allow', mode_source = 'grant', grant_id = 'g', integration_id = 'account', approved_by = NULL WHERE id = 'executing'`,
		insertEvent("e1", "pending"), insertEvent("e2", "completed"),
		`INSERT INTO idempotency_keys (organization_id, session_id, source_id, action, key, invocation_id, params_hash, created_at) VALUES ('default', 's', 'linear', 'x', 'k', 'pending', 'h', 'T')`,
		`INSERT INTO rounds (id, organization_id, invocation_id, session_id, needs, keys, sealed, asked_at, until) VALUES ('r', 'default', 'executing', 's', 1, '["a"]', BYTES, 'T', 'T')`,
		`INSERT INTO returning_callers (invocation_id, can) VALUES ('approved', 1)`,
	} {
		mustChange(t, raw.DB, text)
	}
	want := callTexts(t, raw, "invocations")

	text, err := fs.ReadFile(all, openCallsMigration)
	if err != nil {
		t.Fatal(err)
	}
	before[openCallsMigration] = &fstest.MapFile{Data: append(slices.Clone(text), "\nINSERT INTO none VALUES (1);"...)}
	if err := migrate(before); err == nil {
		t.Fatal("a migration that fails succeeded")
	}
	if d := cmp.Diff(want, callTexts(t, raw, "invocations")); d != "" {
		t.Errorf("after a migration that failed (-before +after):\n%s", d)
	}
	if err := migrate(all); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, callTexts(t, raw, "all_calls")); d != "" {
		t.Errorf("calls (-before +after):\n%s", d)
	}
	// An instance of an earlier version begins a call.
	if err := change(t, raw.DB, beginBefore); err == nil || !strings.Contains(strings.ToLower(err.Error()), "constraint") {
		t.Errorf("a call that begins in invocations: %v", err)
	}
	if err := errors.Join(raw.Close(), release()); err != nil {
		t.Fatal(err)
	}

	db, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer db.db.Close()
	ctx := t.Context()
	counts := map[string]int{}
	for _, table := range []string{"open_calls", "invocations", "invocation_events", "idempotency_keys", "rounds", "returning_callers"} {
		n, err := db.db.Read.NewSelect().Table(table).Count(ctx)
		if err != nil {
			t.Fatal(err)
		}
		counts[table] = int(n)
	}
	if d := cmp.Diff(map[string]int{"open_calls": 3, "invocations": 4, "invocation_events": 2, "idempotency_keys": 1, "rounds": 1, "returning_callers": 1}, counts); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	goOn(ctx, t, db)
}

// beginBefore begins a call as instances of earlier versions do.
const beginBefore = `INSERT INTO invocations (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, started_at, executor, lease_until, policy_version,
  source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params)
  VALUES ('old', 'default', 's', 'executing', 0, 0, 'T', 'T', 'T', 'e', 'T', 1, 'linear', 'x', 'h', '', '', 'read', 'allow', 'inferred', 'Linear', '[]', '{}')`

// goOn ends the open calls of [seed].
func goOn(ctx context.Context, t *testing.T, db *DB) {
	t.Helper()
	now := db.Now()
	if inv, err := db.Deny(ctx, action.Verdict{Organization: DefaultOrganization, ID: "pending", By: "me", Now: now}); err != nil || inv.Status != action.StatusDenied {
		t.Errorf("denying: %+v, %v", inv, err)
	}
	if rec, err := db.Claim(ctx, action.Claim{Organization: DefaultOrganization, ID: "approved", Executor: "e", Now: now, LeaseUntil: now.Add(time.Minute)}); err != nil || rec.Status != action.StatusExecuting {
		t.Errorf("claiming: %+v, %v", rec, err)
	}
	for _, id := range []string{"approved", "executing"} {
		f := &action.Finish{Organization: DefaultOrganization, ID: id, Executor: "e", Status: action.StatusCompleted, Now: now, Result: []byte(`{}`)}
		if inv, recorded, err := db.Finish(ctx, f); err != nil || !recorded || inv.Status != action.StatusCompleted {
			t.Errorf("finishing %s: %+v, %v, %v", id, inv, recorded, err)
		}
	}
	n, err := db.db.Read.NewSelect().Table("open_calls").Count(ctx)
	if err != nil || n != 0 {
		t.Errorf("%d calls are open, %v", n, err)
	}
	e, err := db.Evidence(ctx, DefaultOrganization, "executing")
	if err != nil || e.Digest == "" {
		t.Errorf("evidence %+v, %v", e, err)
	}
}

// callTexts returns each call with the values of its columns.
func callTexts(t *testing.T, db *bun.DB, table string) map[string]map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]map[string]string{}
	for rows.Next() {
		values, dest := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		text := map[string]string{}
		for i, name := range names {
			if values[i] != nil {
				text[name] = fmt.Sprint(values[i])
			}
		}
		texts[text["id"]] = text
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return texts
}
