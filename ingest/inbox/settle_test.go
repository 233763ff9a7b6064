package inbox

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
)

// Being put off, by a service or because the process stops, is no failure.
func TestOnlyFailuresCountAsAttempts(t *testing.T) {
	s := newFixture(t)
	w, err := NewWorker(s.config())
	if err != nil {
		t.Fatal(err)
	}
	rd := &reading{receipt: event.Receipt{ID: "r", Attempt: 12, Failures: 8, ReceivedAt: time.Now()}}
	if got := w.postpone(rd, &postponed{until: time.Now(), reason: "Later."}); got.Failures != 8 || got.Status != event.ReceiptQueued {
		t.Errorf("put off: %+v", got)
	}
	ninth := w.failure(t.Context(), rd, errors.New("away"))
	rd.receipt.Failures = 9
	tenth := w.failure(t.Context(), rd, errors.New("away"))
	if ninth.Status != event.ReceiptQueued || ninth.Failures != 9 || tenth.Status != event.ReceiptFailed {
		t.Errorf("the ninth failure: %s (%d), the tenth: %s", ninth.Status, ninth.Failures, tenth.Status)
	}
}

// What a service took away hears nothing, and of several integrations one that
// can be used completes events.
func TestIntegrationOfTrigger(t *testing.T) {
	in := func(id string, status action.IntegrationStatus) action.Integration {
		return action.Integration{ID: id, Organization: "o", Status: status, Visibility: action.VisibleOrganization}
	}
	any := []event.Trigger{{ID: "t", Kind: event.Webhooks, Provider: "shop"}}
	for _, test := range []struct {
		name  string
		found []action.Integration
		want  string
	}{
		{"revoked", []action.Integration{in("1", action.IntegrationRevoked)}, ""},
		{"expired", []action.Integration{in("1", action.IntegrationExpired)}, "1"},
		{"the one that can be used", []action.Integration{in("1", action.IntegrationExpired), in("2", action.IntegrationActive)}, "2"},
	} {
		got := ""
		for _, h := range groupTargets("o", any, test.found) {
			got += h.integration
		}
		if got != test.want {
			t.Errorf("%s: %q hears, want %q", test.name, got, test.want)
		}
	}
}

// While senders wait for long, workers rest between batches, and take up work
// again when they do not.
func TestWorkersPauseWhileSendersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.trigger(event.Trigger{ID: "t1"})
		for i := range 400 {
			s.post(event.Receipt{Trigger: "t1"}, fmt.Sprintf(`{"key":"k%d"}`, i))
		}
		var batches atomic.Int64
		s.refuse = func([]event.Settlement) error { time.Sleep(10 * time.Millisecond); batches.Add(1); return nil }
		c := s.config()
		c.Workers, c.Batch, c.Pace = 1, 10, &loop.Pace{}
		stop := s.start(c)
		defer stop()
		c.Pace.Record(time.Millisecond, time.Now())
		for range 100 {
			c.Pace.Record(time.Second, time.Now())
			time.Sleep(time.Millisecond)
		}
		if busy := batches.Load(); busy > 2 {
			t.Errorf("%d batches of 10 ms within 100 ms while senders wait, want 2 at most", busy)
		}
		time.Sleep(200 * time.Millisecond) // a rest ends, and nobody waits any more
		before := batches.Load()
		time.Sleep(100 * time.Millisecond)
		if idle := batches.Load() - before; idle < 9 {
			t.Errorf("%d batches of 10 ms within 100 ms when nobody waits", idle)
		}
	})
}
