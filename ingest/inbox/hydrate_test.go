package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
)

// slowService has an integration of a service that completes events.
func slowService(s *fixture, triggers int) {
	s.integration(action.Integration{ID: "in", Provider: "slow", Account: "acme"})
	for i := range triggers {
		s.trigger(event.Trigger{ID: fmt.Sprint("t", i+1), Provider: "slow", Integration: "in", Config: []byte(`{"goods":"tea"}`)})
	}
}

func completeEvent(_ context.Context, _ string, e *event.Event) error {
	e.Context = []byte(`{"goods":"tea","note":"complete"}`)
	return nil
}

func TestEventIsHydratedOncePerDelivery(t *testing.T) {
	processFor(t, time.Second, func(s *fixture, c *Config) {
		slowService(s, 3)
		s.integration(action.Integration{ID: "in2", Provider: "slow", Account: "acme", Organization: "org2"})
		s.trigger(event.Trigger{ID: "u1", Provider: "slow", Organization: "org2"})
		s.trigger(event.Trigger{ID: "own", Provider: "slow"})
		s.hydrate = completeEvent
		s.post(event.Receipt{Provider: "slow"}, sale{Account: "acme", Keys: []string{"k1", "k2"}}.String())
		s.post(event.Receipt{Provider: "slow"}, sale{Account: "acme", Keys: []string{"k3"}, Type: "refund"}.String()) // nobody's
		s.post(event.Receipt{Provider: "slow", Trigger: "own"}, sale{Keys: []string{"k4"}}.String())                  // no credential
	}, func(s *fixture) {
		if diff := cmp.Diff([]string{"in k1", "in k2", "in2 k1", "in2 k2"}, slices.Sorted(slices.Values(s.asked))); diff != "" {
			t.Error(diff)
		}
		want := []string{"own k1", "own k2", "own k4", "t1 k1", "t1 k2", "t2 k1", "t2 k2", "t3 k1", "t3 k2", "u1 k1", "u1 k2"}
		if diff := cmp.Diff(want, s.kept()); diff != "" {
			t.Error(diff)
		}
		if m := s.events["t1 k1"]; !strings.Contains(string(m.Record.Redacted), "complete") {
			t.Errorf("shown is %s", m.Record.Redacted)
		}
	})
}

func TestHydrateRetryAfter(t *testing.T) {
	var receipts []event.Receipt
	var began time.Time
	var asked []time.Duration
	processFor(t, 30*time.Minute, func(s *fixture, c *Config) {
		slowService(s, 1)
		began = time.Now()
		c.MaxAttempts = 2
		s.hydrate = func(ctx context.Context, in string, e *event.Event) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			asked = append(asked, time.Since(began))
			if time.Since(began) < 15*time.Minute {
				return &action.Error{Kind: action.ErrUnavailable, Code: "rate_limited", Message: "wait", RetryAfter: 5 * time.Minute}
			}
			return completeEvent(ctx, in, e)
		}
		for i := range 12 {
			receipts = append(receipts, s.post(event.Receipt{Provider: "slow"}, sale{Account: "acme", Keys: []string{fmt.Sprint("k", i)}}.String()))
		}
	}, func(s *fixture) {
		for _, r := range receipts {
			if got := s.receipt(r.ID); got.Status != event.ReceiptCompleted || got.Attempt < 3 {
				t.Errorf("%s after %d", got.Status, got.Attempt)
			}
		}
		for i, at := range asked {
			if i >= queueWorkers && at < 15*time.Minute && at-asked[i-queueWorkers] < 5*time.Minute {
				t.Errorf("asked at %s, before its time", at)
			}
		}
		if len(s.runs) != 12 {
			t.Errorf("%d runs; asked at %v", len(s.runs), asked)
		}
	})
}

func TestServiceTimeout(t *testing.T) {
	var kept event.Record
	processFor(t, 10*time.Minute, func(s *fixture, c *Config) {
		slowService(s, 1)
		s.hydrate = func(context.Context, string, *event.Event) error {
			return errors.New("canary: not for people")
		}
		s.post(event.Receipt{Provider: "slow"}, sale{Account: "acme", Keys: []string{"k1"}, Goods: "tea"}.String())
	}, func(s *fixture) {
		kept = s.events["t1 k1"].Record
		if len(s.asked) != 3 || len(s.runs) != 1 || !strings.Contains(kept.Error, "could not be fetched") || strings.Contains(kept.Error, "canary") {
			t.Errorf("asked %d times, %d runs, %q", len(s.asked), len(s.runs), kept.Error)
		}
	})
	processFor(t, 10*time.Minute, func(s *fixture, c *Config) {
		slowService(s, 1)
		s.hydrate = func(context.Context, string, *event.Event) error { panic("canary") }
		s.post(event.Receipt{Provider: "slow"}, sale{Account: "acme", Keys: []string{"k1"}, Goods: "tea"}.String())
	}, func(s *fixture) {
		if len(s.runs) != 1 || strings.Contains(s.log.String(), "canary") {
			t.Errorf("%d runs, log %s", len(s.runs), s.log.String())
		}
	})
	processFor(t, 7*time.Hour, func(s *fixture, c *Config) {
		slowService(s, 1)
		s.hydrate = func(context.Context, string, *event.Event) error {
			return &action.Error{Kind: action.ErrTooMany, Code: "rate_limited", Message: "wait", RetryAfter: 10 * time.Minute}
		}
		s.post(event.Receipt{Provider: "slow"}, sale{Account: "acme", Keys: []string{"k1"}, Goods: "tea"}.String())
	}, func(s *fixture) {
		if len(s.runs) != 1 {
			t.Error("it waits forever")
		}
	})
}

func TestFloodOfOneServiceDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		slowService(s, 1)
		s.integration(action.Integration{ID: "in2", Provider: "slow", Account: "b", Organization: "org2"})
		s.trigger(event.Trigger{ID: "u1", Provider: "slow", Organization: "org2"})
		s.trigger(event.Trigger{ID: "quick"})
		open, atOnce, most := make(chan struct{}), 0, 0
		s.hydrate = func(_ context.Context, in string, e *event.Event) error {
			if in == "in2" {
				return nil
			}
			s.mu.Lock()
			atOnce++
			most = max(most, atOnce)
			s.mu.Unlock()
			select {
			case <-open:
			case <-time.After(20 * time.Second):
			}
			s.mu.Lock()
			atOnce--
			s.mu.Unlock()
			return completeEvent(t.Context(), in, e)
		}
		for i := range 100 {
			s.post(event.Receipt{Provider: "slow"}, sale{Account: "acme", Keys: []string{fmt.Sprint("k", i)}}.String())
		}
		s.post(event.Receipt{Provider: "slow"}, sale{Account: "b", Keys: []string{"b"}}.String())
		s.post(event.Receipt{Trigger: "quick"}, sale{Keys: []string{"q"}}.String())
		stop := s.start(s.config())
		defer stop()
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"quick q", "u1 b"}, s.kept()); diff != "" || most != queueWorkers {
			t.Errorf("%s\n%d at once", diff, most)
		}
		s.mu.Lock()
		taken := 0
		for _, r := range s.receipts {
			if r.Status == event.ReceiptProcessing {
				taken++
			}
		}
		s.mu.Unlock()
		if taken != maxQueued {
			t.Errorf("%d are held", taken)
		}
		time.Sleep(2 * time.Minute) // leases are renewed meanwhile
		close(open)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(s.runs) != 102 || most != queueWorkers || s.counted["no_run"] != 0 || s.renewals == 0 {
			t.Errorf("%d runs, %d at once, counted %v, renewed %d times", len(s.runs), most, s.counted, s.renewals)
		}
	})
}

func TestShutdownDuringHydration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		slowService(s, 1)
		s.hydrate = func(ctx context.Context, _ string, _ *event.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}
		r := s.post(event.Receipt{Provider: "slow"}, sale{Account: "acme", Keys: []string{"k1"}, Goods: "tea"}.String())
		s.receipts[r.ID].Attempt = 9 // the last one must not be lost by it
		stop := s.start(s.config())
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if got := s.receipt(r.ID); got.Status != event.ReceiptQueued || got.NextAt.After(time.Now()) || len(s.events) > 0 || time.Since(began) > loop.ShutdownGrace {
			t.Errorf("%s until %s after %s; events %v", got.Status, got.NextAt, time.Since(began), s.kept())
		}
	})
}
