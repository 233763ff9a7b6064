package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/event"
)

// processFor runs a worker on a fixture until it is idle for a while.
func processFor(t *testing.T, for_ time.Duration, prepare func(s *fixture, c *Config), check func(s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		c := s.config()
		prepare(s, &c)
		stop := s.start(c)
		time.Sleep(for_)
		synctest.Wait()
		stop()
		check(s)
	})
}

func TestDeliveryAtTriggerURL(t *testing.T) {
	var r event.Receipt
	processFor(t, time.Millisecond, func(s *fixture, c *Config) {
		s.trigger(event.Trigger{ID: "t1"})
		s.trigger(event.Trigger{ID: "t2"}) // of the same kind, and not meant
		r = s.post(event.Receipt{Organization: "org", Trigger: "t1"}, sale{Keys: []string{"k1"}, Title: "sold", Goods: "tea"}.String())
	}, func(s *fixture) {
		m := s.events["t1 k1"]
		at := r.ReceivedAt.UTC()
		want := event.Record{
			ID: m.Record.ID, Organization: "org", Trigger: "t1", Automation: "auto", Receipt: r.ID, Provider: "shop", Type: "sale",
			Native: "shop.sale", Key: "k1", Title: "sold", CreatedAt: at, Redacted: []byte(`{"keys":["k1"],"title":"sold","goods":"tea"}`),
		}
		if diff := cmp.Diff(want, m.Record); diff != "" || len(s.runs) != 1 || m.Run != s.runs[0] {
			t.Errorf("%s\nruns %v", diff, s.runs)
		}
		whole, err := s.vault.Open(action.Ref{Organization: "org", Table: "events", Row: m.Record.ID, Column: "sealed"}, m.Sealed)
		if err != nil || string(whole) != string(want.Redacted) {
			t.Errorf("sealed is %s, %v", whole, err)
		}
		if got := s.receipt(r.ID); got.Status != event.ReceiptCompleted || got.Native != "shop.sale" || string(got.Redacted) != string(want.Redacted) || len(s.events) != 1 {
			t.Errorf("receipt %+v, events %v", got, s.kept())
		}
	})
}

func TestTargetsOfProviderDelivery(t *testing.T) {
	var strangers, nobodys event.Receipt
	processFor(t, time.Millisecond, func(s *fixture, c *Config) {
		s.integration(action.Integration{ID: "in1", Account: "acme"})
		s.integration(action.Integration{ID: "in2", Account: "other"})
		s.integration(action.Integration{ID: "in3", Account: "acme", Organization: "org2"})
		s.integration(action.Integration{ID: "in4", Account: "acme", Organization: "org3", User: "ada"})
		s.integration(action.Integration{ID: "in5", Account: "acme", Organization: "org4", Provider: "linear"})
		s.trigger(event.Trigger{ID: "any"})
		s.trigger(event.Trigger{ID: "named", Integration: "in1"})
		s.trigger(event.Trigger{ID: "refunds", Type: "refund"})
		s.trigger(event.Trigger{ID: "others", Integration: "in2"})
		s.trigger(event.Trigger{ID: "polls", Integration: "in1", Kind: event.Polling})
		s.trigger(event.Trigger{ID: "tea", Config: []byte(`{"goods":"tea"}`)})
		s.trigger(event.Trigger{ID: "second", Organization: "org2"})
		s.trigger(event.Trigger{ID: "any3", Organization: "org3"})
		s.trigger(event.Trigger{ID: "adas", Organization: "org3", Integration: "in4"})
		s.trigger(event.Trigger{ID: "linear", Organization: "org4", Provider: "linear"})
		s.post(event.Receipt{}, sale{Account: "acme", Keys: []string{"k1"}, Goods: "milk"}.String())
		strangers = s.post(event.Receipt{}, sale{Account: "stranger", Keys: []string{"k2"}}.String())
		nobodys = s.post(event.Receipt{}, sale{Keys: []string{"k3"}}.String())
	}, func(s *fixture) {
		want := []string{"any k1", "named k1", "second k1", "tea k1 filter_mismatch"}
		if diff := cmp.Diff(want, s.kept()); diff != "" {
			t.Error(diff)
		}
		for r, why := range map[*event.Receipt]string{&strangers: "No integration of the account stranger", &nobodys: "does not name its account"} {
			if got := s.receipt(r.ID); got.Status != event.ReceiptCompleted || got.Sealed == nil || got.Redacted == nil || !strings.Contains(got.error, why) {
				t.Errorf("a delivery for nobody is %s: %s", got.Status, got.error)
			}
		}
	})
}

func TestDeletedAndDisabledTriggers(t *testing.T) {
	var gone, disabled, other event.Receipt
	processFor(t, time.Millisecond, func(s *fixture, c *Config) {
		s.trigger(event.Trigger{ID: "t1"})
		off := s.triggers["t1"]
		off.Enabled = false
		s.triggers["t1"] = off
		s.trigger(event.Trigger{ID: "t2", Provider: "linear"})
		gone = s.post(event.Receipt{Trigger: "t0"}, sale{Keys: []string{"k1"}}.String())
		disabled = s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{"k1"}}.String())
		other = s.post(event.Receipt{Trigger: "t2"}, sale{Keys: []string{"k1"}}.String())
	}, func(s *fixture) {
		for _, r := range []event.Receipt{gone, disabled, other} {
			if got := s.receipt(r.ID); got.Status != event.ReceiptCompleted || got.error == "" {
				t.Errorf("%s: %s, %q", r.Trigger, got.Status, got.error)
			}
		}
		if len(s.events) > 0 {
			t.Errorf("there are events: %v", s.kept())
		}
	})
}

func TestUnreadableDeliveryFailsAlone(t *testing.T) {
	var bad [4]event.Receipt
	processFor(t, 20*time.Minute, func(s *fixture, c *Config) {
		s.trigger(event.Trigger{ID: "t1"})
		s.trigger(event.Trigger{ID: "t2", Config: []byte(`{"goods":"panic"}`)})
		bad[0] = s.post(event.Receipt{Trigger: "t1"}, "panic")
		bad[1] = s.post(event.Receipt{Trigger: "t1"}, "no json, token=ghp_0123456789abcdefghijABCDEFGHIJ012345")
		bad[2] = s.post(event.Receipt{Provider: "unknown"}, "{}")
		bad[3] = s.post(event.Receipt{Trigger: "t1"}, "{}")
		s.receipts[bad[3].ID].Sealed = []byte("of another place")
		s.post(event.Receipt{Trigger: "t2"}, sale{Keys: []string{"k1"}}.String())
		s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{"k1"}}.String())
	}, func(s *fixture) {
		for i, says := range []string{"Its log has the details", "The delivery cannot be parsed: it is not valid JSON.", "not accept deliveries of unknown", "its log has the details"} {
			got, attempts := s.receipt(bad[i].ID), 10
			if i < 2 { // what cannot be read now never can
				attempts = 1
			}
			if got.Status != event.ReceiptFailed || got.Attempt != attempts || !strings.Contains(got.error, says) || got.Sealed == nil {
				t.Errorf("%d: %s after %d: %q", i, got.Status, got.Attempt, got.error)
			}
		}
		if diff := cmp.Diff([]string{"t1 k1", "t2 k1 run_create_failed"}, s.kept()); diff != "" {
			t.Error(diff)
		}
		if log := s.log.String(); strings.Contains(log, "canary") || strings.Contains(log, "ghp_0123") || !strings.Contains(log, "a module panicked") || !strings.Contains(log, "shopParse") {
			t.Error("the log is not as it should be:", log)
		}
		if got := s.receipt(bad[1].ID); strings.Contains(got.error+string(got.Redacted), "ghp_0123") {
			t.Errorf("a secret is shown: %s, %s", got.error, got.Redacted)
		}
	})
}

func TestRetryPausesGrow(t *testing.T) {
	var r event.Receipt
	var tried []time.Duration
	processFor(t, time.Hour, func(s *fixture, c *Config) {
		c.MaxAttempts = 12
		began := time.Now()
		s.refuse = func(list []event.Settlement) error {
			tried = append(tried, time.Since(began))
			return nil
		}
		r = s.post(event.Receipt{Provider: "unknown"}, "{}")
	}, func(s *fixture) {
		if got := s.receipt(r.ID); got.Status != event.ReceiptFailed || len(tried) != 12 {
			t.Fatalf("%s after %d", got.Status, len(tried))
		}
		for i := 1; i < len(tried); i++ {
			full := min(time.Second<<(i-1), 10*time.Minute)
			if wait := tried[i] - tried[i-1]; wait < full*3/4 || wait > full+time.Second { // it looks once a second
				t.Errorf("waited %s after attempt %d", wait, i)
			}
		}
	})
}

func TestFailedWriteDoesNotDelayOthers(t *testing.T) {
	var bad event.Receipt
	broken := true
	processFor(t, 20*time.Minute, func(s *fixture, c *Config) {
		s.trigger(event.Trigger{ID: "t1"})
		s.trigger(event.Trigger{ID: "t2", Config: []byte(`{"goods":"tea"}`)})
		s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{"k1"}}.String())
		bad = s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{"k2"}, Signed: true}.String())
		s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{"k3"}}.String())
		s.refuse = func(list []event.Settlement) error {
			for _, one := range list {
				for _, m := range one.Matches {
					if m.Record.Key == "k2" && m.Run != "" && broken {
						return errors.New("a constraint, token=ghp_0123456789abcdefghijABCDEFGHIJ012345")
					}
				}
			}
			return nil
		}
	}, func(s *fixture) {
		if diff := cmp.Diff([]string{"t1 k1", "t1 k2 run_create_failed", "t1 k3"}, s.kept()); diff != "" {
			t.Error(diff)
		}
		got := s.receipt(bad.ID)
		if got.Status != event.ReceiptFailed || got.Attempt != 10 || strings.Contains(got.error, "constraint") || got.Sealed == nil {
			t.Errorf("%s after %d: %s", got.Status, got.Attempt, got.error)
		}
		if text := s.events["t1 k2"].Record.Error; text == "" || strings.Contains(text, "constraint") {
			t.Errorf("the event says %q", text)
		}
		for _, list := range s.settled[:2] {
			if len(list) != 1 {
				t.Errorf("%d were written together after that failed", len(list))
			}
		}
		// Somebody mends it, and has it done again.
		broken = false
		row := s.receipts[bad.ID]
		row.Status, row.Attempt, row.NextAt = event.ReceiptQueued, 0, time.Now()
		stop := s.start(s.config())
		time.Sleep(time.Second)
		stop()
		if s.receipt(bad.ID).Status != event.ReceiptCompleted || s.events["t1 k2"].Record.Skip != "" || s.counted["run"] != 3 {
			t.Errorf("done again: %+v, counted %v", s.receipt(bad.ID), s.counted)
		}
	})
}

func TestOutcomeThatCannotBeWritten(t *testing.T) {
	var bad event.Receipt
	processFor(t, 20*time.Minute, func(s *fixture, c *Config) {
		s.trigger(event.Trigger{ID: "t1"})
		bad = s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{"k2"}}.String())
		s.refuse = func(list []event.Settlement) error {
			if len(list[0].Matches) > 0 || list[0].Redacted != nil {
				return errors.New("no")
			}
			return nil
		}
	}, func(s *fixture) {
		if got := s.receipt(bad.ID); got.Status != event.ReceiptFailed || got.Attempt != 10 {
			t.Errorf("%s after %d", got.Status, got.Attempt)
		}
	})
}

func TestUnreachableDatabaseLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.trigger(event.Trigger{ID: "t1"})
		stop := s.start(s.config())
		defer stop()
		away := func(key string, while time.Duration) event.Receipt {
			first := true
			s.refuse = func([]event.Settlement) error {
				if first { // between the work and its writing
					first, s.down = false, true
					return errDown
				}
				return nil
			}
			r := s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{key}}.String())
			time.Sleep(while)
			s.mu.Lock()
			s.down = false
			s.mu.Unlock()
			time.Sleep(7 * time.Second)
			return r
		}
		r := away("k1", 30*time.Second)
		if got := s.receipt(r.ID); got.Status != event.ReceiptCompleted || got.Attempt != 1 || got.error != "" {
			t.Errorf("within the lease: %s after %d, %s", got.Status, got.Attempt, got.error)
		}
		r = away("k2", 5*time.Minute)
		time.Sleep(time.Minute)
		if got := s.receipt(r.ID); got.Status != event.ReceiptCompleted || got.Attempt > 2 || got.error != "" {
			t.Errorf("beyond the lease: %s after %d, %s", got.Status, got.Attempt, got.error)
		}
		if diff := cmp.Diff([]string{"t1 k1", "t1 k2"}, s.kept()); diff != "" || len(s.runs) != 2 {
			t.Errorf("%s\n%v", diff, s.runs)
		}
	})
}

func TestWakeAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.trigger(event.Trigger{ID: "t1"})
		c := s.config()
		c.PollEvery = time.Hour
		var began []event.Run
		var mu sync.Mutex
		c.Began = func(runs []event.Run) {
			mu.Lock()
			defer mu.Unlock()
			began = append(began, runs...)
		}
		w, err := NewWorker(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		for range 120 { // more than two batches
			s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{""}, Signed: true}.String())
		}
		w.Wake()
		synctest.Wait()
		if len(began) != 120 || s.lookups > 5 { // one for each batch
			t.Errorf("%d runs began, after %d lookups", len(began), s.lookups)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestSameBodyUnderAnotherID(t *testing.T) {
	processFor(t, time.Minute, func(s *fixture, c *Config) {
		s.trigger(event.Trigger{ID: "t1"})
		s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{""}}.String())
		s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{""}}.String())
		for range 2 {
			s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{""}, Signed: true}.String())
		}
	}, func(s *fixture) {
		if len(s.runs) != 3 {
			t.Errorf("runs of %v", s.kept())
		}
	})
}

// Who captured a delivery and sends it under the id of one that is still to come
// does not make that one look like a repetition.
func TestReplayUnderAnotherID(t *testing.T) {
	processFor(t, time.Minute, func(s *fixture, c *Config) {
		s.trigger(event.Trigger{ID: "t1"})
		for _, goods := range []string{"captured", "genuine", "genuine"} {
			s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{"next"}, Unsigned: true, Goods: goods}.String())
		}
	}, func(s *fixture) {
		if len(s.runs) != 2 || s.counted["doubled"] != 1 {
			t.Errorf("runs of %v, counted %v", s.kept(), s.counted)
		}
		for key := range s.events {
			if !strings.HasPrefix(key, "t1 next:") {
				t.Error(key)
			}
		}
	})
}

// At the URL of a whole provider an account is only believed that the service
// itself vouched for, but for what the operator's people connected.
func TestVerifiedAccounts(t *testing.T) {
	var r event.Receipt
	processFor(t, time.Millisecond, func(s *fixture, c *Config) {
		for org, in := range map[string]action.Integration{
			"server":   {BaseURL: "https://linear.attacker.example"},
			"key":      {Kind: action.KindAPIKey},
			"bot":      {Kind: action.KindBotToken},
			"user":     {User: "ada"},
			"private":  {Visibility: action.VisiblePrivate, CreatedBy: "ada"},
			"oauth":    {Kind: action.KindOAuth2},
			"app":      {Kind: action.KindApp},
			"operator": {Kind: action.KindAPIKey, BaseURL: "https://own.example"},
		} {
			in.ID, in.Organization, in.Account = org, org, "acme"
			s.integration(in)
			s.trigger(event.Trigger{ID: org + " any", Organization: org})
			s.trigger(event.Trigger{ID: org + " named", Organization: org, Integration: org})
		}
		s.integration(action.Integration{ID: "mine", Organization: "operator", Account: "acme", User: "ada"})
		s.trigger(event.Trigger{ID: "operator mine", Organization: "operator", Integration: "mine"}) // it became private
		r = s.post(event.Receipt{}, sale{Account: "acme", Keys: []string{"k"}, Lifecycle: event.Suspended}.String())
	}, func(s *fixture) {
		want := []string{"app any k", "app named k", "oauth any k", "oauth named k", "operator any k", "operator named k"}
		if diff := cmp.Diff(want, s.kept()); diff != "" {
			t.Error(diff)
		}
		slices.Sort(s.statuses)
		if diff := cmp.Diff([]string{"app suspended", "mine suspended", "oauth suspended", "operator suspended"}, s.statuses); diff != "" {
			t.Error(diff)
		}
		if got := s.receipt(r.ID); got.Redacted != nil {
			t.Errorf("the operator sees what is others': %s", got.Redacted)
		}
	})
}

// What reached nobody waits for somebody: once the account is connected, it is
// worked off again.
func TestDeliveryWithoutTargets(t *testing.T) {
	var r event.Receipt
	processFor(t, time.Millisecond, func(s *fixture, c *Config) {
		s.trigger(event.Trigger{ID: "t1"})
		r = s.post(event.Receipt{}, sale{Account: "acme", Keys: []string{"k"}}.String())
	}, func(s *fixture) {
		got := s.receipt(r.ID)
		if got.Status != event.ReceiptCompleted || got.Sealed == nil || !strings.Contains(got.error, "No integration of the account") || got.Redacted == nil {
			t.Fatalf("%+v, %s", got.Receipt, got.error)
		}
		s.integration(action.Integration{ID: "in", Account: "acme"})
		s.receipts[r.ID].Status = event.ReceiptQueued
		stop := s.start(s.config())
		time.Sleep(time.Second)
		stop()
		if got := s.receipt(r.ID); len(s.runs) != 1 || got.Sealed != nil || got.Redacted != nil {
			t.Errorf("then: %d runs, %+v", len(s.runs), got.Receipt)
		}
	})
}

// One that ends processes keeps nobody else from being worked off, and is given
// up in the end.
func TestDeliveryThatEndsProcessesIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.trigger(event.Trigger{ID: "t1"})
		var bad event.Receipt
		deaths := 0
		for i := range 20 {
			r := s.post(event.Receipt{Trigger: "t1"}, sale{Keys: []string{strconv.Itoa(i)}}.String())
			if i == 3 {
				bad = r
			}
		}
		for life := range 40 { // of a process; it ends when it works on the bad one
			c := s.config()
			c.Worker, c.Workers = fmt.Sprint("w", life), 1
			ctx, end := context.WithCancel(t.Context())
			c.Vault = deadly{Vault: s.vault, row: bad.ID, end: func() { deaths++; end() }}
			w, err := NewWorker(c)
			if err != nil {
				t.Fatal(err)
			}
			var done sync.WaitGroup
			done.Go(func() { w.processBatches(ctx, ctx) })
			time.Sleep(time.Minute)
			end()
			done.Wait()
			time.Sleep(2 * time.Minute) // its leases lapse
		}
		got := s.receipt(bad.ID)
		if got.Status != event.ReceiptFailed || !strings.Contains(got.error, "died 10 times in a row") || got.Sealed == nil || s.counted["losing"] != 1 {
			t.Errorf("the bad one: %+v, %s", got.Receipt, got.error)
		}
		if len(s.runs) != 19 || deaths != 10 {
			t.Errorf("%d runs began, %d processes ended", len(s.runs), deaths)
		}
	})
}

// deadly is a vault at which a process ends that opens a row.
type deadly struct {
	action.Vault
	row string
	end func()
}

func (d deadly) Open(ref action.Ref, sealed []byte) ([]byte, error) {
	if ref.Row == d.row {
		d.end()
		runtime.Goexit()
	}
	return d.Vault.Open(ref, sealed)
}

func TestNewWorkerRequiresConfig(t *testing.T) {
	c := newFixture(t).config()
	c.Rows = nil
	if _, err := NewWorker(c); err == nil {
		t.Error("made without rows")
	}
	c = newFixture(t).config()
	c.Providers = append(c.Providers, shopProvider("shop"))
	if _, err := NewWorker(c); err == nil {
		t.Error("made with two of a kind")
	}
}
