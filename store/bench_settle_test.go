package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/ingest/event"
	"sallyport/store"
)

// BenchmarkSettle is how fast workers work deliveries off that wait, each with
// an event, a run and a delivery.
func BenchmarkSettle(b *testing.B) {
	for _, workers := range []int64{1, 4} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			onEach(b, func(b *testing.B, c store.Config) { benchmarkSettle(b, c, workers) })
		})
	}
}

func benchmarkSettle(b *testing.B, c store.Config, workers int64) {
	db, _ := openBench(b, c, 0)
	t, payload := benchTrigger(b, db), benchPayload()
	spread(b, 16, func(i int64) { receiveOne(b, db, t, i, payload) })
	begun := time.Now()
	spread(b, workers, func(i int64) {
		// Each takes a batch for its share of 25 operations.
		if i%25 != 1 {
			return
		}
		if _, err := settleSome(b.Context(), db, uuid.NewString(), t, payload); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "settled/s")
	if page, err := db.ListRuns(b.Context(), event.RunFilter{Organization: t.Organization}); err != nil || page.Total == 0 {
		b.Fatal(page.Total, err)
	}
}

// receiveOne keeps one delivery.
func receiveOne(b *testing.B, db *store.DB, t event.Trigger, i int64, payload []byte) {
	_, err := db.Receive(b.Context(), event.Receipt{
		ID: uuid.Must(uuid.NewV7()).String(), Organization: t.Organization, Endpoint: "direct/github/" + t.ID, Provider: "github", Trigger: t.ID,
		Key: fmt.Sprint("key ", i), Size: len(payload), ReceivedAt: time.Now(), Sealed: payload,
	})
	if err != nil {
		b.Error(err)
	}
}
