package inbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Secrets that somebody writes into an issue are shown to nobody: what people
// see, and what is logged, has none of them.
func TestNoSecretIsShown(t *testing.T) {
	const canary = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	bodies := []string{
		sale{Keys: []string{canary}, Title: "help " + canary, URL: "https://shop.example/?token=" + canary, Note: "my key is " + canary}.String(),
		`{"keys":["k1"],"password":"` + canary + `"}`,
		"payload=%7B%22keys%22%3A%5B%22k2%22%5D%2C%22note%22%3A%22" + canary + "%22%7D",
		canary, `"` + canary + `"`, `{"keys":"` + canary + `"}`, deep, "",
	}
	var receipts []event.Receipt
	processFor(t, 20*time.Minute, func(s *fixture, c *Config) {
		s.trigger(event.Trigger{ID: "t1"})
		for _, body := range bodies {
			receipts = append(receipts, s.post(event.Receipt{Trigger: "t1"}, body))
		}
		receipts = append(receipts, s.post(event.Receipt{Trigger: "t1"}, `{"note":"`+canary+strings.Repeat(" ", 1<<20)+`"}`))
	}, func(s *fixture) {
		for i, r := range receipts {
			got := s.receipt(r.ID)
			if got.Status != event.ReceiptCompleted && got.Status != event.ReceiptFailed || len(got.Redacted) > 10_000 {
				t.Errorf("%d: %s, %d bytes shown", i, got.Status, len(got.Redacted))
			}
			if len(got.Redacted) > 0 && !json.Valid(got.Redacted) || strings.Contains(string(got.Redacted)+got.error+got.Native, canary) {
				t.Errorf("%d: shown are %s, %s, %s", i, got.Redacted, got.error, got.Native)
			}
		}
		if got := s.receipt(receipts[2].ID); !strings.HasPrefix(string(got.Redacted), `{"keys":["k2"]`) {
			t.Errorf("a form is shown as %s", got.Redacted)
		}
		if got := s.receipt(receipts[len(receipts)-1].ID); !strings.HasPrefix(string(got.Redacted), `{"_truncated":true,"_original_size":`) {
			t.Errorf("a large body is shown as %s", got.Redacted)
		}
		for key, m := range s.events {
			m.Sealed = nil
			if text := fmt.Sprintf("%s %+v %s", key, m, m.Record.Redacted); strings.Contains(text, canary) {
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
	s := newFixture(b)
	s.integration(action.Integration{ID: "in", Account: "acme"})
	for i, config := range []string{`{"goods":"tea"}`, `{}`, `{"goods":"milk"}`} {
		s.trigger(event.Trigger{ID: fmt.Sprint("t", i), Config: []byte(config)})
	}
	w, err := NewWorker(s.config())
	if err != nil {
		b.Fatal(err)
	}
	body := sale{Account: "acme", Keys: []string{""}, Title: "a title", Goods: "tea", Note: strings.Repeat("It was a quiet day in the shop. ", 256)}.String()
	r := s.post(event.Receipt{}, body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		rd, err := w.read(b.Context(), w.newLookup(), r)
		if err != nil {
			b.Fatal(err)
		}
		if got := w.outcome(b.Context(), rd, nil); len(got.Matches) != 3 {
			b.Fatalf("%d matches", len(got.Matches))
		}
	}
}
