package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/dbtest"
	"sallyport/store/database"
)

// onBothOpen runs a test on both databases, with a way past the checks.
func onBothOpen(t *testing.T, test func(t *testing.T, db *DB, raw *sql.DB)) {
	t.Run("SQLite", func(t *testing.T) {
		db, path := preparedFile(t)
		test(t, db, openRaw(t, path))
	})
	t.Run("Postgres", func(t *testing.T) {
		db := openPostgres(t, Config{})
		test(t, db, db.db.Write.DB.DB)
	})
}

func preparedFile(t *testing.T) (db *DB, path string) {
	t.Helper()
	path = newPath(t)
	return openAt(t, path), path
}

const (
	ruleRows = `INSERT INTO automations (organization_id, id, name, enabled, instructions, created_by, created_at, updated_at)
	  VALUES ('default', 'a', 'a', TRUE, '', 'me', 'T', 'T'), ('default', 'b', 'b', TRUE, '', 'me', 'T', 'T');
	INSERT INTO triggers (id, organization_id, automation_id, name, kind, provider, type, enabled, config, created_by, created_at, updated_at)
	  VALUES ('t', 'default', 'a', 't', 'webhook', 'slack', 'message', TRUE, '{}', 'me', 'T', 'T');
	INSERT INTO sessions (id, organization_id, kind, type, automation_id, created_by, created_at) VALUES ('s', 'default', 'unattended', 'automation', 'a', 'me', 'T');
	INSERT INTO events (id, organization_id, trigger_id, automation_id, provider, type, dedup_key, title, created_at)
	  WITH v (n) AS (VALUES ('waits'), ('works'), ('done'), ('other')) SELECT n, 'default', 't', CASE WHEN n = 'other' THEN 'b' ELSE 'a' END, 'slack', 'message', n, 'x', 'T' FROM v;
	INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, claim_id, session_id, deadline, created_at, completed_at) VALUES
	  ('waits', 'default', 'a', 'waits', 't', 'queued', 0, NULL, NULL, NULL, 'T', NULL),
	  ('works', 'default', 'a', 'works', 't', 'running', 1, 'c', 's', 'T', 'T', NULL),
	  ('done', 'default', 'a', 'done', 't', 'succeeded', 1, NULL, NULL, NULL, 'T', 'T'),
	  ('other', 'default', 'b', 'other', 't', 'queued', 0, NULL, NULL, NULL, 'T', NULL);
	INSERT INTO outbox (id, organization_id, run_id, status, attempt, next_at, created_at)
	  SELECT id, 'default', id, 'pending', 0, 'T', 'T' FROM runs WHERE status = 'queued'`
)

// TestDeleteAutomationSkipsRuns are skipped while nobody has them, and keep it
// from going otherwise.
func TestDeleteAutomationSkipsRuns(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, raw *sql.DB) {
		if err := change(t, raw, ruleRows); err != nil {
			t.Fatal(err)
		}
		states := func() map[string]string {
			t.Helper()
			return pairs(t, raw, `SELECT r.id, r.status || coalesce(' ' || r.code, '') || coalesce(' ' || o.status, '') FROM runs r LEFT JOIN outbox o ON o.run_id = r.id`)
		}
		before := states()
		err := db.DeleteAutomation(t.Context(), DefaultOrganization, "a", "me")
		var e *action.Error
		if !errors.As(err, &e) || e.Code != "automation_busy" || !errors.Is(err, action.ErrConflict) {
			t.Fatalf("deleting it while a run is worked on: %v", err)
		}
		if d := cmp.Diff(before, states()); d != "" {
			t.Errorf("a deletion that failed changed runs:\n%s", d)
		}
		if _, err := db.Trigger(t.Context(), DefaultOrganization, "t"); err != nil {
			t.Errorf("a deletion that failed: %v", err)
		}
		if p, err := db.PolicyEvents(t.Context(), action.PolicyEventFilter{Organization: DefaultOrganization}); err != nil || p.Total != 0 {
			t.Errorf("a deletion that failed is in history: %+v, %v", p, err)
		}
		mustExec(t, raw, "UPDATE runs SET status = 'failed', claim_id = NULL, completed_at = created_at WHERE id = 'works'")
		if err := db.DeleteAutomation(t.Context(), DefaultOrganization, "a", "me"); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"waits": "skipped automation_deleted void", "works": "failed", "done": "succeeded", "other": "queued pending"}
		if d := cmp.Diff(want, states()); d != "" {
			t.Errorf("runs of what went (-want +got):\n%s", d)
		}
	})
}

// pairs reads two columns.
func pairs(t *testing.T, raw *sql.DB, query string) map[string]string {
	t.Helper()
	rows, err := raw.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := map[string]string{}
	for rows.Next() {
		var k, v string
		if err := rows.Scan(&k, &v); err != nil {
			t.Fatal(err)
		}
		got[k] = v
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestInboundLimits makes one more of each than an organization may have.
func TestInboundLimits(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, raw *sql.DB) {
		if err := change(t, raw, ruleRows); err != nil {
			t.Fatal(err)
		}
		count := func(n int) string {
			return fmt.Sprintf("WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d)", n)
		}
		for _, text := range []string{
			`INSERT INTO automations (organization_id, id, name, enabled, instructions, created_by, created_at, updated_at) ` + count(198) +
				` SELECT 'default', 'x' || n, 'x' || n, TRUE, '', 'me', 'T', 'T' FROM c`,
			`INSERT INTO triggers (id, organization_id, automation_id, name, kind, provider, type, enabled, config, created_by, created_at, updated_at) ` + count(499) +
				` SELECT 'x' || n, 'default', 'a', 't', 'webhook', 'slack', 'message', TRUE, '{}', 'me', 'T', 'T' FROM c`,
			`INSERT INTO schedules (id, organization_id, automation_id, name, cron, time_zone, enabled, missed, created_by, created_at, updated_at) ` + count(200) +
				` SELECT 'x' || n, 'default', 'a', 's', '* * * * *', 'UTC', TRUE, 'once', 'me', 'T', 'T' FROM c`,
		} {
			if err := change(t, raw, text); err != nil {
				t.Fatal(err)
			}
		}
		_, automation := db.CreateAutomation(t.Context(), event.Automation{Organization: DefaultOrganization, Name: "one more", CreatedBy: "me"})
		_, trigger := db.CreateTrigger(t.Context(), event.Trigger{
			Organization: DefaultOrganization, Automation: "a", Name: "one more", Kind: event.Webhooks, Provider: "slack", Type: "message", CreatedBy: "me",
		}, nil)
		_, schedule := db.CreateSchedule(t.Context(), event.Schedule{
			Organization: DefaultOrganization, Automation: "a", Name: "one more", Cron: "* * * * *", TimeZone: "UTC", Missed: event.MissedOnce, CreatedBy: "me",
		})
		for what, err := range map[string]error{"too_many_automations": automation, "too_many_triggers": trigger, "too_many_schedules": schedule} {
			var e *action.Error
			if !errors.As(err, &e) || e.Code != what || !errors.Is(err, action.ErrTooMany) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestPollGroupInterval is due sooner, unless it goes badly: somebody may
// have said when to come again.
func TestPollGroupInterval(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, _ *sql.DB) {
		group := func(seconds int) {
			t.Helper()
			err := db.db.ExclusiveTransaction(t.Context(), func(ctx context.Context, tx bun.Tx) error {
				return db.UpsertPollGroup(ctx, tx, &event.Trigger{Organization: DefaultOrganization, Provider: "slack", Integration: "i"}, seconds)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		wait := func(set string) float64 {
			t.Helper()
			now := db.db.Now()
			if set != "" {
				if _, err := db.db.Write.DB.NewUpdate().Table("poll_groups").Set("next_at = ?", database.NewTimestamp(now.AddDate(0, 0, 1))).Set(set).Where("id <> ''").Exec(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			list, err := db.PollGroups(t.Context(), DefaultOrganization)
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			return list[0].NextAt.Sub(now).Hours()
		}
		group(86_400)
		for _, c := range []struct {
			set     string
			seconds int
			sooner  bool
		}{
			{"failures = 0, poll_seconds = 86400", 60, true},
			{"failures = 3, poll_seconds = 86400", 60, false},
			{"failures = 0, poll_seconds = 60", 600, false},
			{"failures = 0, poll_seconds = 60", 60, false},
		} {
			wait(c.set)
			group(c.seconds)
			if hours := wait(""); (hours < 1) != c.sooner {
				t.Errorf("%s, then %d seconds: due in %.2f hours", c.set, c.seconds, hours)
			}
		}
	})
}

// TestMigrationCreatesAutomations adopts what an earlier version had of them.
func TestMigrationCreatesAutomations(t *testing.T) {
	for name, c := range map[string]Config{"SQLite": {Path: newPath(t)}, "Postgres": {URL: dbtest.Postgres(t)}} {
		t.Run(name, func(t *testing.T) {
			before0008(t, c)
			db, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer db.db.Close()
			for organization, want := range map[string]string{"o": "Nightly nightly ours/x bound", "p": "nightly", DefaultOrganization: ""} {
				list, err := db.ListAutomations(t.Context(), organization)
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]bool{}
				for _, a := range list {
					got[a.ID] = a.Name == a.ID && a.Enabled && a.Instructions == "" && a.CreatedBy == "migration"
				}
				for _, id := range strings.Fields(want) {
					if !got[id] {
						t.Errorf("%s: no %s among %+v", organization, id, list)
					}
				}
				if len(got) != len(strings.Fields(want)) {
					t.Errorf("%s: %+v, want %s", organization, list, want)
				}
			}
			a, err := db.Automation(t.Context(), "o", "nightly")
			if err != nil {
				t.Fatal(err)
			}
			a.Name = "Every night"
			if _, err := db.UpdateAutomation(t.Context(), a, "me"); err != nil {
				t.Error(err)
			}
			if err := db.DeleteAutomation(t.Context(), "o", "ours/x", "me"); err != nil {
				t.Error(err)
			}
			if rules, err := db.Rules(t.Context(), "o"); err != nil || len(rules.Overrides) != 1 || rules.Overrides[0].Automation != "" {
				t.Errorf("policy: %+v, %v", rules.Overrides, err)
			}
		})
	}
}

// before0008 makes the tables of migration 0007, with rows that name
// automations.
func before0008(t *testing.T, c Config) {
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
	names, err := fs.Glob(all, "000[1-7]_*.sql")
	if err != nil || len(names) != 7 {
		t.Fatalf("%v, %v", names, err)
	}
	old := fstest.MapFS{}
	for _, name := range names {
		text, err := fs.ReadFile(all, name)
		if err != nil {
			t.Fatal(err)
		}
		old[name] = &fstest.MapFile{Data: text}
	}
	if _, err := database.MigrateFiles(t.Context(), db, old, c.WithDefaults().Now); err != nil {
		t.Fatal(err)
	}
	err = change(t, db.DB, `INSERT INTO organizations (id, name, created_at) VALUES ('o', 'O', 'T'), ('p', 'P', 'T');
	INSERT INTO sessions (id, organization_id, kind, type, automation_id, created_by, created_at) VALUES
	  ('s1', 'o', 'unattended', 'automation', 'Nightly', 'me', 'T'), ('s2', 'o', 'unattended', 'automation', 'nightly', 'me', 'T'),
	  ('s3', 'o', 'unattended', 'automation', 'nightly', 'me', 'T'), ('s4', 'o', 'interactive', 'coding', NULL, 'me', 'T'),
	  ('s5', 'p', 'unattended', 'automation', 'nightly', 'me', 'T');
	INSERT INTO policy_overrides (organization_id, automation_id, source_id, action, mode, updated_by, updated_at) VALUES
	  ('o', '', 'linear', '*', 'allow', 'me', 'T'), ('o', 'ours/x', 'linear', '*', 'allow', 'me', 'T'), ('o', 'ours/x', 'slack', '*', 'deny', 'me', 'T');
	INSERT INTO automation_connections (organization_id, automation_id, integration_id) VALUES ('o', 'bound', 'all'), ('o', 'nightly', 'all')`)
	if err != nil {
		t.Fatal(err)
	}
}

// TestEventDuringAutomationDelete has its run skipped with the others.
func TestEventDuringAutomationDelete(t *testing.T) {
	db := openPostgres(t, Config{})
	raw := db.db.Write.DB.DB
	if err := errors.Join(change(t, raw, ruleRows), change(t, raw, "DELETE FROM runs WHERE id = 'works'")); err != nil {
		t.Fatal(err)
	}
	tx, err := raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, text := range []string{ // as who settles a delivery does
		"SELECT 1 FROM triggers AS o JOIN automations AS a ON a.id = o.automation_id WHERE o.id = 't' FOR KEY SHARE OF a",
		"INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, created_at) VALUES ('late', 'default', 'a', 'works', 't', 'queued', 0, now())",
	} {
		if _, err := tx.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	gone := make(chan error, 1)
	go func() { gone <- db.DeleteAutomation(t.Context(), DefaultOrganization, "a", "me") }()
	awaitLock(t, raw)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-gone; err != nil {
		t.Fatal(err)
	}
	if got := pairs(t, raw, "SELECT id, status FROM runs WHERE automation_id = 'a'")["late"]; got != string(event.RunSkipped) {
		t.Errorf("the late run is %s", got)
	}
}

// awaitLock returns when somebody waits for a row.
func awaitLock(t *testing.T, raw *sql.DB) {
	t.Helper()
	for range 1000 {
		var n int
		err := raw.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("nobody waits")
}

// TestPollGroupTakenConcurrently in this moment is not waited for.
func TestPollGroupTakenConcurrently(t *testing.T) {
	db := openPostgres(t, Config{RetryFor: time.Second})
	raw := db.db.Write.DB.DB
	mustExec(t, raw, `INSERT INTO poll_groups (id, organization_id, provider, integration_id, poll_seconds, next_at, failures, turn)
	  VALUES ('first', 'default', 'slack', 'i', 60, now() - interval '2 minutes', 0, 0), ('second', 'default', 'slack', 'j', 60, now() - interval '1 minute', 0, 0)`)
	tx, err := raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	const take = "UPDATE poll_groups SET holder = 'x', lease_until = now() + interval '1 hour', turn = turn + 1 WHERE id = 'first'"
	if _, err := tx.ExecContext(t.Context(), take); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"second", ""} {
		g, found, err := db.ClaimPoll(t.Context(), "w", time.Hour)
		if err != nil || g.ID != want || found != (want != "") {
			t.Fatalf("claimed %+v, %t, %v; want %q", g, found, err, want)
		}
	}
}
