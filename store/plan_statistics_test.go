package store

import (
	"testing"
	"time"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/database"
)

// statisticsQueries are those of an organization "o": none may grow with what
// its period has.
func statisticsQueries(db *DB) []hotQuery {
	now := time.Now().UTC().Truncate(time.Minute)
	p := action.Period{From: now.Add(-24 * time.Hour), To: now, Width: time.Hour}
	part := func(where string) string {
		return calls.CountQuery{Where: where}.Select(db.db.Read, "o", p, database.Cursor{Time: database.NewTimestamp(now.Add(-time.Hour)), ID: "i7"}, 1000).String()
	}
	waiting := func(table, status string) string {
		return calls.RowsWithStatus(db.db.Read, table, "o", status).Limit(calls.MaxQueueCount).String()
	}
	return []hotQuery{
		{name: "calls", sql: part(""), sqlite: []string{"invocations_list (organization_id=? AND (created_at,id)>(?,?) AND (created_at,id)<(?,?))"}, postgres: []string{"invocations_list"}},
		{name: "held", sql: part(calls.HeldCalls), sqlite: []string{"invocations_mode (organization_id=? AND mode=? AND (created_at,id)>(?,?) AND (created_at,id)<(?,?))"}, postgres: []string{"invocations_"}},
		{name: "denied", sql: part(calls.DeniedCalls), sqlite: []string{"invocations_inbox (organization_id=? AND status=? AND (created_at,id)>(?,?) AND (created_at,id)<(?,?))"}, postgres: []string{"invocations_"}},
		{name: "pending", sql: waiting("open_calls", "pending"), sqlite: []string{"COVERING INDEX open_calls_inbox (organization_id=? AND status=?)"}, postgres: []string{"open_calls_"}},
		{name: "runs", sql: waiting("runs", "queued"), sqlite: []string{"INDEX runs_", "(organization_id=?"}},
		{name: "outbox", sql: waiting("outbox", "pending"), sqlite: []string{"INDEX outbox_", "(organization_id=?"}},
		{name: "deliveries", sql: calls.OldestDeliveries(db.db.Read, "o").String(), sqlite: []string{"INDEX inbox_due"}},
	}
}

func TestStatisticsUseTheirIndexOnSQLite(t *testing.T) {
	db := openAt(t, newPath(t))
	for _, q := range statisticsQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			checkPlan(t, q.sql, explain(t, db, q.sql), q.sqlite, []string{"SCAN invocations\n", "SCAN runs\n", "SCAN outbox\n", "TEMP B-TREE"})
		})
	}
}

func TestStatisticsUseTheirIndexOnPostgres(t *testing.T) {
	db := openBusy(t)
	for _, q := range statisticsQueries(db) {
		t.Run(q.name, func(t *testing.T) {
			checkPlan(t, q.sql, explainPostgres(t, db, q.sql), q.postgres, []string{"Seq Scan on invocations"})
		})
	}
}
