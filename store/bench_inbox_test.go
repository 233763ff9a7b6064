package store_test

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/ingest/event"
	"sallyport/store"
)

// BenchmarkInbox is the store's share of 1,000 deliveries a second from 64
// senders while a worker works them off: how long one takes to be kept, and how
// many wait in the end.
func BenchmarkInbox(b *testing.B) { onEach(b, benchmarkInbox) }

func benchmarkInbox(b *testing.B, c store.Config) {
	db, _ := openBench(b, c, 0)
	t, payload := benchTrigger(b, db), benchPayload()
	ctx, cancel := context.WithCancel(b.Context())
	var done sync.WaitGroup
	var worked atomic.Int64
	done.Go(func() {
		for ctx.Err() == nil {
			n, err := settleSome(context.WithoutCancel(ctx), db, "w", t, payload)
			if err != nil {
				b.Error(err)
				return
			}
			if worked.Add(int64(n)); n == 0 {
				time.Sleep(50 * time.Millisecond)
			}
		}
	})
	took := make([]time.Duration, b.N)
	begun := time.Now()
	b.ResetTimer()
	spread(b, 64, func(i int64) {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Millisecond)))
		started := time.Now()
		receiveOne(b, db, t, i, payload)
		took[i-1] = time.Since(started)
	})
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(int64(b.N)-worked.Load()), "waiting")
	cancel()
	done.Wait()
}

// benchPayload does not compress: it is sealed.
func benchPayload() []byte {
	payload := make([]byte, 8<<10)
	rand.Read(payload)
	return payload
}

func benchTrigger(b *testing.B, db *store.DB) event.Trigger {
	b.Helper()
	a, err := db.CreateAutomation(b.Context(), event.Automation{Organization: store.DefaultOrganization, Name: "Triage", Enabled: true, CreatedBy: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	t, err := db.CreateTrigger(b.Context(), event.Trigger{
		Organization: a.Organization, Automation: a.ID, Name: "Issues", Kind: event.Webhooks, Provider: "github", Type: "issue", Enabled: true, Config: []byte(`{}`), CreatedBy: "bench",
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// settleSome works off a batch, each with a run.
func settleSome(ctx context.Context, db *store.DB, worker string, t event.Trigger, payload []byte) (int, error) {
	list, err := db.ClaimReceipts(ctx, worker, 25, time.Minute)
	if err != nil {
		return 0, err
	}
	settlements := make([]event.Settlement, 0, len(list))
	for _, r := range list {
		settlements = append(settlements, event.Settlement{
			Receipt: r, Status: event.ReceiptCompleted, Redacted: []byte(`{}`), BodyHash: r.Key, DedupWindow: time.Minute,
			Matches: []event.Match{{Run: uuid.NewString(), Sealed: payload, Record: event.Record{
				ID: uuid.Must(uuid.NewV7()).String(), Organization: t.Organization, Trigger: t.ID, Automation: t.Automation, Receipt: r.ID,
				Provider: "github", Type: "issue", Key: r.Key, Title: "Bug", Redacted: []byte(`{}`),
			}}},
		})
	}
	_, err = db.Settle(ctx, worker, settlements)
	return len(list), err
}
