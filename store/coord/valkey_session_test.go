package coord

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"sallyport/internal/dbtest"
)

func TestReconnectBackoff(t *testing.T) {
	var waits []time.Duration
	wait := time.Duration(0)
	for i := range 10 {
		wait = nextBackoff(wait, i == 8)
		waits = append(waits, wait)
	}
	got := fmt.Sprint(waits)
	if want := "[100ms 200ms 400ms 800ms 1.6s 3.2s 5s 5s 100ms 200ms]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHintsAreBatched(t *testing.T) {
	v := &Valkey{queue: make(chan packedHint, queueSize)}
	for i := range maxPacketHints + 9 {
		v.queue <- packedHint{Invocation: fmt.Sprint(i)}
	}
	total := 0
	for _, want := range []int{maxPacketHints, 9} {
		hints := v.collectQueued(<-v.queue)
		if len(hints) != want {
			t.Fatalf("%d hints, want %d", len(hints), want)
		}
		for _, h := range hints {
			if h.Invocation != fmt.Sprint(total) {
				t.Fatalf("hint %s came as number %d", h.Invocation, total)
			}
			total++
		}
	}
}

// TestLostPacketIsReported: the next one has to say that hints are
// missing, those that this one would have told of too.
func TestLostPacketIsReported(t *testing.T) {
	t.Parallel()
	v, err := NewValkey(ValkeyConfig{URL: dbtest.Valkey(t), Instance: "a"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := valkey.NewClient(v.options)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	for i, p := range []packet{{Hints: make([]packedHint, 3)}, {Beat: true}} {
		if err := v.publish(context.Background(), &session{client: client}, p); err == nil {
			t.Fatal("a closed client sends")
		}
		if n := v.Stats().Dropped; n != 3 || !v.missed.Load() {
			t.Errorf("packet %d: %d dropped, told: %v", i, n, v.missed.Load())
		}
	}
}

func TestExpiredLocksAreDeleted(t *testing.T) {
	now := time.Now()
	l := NewLocks(func() time.Time { return now })
	for i := range 100 {
		l.Hold(t.Context(), fmt.Sprint(i), time.Second)
	}
	now = now.Add(2 * time.Minute)
	l.Hold(t.Context(), "new", time.Second)
	if n := len(l.table.held); n != 1 {
		t.Errorf("%d locks are remembered", n)
	}
}
