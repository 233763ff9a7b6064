package store

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/store/calls"
)

// BenchmarkEndedRow writes rows of reads that ended, 64 in a transaction as the
// writer does under load: what SQLite itself takes of a call, triggers, indexes
// and constraints included, without waiting for the disk.
func BenchmarkEndedRow(b *testing.B) {
	db, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "rows.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer db.db.Close()
	session, err := db.CreateSession(b.Context(), action.Session{Organization: DefaultOrganization, CreatedBy: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := db.db.Write.DB.ExecContext(b.Context(), "PRAGMA synchronous = OFF"); err != nil {
		b.Fatal(err)
	}
	const batch = 64
	rows := make([][]any, batch)
	ended := statementOf(b, db, calls.EndedSQL)
	for b.Loop() {
		b.StopTimer()
		for i := range rows {
			rows[i] = endedRow(b, &session, i)
		}
		b.StartTimer()
		tx, err := db.db.Write.DB.BeginTx(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, args := range rows {
			if _, err := ended.Exec(b.Context(), tx, args...); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/row")
}

func endedRow(b *testing.B, s *action.Session, i int) []any {
	b.Helper()
	now := time.Now()
	d := &action.Draft{Invocation: action.Invocation{
		ID: uuid.Must(uuid.NewV7()).String(), Organization: s.Organization, Session: s.ID,
		Source: "connector:1", SourceName: "notes", Action: "list", Risk: action.RiskRead, Mode: action.ModeAllow,
		ModeSource: action.LayerOrganization, Status: action.StatusExecuting,
		Steps:  []action.Step{{Layer: action.LayerOrganization, Key: "connector:1:*", Mode: action.ModeAllow, Note: "The organization allows it."}},
		Params: json.RawMessage(fmt.Sprintf(`{"text":"hello %d"}`, i)), ParamsHash: fmt.Sprint("hash", i), CreatedAt: now,
	}, PolicyVersion: 1, Executor: "here", LeaseUntil: now.Add(time.Minute)}
	r, err := calls.NewRow(d)
	if err != nil {
		b.Fatal(err)
	}
	r.Finish(&action.Finish{Status: action.StatusCompleted, Now: now, DurationMS: 3, Result: json.RawMessage(`{"content":[{"type":"text","text":"hello"}]}`)})
	return calls.EndedColumns.Values(r)
}
