package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store"
)

// onEach runs a benchmark on both databases, each with durable commits.
func onEach(b *testing.B, bench func(b *testing.B, c store.Config)) {
	b.Run("SQLite", func(b *testing.B) { bench(b, store.Config{}) })
	b.Run("Postgres", func(b *testing.B) {
		dir, err := os.MkdirTemp("", "sallyport-bench-")
		if err != nil {
			b.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
			b.Fatal(err)
		}
		server, err := dbtest.StartPostgresAt(dir, "fsync=on", "full_page_writes=on", "shared_buffers=256MB", "max_wal_size=4GB")
		if err != nil {
			b.Skip(err)
		}
		defer server.Close()
		bench(b, store.Config{URL: server.URL})
	})
}

// openBench returns a store with n sessions: calls of one begin one after the
// other.
func openBench(b *testing.B, c store.Config, n int64) (*store.DB, []action.Session) {
	b.Helper()
	if c.URL == "" {
		c.Path = filepath.Join(b.TempDir(), "bench.db")
	}
	db, err := store.Open(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	sessions := make([]action.Session, n)
	for i := range sessions {
		sessions[i], err = db.CreateSession(b.Context(), action.Session{Organization: store.DefaultOrganization, CreatedBy: "bench"})
		if err != nil {
			b.Fatal(err)
		}
	}
	return db, sessions
}

// spread runs b.N operations on n goroutines.
func spread(b *testing.B, n int64, op func(i int64)) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range n {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				op(i)
			}
		})
	}
	wg.Wait()
}

// BenchmarkCall is the store's share of one executed call: the row, its end
// and its delivery. A read's row is queued, a write's is waited for.
func BenchmarkCall(b *testing.B) { onEach(b, benchmarkCall) }

func benchmarkCall(b *testing.B, c store.Config) {
	for _, kind := range []string{"read", "write"} {
		for _, n := range []int64{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				db, sessions := openBench(b, c, n)
				ctx := context.Background()
				result := json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, make([]byte, 100)))
				spread(b, n, func(i int64) {
					s := sessions[i%n]
					now := time.Now()
					d := &action.Draft{Invocation: action.Invocation{
						ID: uuid.Must(uuid.NewV7()).String(), Organization: s.Organization, Session: s.ID,
						Source: "connector:1", SourceName: "notes", Action: "write", Risk: action.RiskWrite, Mode: action.ModeAllow,
						ModeSource: action.LayerOrganization, Status: action.StatusExecuting,
						Steps:  []action.Step{{Layer: action.LayerOrganization, Key: "connector:1:*", Mode: action.ModeAllow, Note: "The organization allows it."}},
						Params: json.RawMessage(fmt.Sprintf(`{"text":"hello %d"}`, i)), ParamsHash: fmt.Sprint("hash", i), CreatedAt: now,
					}, PolicyVersion: 1, Executor: "here", LeaseUntil: now.Add(time.Minute)}
					d.Snapshot, d.Joins = kind == "read", kind == "write"
					if _, err := db.Begin(ctx, d); err != nil {
						b.Error(err)
					}
					f := &action.Finish{
						Organization: s.Organization, ID: d.ID, Executor: "here", Status: action.StatusCompleted, Result: result, Now: now, DurationMS: 3,
						PickupUntil: now.Add(15 * time.Minute),
					}
					if d.Joins {
						f.SealedResult = []byte(result)
					}
					if _, ok, err := db.Finish(ctx, f); !ok || err != nil {
						b.Error(ok, err)
					}
					if d.Joins {
						if err := db.MarkDelivered(ctx, s.Organization, d.ID, now); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}
