package ingest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
)

func TestMatchesOnlyReadsWhatItIsGiven(t *testing.T) {
	s := newWorkshop(t)
	m := &matcher{providers: registry{}, vault: s.vault, json: &redact.JSON{}, newID: s.id, now: time.Now, log: slog.New(slog.DiscardHandler)}
	p := shop("shop")
	m.providers["shop"] = &p
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	e := event.Event{Provider: "shop", Type: "sale", Key: "k", OccurredAt: at, Context: json.RawMessage(`{"goods":"tea"}`)}
	triggers := []event.Trigger{
		{ID: "t1", Provider: "shop", Type: "sale", Organization: "o1", Automation: "a1", Config: []byte(`{"goods":"tea"}`)},
		{ID: "t2", Provider: "shop", Type: "sale", Organization: "o2", Automation: "a2", Config: []byte(`{"goods":"milk"}`)},
		{ID: "t3", Provider: "shop", Type: "refund"},
		{ID: "t4", Provider: "other", Type: "sale"},
	}
	var first []string
	for range 2 {
		var got []string
		for _, m := range m.matches(t.Context(), triggers, e, "") {
			r := m.Record
			got = append(got, fmt.Sprint(r.Organization, r.Trigger, r.Automation, r.Skip, r.OccurredAt, m.Run != "", len(m.Sealed) > 0))
		}
		if first == nil {
			first = got
		}
		want := []string{"o1t1a12026-01-02 02:04:05 +0000 UTC true true", "o2t2a2filter_mismatch2026-01-02 02:04:05 +0000 UTC false false"}
		if diff := cmp.Diff(want, got); diff != "" || !cmp.Equal(first, got) {
			t.Error(diff)
		}
	}
	// What a delivery brought is kept with it, and with those that start something.
	for i, m := range m.matches(t.Context(), triggers, e, "receipt") {
		if got := m.Record.Shown != nil; got != (i == 0) {
			t.Errorf("match %d has a payload to be shown: %t", i, got)
		}
	}
	// A type that the module has no more.
	e.Type = "gone"
	list := m.matches(t.Context(), []event.Trigger{{ID: "t5", Provider: "shop", Type: "gone"}}, e, "")
	if len(list) != 1 || list[0].Record.Skip != event.SkipRunFailed || !strings.Contains(list[0].Record.Error, "no events of type gone") {
		t.Errorf("%+v", list)
	}
}

func TestKeys(t *testing.T) {
	m := &matcher{json: &redact.JSON{}, vault: newWorkshop(t).vault}
	seen := map[string]bool{}
	for _, key := range []string{"72d3162e-cc78-11e3-81ab-4c9367dc0958", "LIN-1:2026-01-01T00:00:00Z", "hash:" + strings.Repeat("a", 64)} {
		if got := m.key(key); got != key {
			t.Errorf("%q became %q", key, got)
		}
	}
	for _, key := range []string{"", strings.Repeat("a", keptLine+1), strings.Repeat("a", keptLine+2), "a\x00", "a\n", "\xff", "ghp_0123456789abcdefghijABCDEFGHIJ012345"} {
		got := m.key(key)
		if !strings.HasPrefix(got, "hash:") || seen[got] {
			t.Errorf("%q became %q", key, got)
		}
		seen[got] = true
	}
}

// Secrets that somebody writes into an issue are shown to nobody: what people
// see, and what is logged, has none of them.
func TestNoSecretIsShown(t *testing.T) {
	const canary = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	bodies := []string{
		sold{Keys: []string{canary}, Title: "help " + canary, URL: "https://shop.example/?token=" + canary, Note: "my key is " + canary}.String(),
		`{"keys":["k1"],"password":"` + canary + `"}`,
		"payload=%7B%22keys%22%3A%5B%22k2%22%5D%2C%22note%22%3A%22" + canary + "%22%7D",
		canary, `"` + canary + `"`, `{"keys":"` + canary + `"}`, deep, "",
	}
	var receipts []event.Receipt
	worked(t, 20*time.Minute, func(s *workshop, c *WorkerConfig) {
		s.trigger(event.Trigger{ID: "t1"})
		for _, body := range bodies {
			receipts = append(receipts, s.post(event.Receipt{Trigger: "t1"}, body))
		}
		receipts = append(receipts, s.post(event.Receipt{Trigger: "t1"}, `{"note":"`+canary+strings.Repeat(" ", maxRedacted)+`"}`))
	}, func(s *workshop) {
		for i, r := range receipts {
			got := s.receipt(r.ID)
			if got.Status != event.ReceiptCompleted && got.Status != event.ReceiptFailed || len(got.Shown) > keptShown {
				t.Errorf("%d: %s, %d bytes shown", i, got.Status, len(got.Shown))
			}
			if len(got.Shown) > 0 && !json.Valid(got.Shown) || strings.Contains(string(got.Shown)+got.error+got.Native, canary) {
				t.Errorf("%d: shown are %s, %s, %s", i, got.Shown, got.error, got.Native)
			}
		}
		if got := s.receipt(receipts[2].ID); !strings.HasPrefix(string(got.Shown), `{"keys":["k2"]`) {
			t.Errorf("a form is shown as %s", got.Shown)
		}
		if got := s.receipt(receipts[len(receipts)-1].ID); !strings.HasPrefix(string(got.Shown), `{"_truncated":true,"size":`) {
			t.Errorf("a large body is shown as %s", got.Shown)
		}
		for key, m := range s.events {
			m.Sealed = nil
			if text := fmt.Sprintf("%s %+v %s", key, m, m.Record.Shown); strings.Contains(text, canary) {
				t.Error("an event shows it:", text)
			}
		}
		if len(s.events) != 2 {
			t.Errorf("events %v", s.kept())
		}
		if strings.Contains(s.log.String(), canary) {
			t.Error("the log shows it:", s.log.String())
		}
	})
}

// BenchmarkWorker is what a delivery of 8 KB costs that three triggers hear of,
// one in vain, but for the rows.
func BenchmarkWorker(b *testing.B) {
	s := newWorkshop(b)
	s.integration(action.Integration{ID: "in", Account: "acme"})
	for i, config := range []string{`{"goods":"tea"}`, `{}`, `{"goods":"milk"}`} {
		s.trigger(event.Trigger{ID: fmt.Sprint("t", i), Config: []byte(config)})
	}
	w, err := NewWorker(s.config())
	if err != nil {
		b.Fatal(err)
	}
	body := sold{Account: "acme", Keys: []string{""}, Title: "a title", Goods: "tea", Note: strings.Repeat("It was a quiet day in the shop. ", 256)}.String()
	r := s.post(event.Receipt{}, body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		rd, err := w.read(b.Context(), w.newLookup(), r)
		if err != nil {
			b.Fatal(err)
		}
		if got := w.matched(b.Context(), rd); len(got.Matches) != 3 {
			b.Fatalf("%d matches", len(got.Matches))
		}
	}
}
