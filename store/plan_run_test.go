package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sallyport/ingest/event"
	"sallyport/internal/dbtest"
	"sallyport/store/calls"
	"sallyport/store/database"
	"sallyport/store/inbound"
	"sallyport/store/sessions"
)

// runQuery is one that is asked often, and the indexes that each database must
// take: no query may grow with the runs that ended.
type runQuery struct {
	name, sql        string
	sqlite, postgres []string
	sorts            bool // there are few rows at most
}

// runQueries are those of an organization "o".
func runQueries(db *DB) []runQuery {
	now, after := database.NewTimestamp(time.Now()), database.Cursor{Time: database.NewTimestamp(time.Now().Add(-time.Hour)), ID: "id"}
	list := func(f event.RunFilter) string {
		f.Organization = "o"
		return database.NewestFirst(inbound.FilterRuns(f, inbound.SelectRuns(db.db.Read, (*inbound.RunRow)(nil))), after, 50).String()
	}
	deliveries := func(s event.RunDeliveryStatus) string {
		f := event.RunDeliveryFilter{Organization: "o", Status: s}
		return database.NewestFirst(inbound.FilterRunDeliveries(f, db.db.Read.NewSelect().Model((*inbound.RunDeliveryRow)(nil))), after, 50).String()
	}
	queries := []runQuery{
		{name: "whose runs wait", sql: inbound.AutomationsWithQueuedRuns(db.db.Read, "o", "").String(), sqlite: []string{"runs_waiting (organization_id=? AND automation_id=?)"}, postgres: []string{"runs_waiting"}, sorts: true},
		{name: "look for a run", sql: inbound.OldestQueuedRun(db.db.Read, "o", "a7").String(), sqlite: []string{"runs_waiting (organization_id=? AND automation_id=?)"}, postgres: []string{"runs_waiting"}},
		{name: "what sessions are for", sql: inbound.SelectSessionOrigins(db.db.Read, "o", []string{"s7", "s8", "s9"}).String(), sqlite: []string{"SEARCH s USING INDEX", "SEARCH r USING INDEX"}, postgres: []string{"runs_event_id_key"}, sorts: true},
		{name: "list", sql: list(event.RunFilter{}), sqlite: []string{"runs_list (organization_id=? AND (created_at,id)<(?,?))", "open_calls_session (organization_id=? AND session_id=?)"}, postgres: []string{"runs_list", "events_pkey", "open_calls_"}},
		{name: "list of an automation", sql: list(event.RunFilter{Automation: "a7"}), sqlite: []string{"runs_automation (organization_id=? AND automation_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"runs_automation"}},
		{name: "last of each automation", sql: inbound.LastRuns(db.db.Read, (*inbound.RunRow)(nil), "o").String(), sqlite: []string{"runs_automation (organization_id=? AND automation_id=?)", "SEARCH r USING INDEX sqlite_autoindex_runs_1 (id=?)"}, postgres: []string{"runs_automation", "runs_pkey"}, sorts: true},
		{name: "list of a status", sql: list(event.RunFilter{Status: event.RunNeedsHuman}), sqlite: []string{"runs_status (organization_id=? AND status=? AND (created_at,id)<(?,?))"}, postgres: []string{"runs_status"}},
		{name: "list of those that need attention", sql: list(event.RunFilter{Attention: true}), sqlite: []string{"runs_attention_list (organization_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"runs_attention_list"}},
		{name: "those that need none any more", sql: inbound.StaleAttention(db.db.Read.NewSelect(), now.Time, 100).String(), sqlite: []string{"runs_attention_age (completed_at<?)"}, postgres: []string{"runs_attention_age"}},
		{name: "list of a trigger", sql: list(event.RunFilter{Trigger: "t7"}), sqlite: []string{"runs_trigger (organization_id=? AND trigger_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"runs_trigger"}, sorts: true},
		{name: "an event's", sql: list(event.RunFilter{Event: "e7"}), sqlite: []string{"(event_id=?)"}, postgres: []string{"runs_event_id_key"}, sorts: true},
		{name: "sessions of a run", sql: sessions.RunSessionsQuery(db.db.Read, "o", "r7").String(), sqlite: []string{"SEARCH s USING", "SEARCH r USING"}, postgres: []string{"runs_pkey", "sessions_event"}, sorts: true},
		{name: "a session's", sql: inbound.SelectRunOfSession(db.db.Read, (*inbound.RunRow)(nil), "o", "s7").String(), sqlite: []string{"SEARCH s USING INDEX", "SEARCH r USING INDEX"}, postgres: []string{"runs_event_id_key"}, sorts: true},
		{name: "those that wait for people", sql: inbound.RunsNeedingHuman(db.db.Read, now, 100).String(), sqlite: []string{"runs_lease (lease_until"}, postgres: []string{"runs_lease"}},
		{name: "deliveries", sql: deliveries(""), sqlite: []string{"outbox_list (organization_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"outbox_list"}},
		{name: "dead deliveries", sql: deliveries(event.DeliveryDead), sqlite: []string{"outbox_dead (organization_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"outbox_dead"}},
		{name: "who has something to send", sql: inbound.DueOrganizations(db.db.Read, now).String(), sqlite: []string{"outbox_again (organization_id=? AND next_at<?)", "runs_waiting (organization_id=? AND automation_id=?)"}, postgres: []string{"outbox_again", "runs_waiting"}, sorts: true},
		{name: "what is to be sent again", sql: inbound.RetryRunDeliveries(db.db.Read, (*inbound.RunDeliveryRow)(nil), "o", now, 20).String(), sqlite: []string{"outbox_again (organization_id=? AND next_at<?)"}, postgres: []string{"outbox_again", "runs_pkey"}},
		{name: "what is to be sent", sql: inbound.NewRunDeliveries(db.db.Read, (*inbound.RunDeliveryRow)(nil), "o", "a7", now, 20).String(), sqlite: []string{"runs_waiting (organization_id=? AND automation_id=?)", "outbox_open"}, postgres: []string{"runs_waiting", "outbox_open"}},
		{name: "sessions that ended long ago", sql: calls.Unpurged(db.db.Read, now.Time, 100).String(), sqlite: []string{"sessions_unpurged (<expr><?)"}, postgres: []string{"sessions_unpurged"}},
		{name: "sessions that had to stay", sql: calls.DueForRepurge(db.db.Read, now.Time, 100).String(), sqlite: []string{"sessions_purged (purged_at>? AND purged_at<?)"}, postgres: []string{"sessions_purged"}},
		{
			name: "deleting sessions", sql: calls.DeletePurged(db.db.Read, []string{"s7", "s8", "s9"}).String(),
			sqlite:   []string{"SEARCH s USING INDEX sqlite_autoindex_sessions_1 (id=?)", "invocations_session (organization_id=? AND session_id=?)", "grants_of_session (organization_id=? AND session_id=?)", "grant_requests_session (organization_id=? AND session_id=?)", "runs_session (session_id=?)"},
			postgres: []string{"sessions_pkey", "invocations_session", "runs_session"}, sorts: true, // of grants there are none
		},
		{name: "lost deliveries", sql: inbound.ExpiredRunDeliveries(db.db.Read.NewSelect(), now, 100).String(), sqlite: []string{"outbox_lease (lease_until<?)"}, postgres: []string{"outbox_lease"}},
		{name: "freeing them", sql: inbound.ReleaseRunDeliveries(db.db.Read, now, 100).String(), sqlite: []string{"outbox_lease (lease_until<?)"}, postgres: []string{"outbox_lease"}},
	}
	for _, s := range inbound.RunSweeps(now) {
		index := "runs_deadline"
		if s.Name == "lost" {
			index = "runs_lease"
		}
		queries = append(queries, runQuery{name: s.Name, sql: s.Select(db.db.Read, (*inbound.RunRow)(nil), 100).String(), sqlite: []string{index}, postgres: []string{index}})
	}
	return queries
}

func TestRunQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db := openRunFile(t)[0]
	for _, q := range runQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			bad := []string{"SCAN r\n", "SCAN o\n", "SCAN s\n", "SCAN e\n", "SCAN i\n"}
			if !q.sorts {
				bad = append(bad, "TEMP B-TREE")
			}
			checkPlan(t, q.sql, explain(t, db, q.sql), q.sqlite, bad)
		})
	}
}

// manyRuns are those of some weeks: nearly all ended.
const manyRuns = `
INSERT INTO organizations (id, name, created_at) SELECT 'o' || n, 'O', now() FROM generate_series(1, 9) n;
INSERT INTO organizations (id, name, created_at) VALUES ('o', 'O', now());
INSERT INTO automations (organization_id, id, name, enabled, instructions, created_by, created_at, updated_at)
  SELECT o.id, 'a' || n, 'a' || n, true, '', 'me', now(), now() FROM organizations AS o, generate_series(0, 49) AS n;
INSERT INTO sessions (id, organization_id, kind, type, automation_id, event_id, created_by, created_at)
  SELECT 's' || n, CASE WHEN n % 3 = 0 THEN 'o' ELSE 'o' || n % 9 + 1 END, 'unattended', 'automation', 'a' || n % 50, 'e' || n, 'automation:a' || n % 50, now() FROM generate_series(1, 20000) n;
INSERT INTO events (id, organization_id, trigger_id, automation_id, provider, type, dedup_key, title, created_at)
  SELECT 'e' || n, CASE WHEN n % 3 = 0 THEN 'o' ELSE 'o' || n % 9 + 1 END, 't', 'a' || n % 50, 'github', 'issue', 'k' || n, 'Bug', now() FROM generate_series(1, 20200) n;
INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, claim_id, claimed_by, lease_until, deadline, session_id, created_at, completed_at, attention_id)
  SELECT 'r' || n, CASE WHEN n % 3 = 0 THEN 'o' ELSE 'o' || n % 9 + 1 END, 'a' || n % 50, 'e' || n, 't', status, 1,
    CASE WHEN status = 'running' THEN 'c' END, 'w', CASE WHEN status = 'running' AND n % 2 = 0 THEN now() + n % 60 * interval '1 s' END,
    CASE WHEN status = 'running' THEN now() + interval '1 hour' END, CASE WHEN n <= 20000 THEN 's' || n END,
    now() - (20200 - n) * interval '1 min', CASE WHEN status IN ('succeeded', 'failed') THEN now() END, CASE WHEN status = 'failed' AND n % 80 = 0 THEN 'at' || n END
  FROM (SELECT n, CASE WHEN n > 20000 THEN 'queued' WHEN n > 19800 THEN 'running' WHEN n % 40 = 0 THEN 'failed' ELSE 'succeeded' END AS status FROM generate_series(1, 20200) n) s;
INSERT INTO outbox (id, organization_id, run_id, status, attempt, next_at, holder, lease_until, created_at, delivered_at)
  SELECT 'x' || id, organization_id, id, CASE status WHEN 'queued' THEN 'pending' WHEN 'running' THEN 'sending' WHEN 'failed' THEN 'dead' ELSE 'delivered' END, 0, created_at,
    CASE WHEN status = 'running' THEN 'd' END, CASE WHEN status = 'running' THEN now() END, created_at, CASE WHEN status IN ('failed', 'succeeded') THEN now() END FROM runs;
INSERT INTO invocations (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at, completed_at,
    policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params)
  SELECT 'i' || n, organization_id, id, 'expired', 0, 1, now(), now(), now(), now(),
    1, 'linear', 'x', 'h' || n, '', '', 'write', 'allow', 'inferred', 'Linear', '[]', '{}' FROM (SELECT *, substr(id, 2)::int AS n FROM sessions) AS s WHERE n % 100 > 0;
INSERT INTO open_calls (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at,
    policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params)
  SELECT 'i' || n, organization_id, id, 'pending', 0, 1, now(), now(), now(),
    1, 'linear', 'x', 'h' || n, '', '', 'write', 'allow', 'inferred', 'Linear', '[]', '{}' FROM (SELECT *, substr(id, 2)::int AS n FROM sessions) AS s WHERE n % 100 = 0;
INSERT INTO run_endpoints (organization_id, url, enabled, updated_by, updated_at) SELECT id, 'https://example.com', true, 'me', now() FROM organizations;
ANALYZE`

func TestRunQueriesUseTheirIndexOnPostgres(t *testing.T) {
	db, err := Open(t.Context(), Config{URL: dbtest.PostgresFrom(t, "runs", func(url string) error {
		db, err := Open(t.Context(), Config{URL: url})
		if err != nil {
			return err
		}
		_, err = db.db.Read.DB.ExecContext(t.Context(), manyRuns)
		return errors.Join(err, db.db.Close())
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.db.Close() })
	for _, q := range runQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			bad := []string{"Seq Scan on runs", "Seq Scan on outbox", "Seq Scan on sessions", "Seq Scan on events", "Seq Scan on invocations"}
			if !q.sorts {
				bad = append(bad, "Sort")
			}
			plan := strings.ReplaceAll(explainPostgres(t, db, q.sql), "Incremental Sort", "incremental") // of ties alone
			checkPlan(t, q.sql, plan, q.postgres, bad)
		})
	}
}
