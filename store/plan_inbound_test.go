package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sallyport/ingest/event"
	"sallyport/internal/dbtest"
	"sallyport/store/database"
	"sallyport/store/inbound"
)

// inboundQueries are those of an organization "o": none may grow with what was
// worked off.
func inboundQueries(db *DB) []runQuery {
	now, after := database.NewTimestamp(time.Now()), database.Cursor{Time: database.NewTimestamp(time.Now().Add(-time.Hour)), ID: "id"}
	receipts := func(f event.ReceiptFilter) string {
		f.Organization = "o"
		return inbound.SelectReceipts(f, db.db.Read, after, 50).String()
	}
	records := func(f event.RecordFilter) string {
		f.Organization = "o"
		return inbound.SelectEvents(f, db.db.Read, after, 50).String()
	}
	const byID = "sqlite_autoindex_inbox_1 (id=?)"
	due := inbound.ClaimableReceipts(now)
	old := inbound.RetentionRules(now)
	outcomes := []inbound.ReceiptOutcome{{ID: "d7", Status: "completed", ProcessedAt: now}, {ID: "d8", Status: "queued", NextAt: now}}
	return []runQuery{
		{name: "lost deliveries", sql: due[0].Due(db.db.Read, 1).String(), sqlite: []string{"inbox_lease (lease_until<?)"}, postgres: []string{"inbox_lease"}},
		{name: "claiming them", sql: due[0].Claim(db.db.Read, "w", now, 100).String(), sqlite: []string{"inbox_lease (lease_until<?)", byID}, postgres: []string{"inbox_lease", "inbox_pkey"}, sorts: true},
		{name: "due deliveries", sql: due[1].Due(db.db.Read, 1).String(), sqlite: []string{"inbox_due (next_at<?)"}, postgres: []string{"inbox_due"}},
		{name: "claiming due ones", sql: due[1].Claim(db.db.Read, "w", now, 100).String(), sqlite: []string{"inbox_due (next_at<?)", byID}, postgres: []string{"inbox_due", "inbox_pkey"}, sorts: true},
		{name: "renewing", sql: inbound.RenewReceipts(db.db.Read, "w", []string{"d7", "d8"}, now).String(), sqlite: []string{byID}, postgres: []string{"inbox_pkey"}},
		{name: "what a worker has", sql: inbound.SelectHeldReceipts(db.db.Read, "w", []string{"d7", "d8"}).String(), sqlite: []string{byID}, postgres: []string{"inbox_pkey"}, sorts: true},
		{name: "outcomes", sql: inbound.UpdateReceipts(db.db.Read, &outcomes).String(), sqlite: []string{byID}, postgres: []string{"inbox_pkey"}},
		{name: "deliveries", sql: receipts(event.ReceiptFilter{}), sqlite: []string{"inbox_list (organization_id=? AND (received_at,id)<(?,?))"}, postgres: []string{"inbox_list"}},
		{name: "failed ones", sql: receipts(event.ReceiptFilter{Status: event.ReceiptFailed}), sqlite: []string{"inbox_failed (organization_id=? AND (received_at,id)<(?,?))"}, postgres: []string{"inbox_failed"}, sorts: true},
		{name: "completed ones", sql: receipts(event.ReceiptFilter{Status: event.ReceiptCompleted}), sqlite: []string{"inbox_list (organization_id=? AND (received_at,id)<(?,?))"}, postgres: []string{"inbox_list"}},
		{name: "queued ones", sql: receipts(event.ReceiptFilter{Status: event.ReceiptQueued}), sqlite: []string{"inbox_due"}, postgres: []string{"inbox_due"}, sorts: true},
		{name: "those of a trigger", sql: receipts(event.ReceiptFilter{Trigger: "t7"}), sqlite: []string{"inbox_trigger (organization_id=? AND trigger_id=? AND (received_at,id)<(?,?))"}, postgres: []string{"inbox_trigger"}, sorts: true},
		{name: "events", sql: records(event.RecordFilter{}), sqlite: []string{"events_list (organization_id=? AND (created_at,id)<(?,?))", "sqlite_autoindex_runs_2 (event_id=?)"}, postgres: []string{"events_list", "runs_event_id_key"}},
		{name: "events of a trigger", sql: records(event.RecordFilter{Trigger: "t7"}), sqlite: []string{"events_trigger (organization_id=? AND trigger_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"events_trigger"}, sorts: true},
		{name: "events of an automation", sql: records(event.RecordFilter{Automation: "a7"}), sqlite: []string{"events_automation (organization_id=? AND automation_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"events_automation"}},
		{name: "events of a provider", sql: records(event.RecordFilter{Provider: "linear"}), sqlite: []string{"events_provider (organization_id=? AND provider=? AND (created_at,id)<(?,?))"}, postgres: []string{"events_provider"}, sorts: true},
		{name: "events that wait", sql: records(event.RecordFilter{Status: "queued"}), sqlite: []string{"runs_status (organization_id=? AND status=?)"}, postgres: []string{"runs_waiting"}, sorts: true},
		{name: "events that failed", sql: records(event.RecordFilter{Status: "failed"}), sqlite: []string{"runs_status (organization_id=? AND status=?)"}, postgres: []string{"runs_status"}, sorts: true},
		{name: "completed events", sql: records(event.RecordFilter{Status: "completed"}), sqlite: []string{"events_list (organization_id=? AND (created_at,id)<(?,?))"}, postgres: []string{"events_list"}},
		{name: "events of a delivery", sql: records(event.RecordFilter{Receipt: "d7"}), sqlite: []string{"events_inbox (inbox_id=?)"}, postgres: []string{"events_inbox"}, sorts: true},
		{name: "what matches are of", sql: inbound.SelectOrigins(db.db.Read, inbound.TriggersTable, []string{"t7", "t8"}).String(), sqlite: []string{"sqlite_autoindex_triggers_1 (id=?)", "sqlite_autoindex_automations_1 (organization_id=? AND id=?)"}, postgres: []string{"triggers_pkey"}, sorts: true},
		{name: "payloads of events", sql: old[0].SelectExpired(db.db.Read, 1).String(), sqlite: []string{"events_kept (created_at<?)"}, postgres: []string{"events_kept"}},
		{name: "ended deliveries", sql: old[1].SelectExpired(db.db.Read, 1).String(), sqlite: []string{"inbox_age (received_at<?)"}, postgres: []string{"inbox_age"}},
		{name: "bodies", sql: inbound.ExpiredBodies(now.Time, now.Time).Find(db.db.Read.NewSelect(), 1).String(), sqlite: []string{"inbox_bodies_age (received_at<?)"}, postgres: []string{"inbox_bodies_age"}},
		{name: "due schedules", sql: inbound.DueSchedules(db.db.Read, now, 10).String(), sqlite: []string{"schedules_due (next_at>? AND next_at<?)"}, postgres: []string{"schedules_due"}},
	}
}

func TestInboundQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db := openRunFile(t)[0]
	for _, q := range inboundQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			bad := []string{"SCAN inbox\n", "SCAN inbox USING", "SCAN e\n", "SCAN e USING", "SCAN r\n", "SCAN o\n", "SCAN events\n", "SCAN schedule_row\n"}
			checkPlan(t, q.sql, explain(t, db, q.sql), q.sqlite, bad)
		})
	}
}

// manyDeliveries are those of some weeks: nearly all were worked off.
const manyDeliveries = `
INSERT INTO organizations (id, name, created_at) SELECT 'o' || n, 'O', now() FROM generate_series(1, 9) n;
INSERT INTO organizations (id, name, created_at) VALUES ('o', 'O', now());
INSERT INTO automations (organization_id, id, name, enabled, instructions, created_by, created_at, updated_at)
  SELECT 'o', 'a' || n, 'a' || n, true, '', 'me', now(), now() FROM generate_series(0, 49) n;
INSERT INTO triggers (id, organization_id, automation_id, name, kind, provider, type, enabled, config, created_by, created_at, updated_at)
  SELECT 't' || n, 'o', 'a' || n % 50, 't', 'webhook', 'github', 'issue', true, '{}', 'me', now(), now() FROM generate_series(0, 4999) n;
INSERT INTO schedules (id, organization_id, automation_id, name, cron, time_zone, enabled, missed, next_at, created_by, created_at, updated_at)
  SELECT 's' || n, 'o', 'a' || n % 50, 's', '0 7 * * *', 'UTC', true, 'once', now() + n * interval '1 hour', 'me', now(), now() FROM generate_series(1, 2000) n;
INSERT INTO inbox (id, organization_id, endpoint, provider, trigger_id, dedup_key, size, status, attempt, next_at, holder, lease_until, received_at, processed_at, sealed)
  SELECT 'd' || n, CASE WHEN n % 3 = 0 THEN 'o' ELSE 'o' || n % 9 + 1 END, 'direct/github', 'github', 't' || n % 500, 'k' || n, 100, status, 1, born,
    CASE WHEN status = 'processing' THEN 'w' END, CASE WHEN status = 'processing' THEN now() + n % 60 * interval '1 s' END, born,
    CASE WHEN status IN ('completed', 'failed') THEN born END, CASE WHEN status <> 'completed' THEN '\x01'::bytea END
  FROM (SELECT n, now() - (20000 - n) * interval '1 min' AS born,
    CASE WHEN n > 19900 THEN 'queued' WHEN n > 19800 THEN 'processing' WHEN n % 200 = 0 THEN 'failed' ELSE 'completed' END AS status FROM generate_series(1, 20000) n) s;
INSERT INTO inbox_bodies (endpoint, hash, inbox_id, received_at) SELECT endpoint, id, id, received_at FROM inbox;
INSERT INTO events (id, organization_id, trigger_id, automation_id, inbox_id, provider, type, dedup_key, title, created_at, shown)
  SELECT 'e' || id, organization_id, trigger_id, 'a' || substr(id, 2)::int % 50, id, 'github', 'issue', id, 'Bug', received_at,
    CASE WHEN received_at > now() - interval '3 days' THEN '{}' END FROM inbox;
INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, created_at, completed_at)
  SELECT 'r' || id, organization_id, automation_id, id, trigger_id, 'succeeded', 1, created_at, created_at FROM events;
ANALYZE`

func TestInboundQueriesUseTheirIndexOnPostgres(t *testing.T) {
	db, err := Open(t.Context(), Config{URL: dbtest.PostgresFrom(t, "deliveries", func(url string) error {
		db, err := Open(t.Context(), Config{URL: url})
		if err != nil {
			return err
		}
		_, err = db.db.Read.DB.ExecContext(t.Context(), manyDeliveries)
		return errors.Join(err, db.db.Close())
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.db.Close() })
	for _, q := range inboundQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			bad := []string{"Seq Scan on inbox", "Seq Scan on events", "Seq Scan on runs", "Seq Scan on triggers", "Seq Scan on schedules", "Seq Scan on inbox_bodies"}
			if !q.sorts {
				bad = append(bad, "Sort")
			}
			plan := strings.ReplaceAll(explainPostgres(t, db, q.sql), "Incremental Sort", "incremental") // of ties alone
			checkPlan(t, q.sql, plan, q.postgres, bad)
		})
	}
}
