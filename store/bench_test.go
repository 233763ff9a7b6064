package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/store"
)

func openBench(b *testing.B) (*store.DB, action.Session) {
	b.Helper()
	db, err := store.Open(b.Context(), store.Config{Path: filepath.Join(b.TempDir(), "bench.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	s, err := db.CreateSession(b.Context(), action.Session{Organization: store.DefaultOrganization, CreatedBy: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	return db, s
}

// spread runs b.N operations on n goroutines.
func spread(b *testing.B, n int, op func(i int64)) {
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
func BenchmarkCall(b *testing.B) {
	for _, kind := range []string{"read", "write"} {
		for _, n := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				db, s := openBench(b)
				ctx := context.Background()
				result := json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, make([]byte, 100)))
				spread(b, n, func(i int64) {
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
						if err := db.Delivered(ctx, s.Organization, d.ID, now); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}
