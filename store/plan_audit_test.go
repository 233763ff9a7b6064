package store

import (
	"errors"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/calls"
	"sallyport/store/database"
	"sallyport/store/evidence"
)

// auditQueries are those of an organization "o" with a session "s". None may
// grow with the rows at rest, but for the count of what waits to be sealed.
func auditQueries(db *DB) []hotQuery {
	now := time.Now()
	after := database.Cursor{Time: database.NewTimestamp(now.Add(-24 * time.Hour)), ID: "i7"}
	soon := database.Cursor{Time: database.NewTimestamp(after.Time.Time.Add(time.Hour)), ID: "x"}
	export := func(f action.InvocationFilter) string {
		f.Organization = "o"
		s := searchFor(f)
		s.OldestFirst = true
		return s.SelectCursors(db.db.Read, calls.TimeRange{After: after, Before: soon}, evidence.ExportStep).String()
	}
	text := func(query string, args ...any) string { return db.db.Read.NewRaw(query, args...).String() }
	ids := []string{"i7", "i17", "i27"}
	queries := []hotQuery{
		{name: "for whom rows wait", sql: evidence.QueuedOrganizationsSQL("seal_queue"), sqlite: []string{"SEARCH q USING PRIMARY KEY (organization_id>?)", "SEARCH q USING PRIMARY KEY (organization_id=?)"}, postgres: []string{"seal_queue_pkey"}},
		{name: "what waits", sql: evidence.QueuedRows(db.db.Read, "o", 200).String(), sqlite: []string{"SEARCH q USING PRIMARY KEY (organization_id=?)", "audit_seals_row (row_id=? AND kind=?)"}, postgres: []string{"seal_queue_pkey", "audit_seals_row"}},
		{name: "for whom refusals wait", sql: evidence.QueuedOrganizationsSQL("refusal_queue"), sqlite: []string{"SEARCH q USING PRIMARY KEY (organization_id>?)", "SEARCH q USING PRIMARY KEY (organization_id=?)"}, postgres: []string{"refusal_queue_pkey"}},
		{name: "refusals that wait", sql: evidence.QueuedRefusals(db.db.Read, "o", 200).String(), sqlite: []string{"SEARCH q USING PRIMARY KEY (organization_id=?)", "audit_seals_row (row_id=? AND kind=?)"}, postgres: []string{"refusal_queue_pkey", "audit_seals_row"}},
		{name: "refusals", sql: evidence.RefusalsQuery(action.RefusalFilter{Organization: "o"}, db.db.Read, after, 50).String(), sqlite: []string{"refusal_counts_list (organization_id=? AND (last_at,id)<(?,?))"}, postgres: []string{"refusal_counts_list"}},
		{name: "refusals of a session", sql: evidence.RefusalsQuery(action.RefusalFilter{Organization: "o", Session: "s"}, db.db.Read, after, 50).String(), sqlite: []string{"refusal_counts_session (organization_id=? AND session_id=? AND (last_at,id)<(?,?))"}, postgres: []string{"refusal_counts_"}},
		{name: "step of an export of refusals", sql: evidence.RefusalsPage(db.db.Read, action.RefusalFilter{Organization: "o"}, after).String(), sqlite: []string{"refusal_counts_list (organization_id=? AND (last_at,id)>(?,?)"}, postgres: []string{"refusal_counts_list"}},
		{name: "ends of refusals", sql: evidence.RefusalTimes(db.db.Read, "o", ids).String(), sqlite: []string{"sqlite_autoindex_refusal_counts_1 (id=?)"}, postgres: []string{"refusal_counts_pkey"}, sorts: true},
		{name: "chain", sql: text(evidence.ChainSQL, "o"), sqlite: []string{"SEARCH s USING PRIMARY KEY (organization_id=? AND seq=?)", "SEARCH audit_seals USING PRIMARY KEY (organization_id=?)"}, postgres: []string{"audit_seals_pkey"}},
		{name: "links", sql: evidence.LinksAfter(db.db.Read, "o", 7, 20000, 200).String(), sqlite: []string{"USING PRIMARY KEY (organization_id=? AND seq>? AND seq<?)"}, postgres: []string{"audit_seals_pkey"}},
		{name: "dequeue", sql: evidence.Tables[1].DeleteQueued(db.db.Read, "o", ids).String(), sqlite: []string{"SEARCH seal_queue USING PRIMARY KEY (organization_id=? AND row_id=? AND kind=?)"}, postgres: []string{"seal_queue_pkey"}},
		{name: "first sealed", sql: text(evidence.FirstCompletionSQL, "o", 7), sqlite: []string{"SEARCH s USING PRIMARY KEY (organization_id=? AND seq>?)"}, postgres: []string{"audit_seals_pkey", "invocations_pkey"}},
		{name: "ends", sql: evidence.CompletionTimes(db.db.Read, "o", ids).String(), sqlite: []string{"sqlite_autoindex_invocations_1 (id=?)"}, postgres: []string{"invocations_pkey"}, sorts: true},
		{name: "removal", sql: evidence.DeleteInvocations(db.db.Read, "o", ids).String(), sqlite: []string{"sqlite_autoindex_invocations_1 (id=?)"}, postgres: []string{"invocations_pkey"}},
		{name: "events of several", sql: evidence.InvocationEvents(db.db.Read, "o", ids).String(), sqlite: []string{"invocation_events_"}, postgres: []string{"invocation_events_"}, sorts: true},
		{name: "step of an export", sql: export(action.InvocationFilter{Source: "linear"}), sqlite: []string{"COVERING INDEX invocations_list (organization_id=? AND (created_at,id)>(?,?) AND (created_at,id)<(?,?))"}, postgres: []string{"invocations_list"}, merges: true},
		{name: "step of a session's export", sql: export(action.InvocationFilter{Session: "s"}), sqlite: []string{"COVERING INDEX invocations_session (organization_id=? AND (session_id,created_at,id)>(?,?,?) AND (session_id,created_at,id)<(?,?,?))"}, postgres: []string{"invocations_session"}, merges: true},
		{name: "seal of a call", sql: text(evidence.SealSQL, "i7", "o"), sqlite: []string{"audit_seals_row (row_id=? AND kind=?)"}, postgres: []string{"audit_seals_row"}},
		{name: "changes of policy", sql: evidence.PolicyEventsPage(db.db.Read, "o", database.Cursor{Time: database.NewTimestamp(now.AddDate(0, 0, -80)), ID: "p7"}, now, now).String(), sqlite: []string{"policy_events_list (organization_id=? AND (at,id)>(?,?)"}, postgres: []string{"policy_events_list"}},
	}
	for _, table := range evidence.DependentTables {
		queries = append(queries, hotQuery{name: "removal of " + table, sql: evidence.DeleteDependents(db.db.Read, table, ids).String(), sqlite: []string{"SEARCH " + table, "(invocation_id=?)"}})
	}
	for _, e := range evidence.Tables {
		byID := hotQuery{name: "rows of " + e.Name, sql: e.Rows(db.db.Read, "o", ids).String(), sqlite: []string{"sqlite_autoindex_" + e.Name + "_1 (id=?)"}, postgres: []string{e.Name + "_pkey"}, sorts: true}
		place := []any{after.Time, after.ID}
		if e.Kind == evidence.SealedEvent {
			place = []any{"i7", after.Time, after.ID}
		}
		strays := hotQuery{
			name: "strays of " + e.Name, sql: e.UnchainedRows(db.db.Read, "o", place).String(),
			sqlite:   []string{e.Name + "_list (organization_id=? AND (", "audit_seals_row (row_id=? AND kind=?)", "SEARCH q USING PRIMARY KEY (organization_id=? AND row_id=?"},
			postgres: []string{e.Name + "_list", "audit_seals_row", e.Queue + "_pkey"},
			sorts:    e.Kind != evidence.SealedInvocation, // there are few in the test
		}
		queries = append(queries, byID, strays)
	}
	return queries
}

func TestAuditQueriesUseTheirIndexOnSQLite(t *testing.T) {
	db := openAt(t, newPath(t))
	for _, q := range auditQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			bad := []string{"SCAN r", "SCAN s", "SCAN i", "SCAN invocation", "SCAN audit_seals", "TEMP B-TREE"}
			if q.merges {
				bad = bad[:5]
			}
			checkPlan(t, q.sql, explain(t, db, q.sql), q.sqlite, bad)
		})
	}
}

// busyAudit seals what ended in [busy], but for a little that waits.
const busyAudit = `
INSERT INTO policy_events (id, organization_id, kind, subject, by, at, before, after)
  SELECT 'p' || n, 'o', 'mode', 'x', 'me', now() - n * interval '1 hour', '{}', '{}' FROM generate_series(1, 2000) n;
INSERT INTO refusal_counts (id, organization_id, session_id, kind, count, first_at, last_at)
  SELECT 'i' || n, 'o', 's', 'rate_limited', 1, now() - n * interval '1 minute', now() - n * interval '1 minute' FROM generate_series(1, 20000) n;
DELETE FROM refusal_queue WHERE row_id NOT LIKE '%7';
INSERT INTO audit_seals (organization_id, seq, kind, row_id, digest, hash, sealed_at)
  SELECT organization_id, row_number() OVER (PARTITION BY organization_id ORDER BY row_id), kind, row_id, sha256('a'), sha256('b'), now() FROM seal_queue;
DELETE FROM seal_queue WHERE row_id NOT LIKE '%7';
ANALYZE;`

func TestAuditQueriesUseTheirIndexOnPostgres(t *testing.T) {
	url := dbtest.PostgresFrom(t, "busy audit", func(url string) error {
		db, err := Open(t.Context(), Config{URL: url})
		if err != nil {
			return err
		}
		_, err = db.db.Read.DB.ExecContext(t.Context(), busy+busyAudit)
		return errors.Join(err, db.db.Close())
	})
	db, err := Open(t.Context(), Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.db.Close()
	for _, q := range auditQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			bad := []string{"Seq Scan on invocations", "Seq Scan on invocation_events", "Seq Scan on audit_seals", "Seq Scan on policy_events"}
			if !q.sorts && !q.merges {
				bad = append(bad, "Sort")
			}
			checkPlan(t, q.sql, explainPostgres(t, db, q.sql), q.postgres, bad)
		})
	}
}
