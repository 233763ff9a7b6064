package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/ingest/event"
	"sallyport/store"
)

// inboundWorld is a store whose connections break, with a trigger that has a
// delivery, a schedule that is due, and a proxy that cuts.
type inboundWorld struct {
	*testing.T
	*store.DB
	p   *proxy
	how cut
	t   event.Trigger
	s   event.Schedule
}

func newInboundWorld(t *testing.T, how cut) *inboundWorld {
	url := migrated(t)
	p := newProxy(t, url)
	w := &inboundWorld{T: t, DB: open(t, store.Config{URL: p.url}), p: p, how: how}
	a, err := w.CreateAutomation(t.Context(), event.Automation{Organization: store.DefaultOrganization, Name: "Triage", Enabled: true, CreatedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	w.t, err = w.CreateTrigger(t.Context(), event.Trigger{
		Organization: a.Organization, Automation: a.ID, Name: "Issues", Kind: event.Webhooks, Provider: "github", Type: "issue", Enabled: true,
		Config: []byte(`{}`), CreatedBy: "test",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.s, err = w.CreateSchedule(t.Context(), event.Schedule{
		Organization: a.Organization, Automation: a.ID, Name: "Mornings", Cron: "0 7 * * *", TimeZone: "UTC", Enabled: true, Missed: event.MissedOnce,
		NextAt: new(time.Now().Add(-time.Minute)), CreatedBy: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	runSQL(t, url, `INSERT INTO poll_groups (id, organization_id, provider, integration_id, poll_seconds, next_at, failures, turn) VALUES ('g', 'default', 'linear', 'i', 60, now(), 0, 0)`)
	return w
}

// cutting does something while the connection breaks at a query.
func (w *inboundWorld) cutting(text string, f func() error) {
	w.Helper()
	w.p.cutAt(text, w.how, 0)
	if err := f(); err != nil {
		w.Fatalf("cut at %q: %v", text, err)
	}
	if w.p.happened() != 1 {
		w.Fatalf("%q was cut %d times", text, w.p.happened())
	}
}

func (w *inboundWorld) match(trigger, key string) event.Match {
	return event.Match{Run: uuid.NewString(), Record: event.Record{
		ID: uuid.NewString(), Organization: w.t.Organization, Trigger: trigger, Automation: w.t.Automation, Provider: "github", Type: "issue", Key: key, Title: "Bug",
	}}
}

// counts are deliveries, events, runs and deliveries.
func (w *inboundWorld) counts(want [4]int) {
	w.Helper()
	o := w.t.Organization
	receipts, err := w.ListReceipts(w.Context(), event.ReceiptFilter{Organization: o})
	if err != nil {
		w.Fatal(err)
	}
	events, err := w.ListEvents(w.Context(), event.RecordFilter{Organization: o})
	if err != nil {
		w.Fatal(err)
	}
	runs, err := w.ListRuns(w.Context(), event.RunFilter{Organization: o})
	if err != nil {
		w.Fatal(err)
	}
	deliveries, err := w.ListRunDeliveries(w.Context(), event.RunDeliveryFilter{Organization: o})
	if err != nil {
		w.Fatal(err)
	}
	if got := [4]int{receipts.Total, events.Total, runs.Total, deliveries.Total}; got != want {
		w.Fatalf("deliveries, events, runs and run deliveries: %v, want %v", got, want)
	}
}

// TestInboundAfterLostConnection breaks the connection at each write of inbound work: the
// caller hears of his success, and there is one of everything.
func TestInboundAfterLostConnection(t *testing.T) {
	for how, moment := range map[cut]string{beforeIt: "before", afterIt: "after", withIt: "with"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			w := newInboundWorld(t, how)
			w.cutting("INSERT INTO inbox ", func() error {
				_, err := w.Receive(t.Context(), event.Receipt{
					ID: uuid.NewString(), Organization: w.t.Organization, Endpoint: "direct/github", Provider: "github", Key: "k", Sealed: []byte("s"),
				})
				return err
			})
			// A claim that nobody heard of lapses.
			w.cutting("SET status = 'processing'", func() error {
				_, err := w.ClaimReceipts(t.Context(), "w", 10, -time.Second)
				return err
			})
			list, err := w.ClaimReceipts(t.Context(), "w", 10, time.Hour)
			if err != nil || len(list) != 1 {
				t.Fatalf("claimed %+v, %v", list, err)
			}
			settle := event.Settlement{
				Receipt: list[0], Status: event.ReceiptCompleted, BodyHash: "hash", DedupWindow: time.Hour, Matches: []event.Match{w.match(w.t.ID, "a")},
			}
			w.cutting("commit\x00", func() error {
				out, err := w.Settle(t.Context(), "w", []event.Settlement{settle})
				if err == nil && (len(out.Runs) != 1 || out.Runs[0].ID != settle.Matches[0].Run) {
					t.Errorf("runs %+v", out.Runs)
				}
				return err
			})
			w.counts([4]int{1, 1, 1, 1})
			if r, err := w.Receipt(t.Context(), w.t.Organization, list[0].ID); err != nil || r.Status != event.ReceiptCompleted || r.Duplicate {
				t.Errorf("the delivery: %+v, %v", r, err)
			}
			w.cutting("commit\x00", func() error {
				m := w.match(w.s.ID, "7 o'clock")
				runs, fired, err := w.FireSchedule(t.Context(), w.s, nil, &m)
				if err == nil && (len(runs) != 1 || !fired) {
					t.Errorf("fired %t, runs %+v", fired, runs)
				}
				return err
			})
			w.counts([4]int{1, 2, 2, 2})
			g, found, err := w.ClaimPoll(t.Context(), "w", time.Hour)
			if err != nil || !found {
				t.Fatalf("claimed %t, %v", found, err)
			}
			w.cutting("commit\x00", func() error {
				look := event.PollOutcome{Group: g, Cursor: []byte(`{"at":2}`), NextAt: time.Now().Add(time.Hour), Matches: []event.Match{w.match(w.t.ID, "polled")}}
				runs, err := w.SettlePoll(t.Context(), "w", look)
				if err == nil && len(runs) != 1 {
					t.Errorf("runs %+v", runs)
				}
				return err
			})
			w.counts([4]int{1, 3, 3, 3})
			groups, err := w.PollGroups(t.Context(), w.t.Organization)
			if err != nil || len(groups) != 1 || string(groups[0].Cursor) != `{"at":2}` || groups[0].FencingToken != g.FencingToken {
				t.Errorf("the group: %+v, %v", groups, err)
			}
		})
	}
}
