package webhook_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/ingest/event"
	"sallyport/ingest/webhook"
)

// While a secret is replaced both are good, and one that is gone is refused a
// second later.
func TestRotation(t *testing.T) {
	h := newFixture(t)
	h.trigger("one", "hub", `{}`, "old")
	post := func(secret, body string, status int) {
		h.Helper()
		h.post("/webhooks/direct/hub/one", body, signed(secret, body, nil), status)
	}
	post("old", "1", 200)
	post("new", "2", 401)
	h.advance(time.Second)
	post("old", "2", 200)
	h.trigger("one", "hub", `{}`, "new", "old")
	post("new", "3", 200) // at once: it is looked up again when one is refused
	h.looks = 0
	for range 5 {
		post("wrong", "3", 401)
	}
	if h.looks > 0 {
		t.Errorf("wrong secrets had it looked up %d times in the same second", h.looks)
	}
	post("old", "4", 200)
	h.trigger("one", "hub", `{}`, "new")
	h.advance(time.Second)
	post("old", "5", 401)
	post("new", "6", 200)
	// One that cannot be opened does not stop the other; when none can, the sender
	// tries again.
	h.trigger("one", "hub", `{}`, "new", "old")
	h.change("one", func(l *event.TriggerSecrets) { l.Secrets[0].Sealed = []byte("moved") })
	h.advance(time.Second)
	post("new", "7", 401)
	post("old", "8", 200)
	h.change("one", func(l *event.TriggerSecrets) { l.Secrets = l.Secrets[:1] })
	h.advance(time.Second)
	post("old", "9", 503)
}

// A URL is looked up once a second, whether it exists or not, and however many
// ask at once.
func TestLookups(t *testing.T) {
	h := newFixture(t)
	h.trigger("one", "hub", `{}`, "s")
	for range 20 {
		h.post("/webhooks/direct/hub/one", "{}", signed("s", "{}", nil), 200)
		h.post("/webhooks/direct/hub/none", "{}", nil, 404)
	}
	if h.looks != 2 {
		t.Errorf("looked %d times", h.looks)
	}
	h.advance(time.Second)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { h.do(request("GET", "/webhooks/direct/hub/one", "", nil)) })
	}
	all.Wait()
	if h.looks != 3 {
		t.Errorf("looked %d times", h.looks)
	}
	h.advance(-time.Hour) // a clock that was set back
	h.post("/webhooks/direct/hub/one", "{}", signed("s", "{}", nil), 200)
	if h.looks != 4 {
		t.Errorf("looked %d times", h.looks)
	}
}

// Somebody who tries ids out takes no memory, and nothing from those who have one.
func TestLookupLimit(t *testing.T) {
	h := newFixture(t)
	h.trigger("one", "hub", `{}`, "s")
	h.post("/webhooks/direct/hub/one", "{}", signed("s", "{}", nil), 200)
	for i := range 4500 {
		h.do(request("GET", fmt.Sprintf("/webhooks/custom/%d", i), "", nil))
	}
	h.do(request("GET", "/webhooks/custom/0", "", nil))
	h.post("/webhooks/direct/hub/one", "{}", signed("s", "{}", nil), 200)
	if h.looks != 4502 {
		t.Errorf("looked %d times: all is remembered, or what exists was forgotten", h.looks)
	}
	h.do(request("GET", "/webhooks/custom/not-an-id", "", nil))
	h.do(request("GET", "/webhooks/direct/hub/not-an-id", "", nil))
	if h.looks != 4502 {
		t.Error("what is no id was looked up")
	}
}

// While a flood of unknown ids is looked up, what was there a moment ago is.
func TestUnknownURLsDoNotDelayKnownOnes(t *testing.T) {
	h := newFixture(t)
	h.trigger("one", "hub", `{}`, "s")
	h.do(request("GET", "/webhooks/direct/hub/one", "", nil))
	h.advance(time.Minute)
	let := make(chan struct{})
	var asking, most atomic.Int64
	h.triggerRows.before = func(id string) {
		if id == uid("one") {
			return
		}
		if n := asking.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-let
		asking.Add(-1)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { h.do(request("GET", fmt.Sprintf("/webhooks/custom/%d", i), "", nil)) })
	}
	for asking.Load() < 4 {
		runtime.Gosched()
	}
	h.post("/webhooks/direct/hub/one", "{}", signed("s", "{}", nil), 200)
	close(let)
	all.Wait()
	if most.Load() > 4 {
		t.Errorf("%d were looked up at once", most.Load())
	}
}

// What was sent whole is kept, though the sender does not wait for the answer.
func TestSenderDisconnects(t *testing.T) {
	h := newFixture(t)
	ctx, hangUp := context.WithCancel(t.Context())
	h.receiptRows.before = func(ctx context.Context) error {
		hangUp()
		return ctx.Err()
	}
	h.do(request("POST", "/webhooks/direct/hub", "{}", signed(hubSecret, "{}", nil)).WithContext(ctx))
	h.wantReceipts(1)
}

// Large bodies are few at a time; others pass them by.
func TestLargeBodies(t *testing.T) {
	h := newFixture(t)
	var held atomic.Int64
	full, done := make(chan struct{}), make(chan struct{})
	h.receiptRows.before = func(context.Context) error {
		if held.Add(1) == 16 {
			close(full)
		}
		if held.Load() <= 16 {
			<-done
		}
		return nil
	}
	var all sync.WaitGroup
	send := func(ctx context.Context, body string) *httptest.ResponseRecorder {
		return h.do(request("POST", "/webhooks/direct/hub", body, signed(hubSecret, body, nil)).WithContext(ctx))
	}
	large := func(i int) string { return fmt.Sprint(i, strings.Repeat("x", webhook.DefaultMaxBody)) }
	for i := range 16 {
		all.Go(func() {
			if w := send(context.Background(), large(i)); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	<-full
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if w := send(ctx, large(17)); w.Code != 503 || w.Header().Get("Retry-After") != "10" {
		t.Errorf("the next: %d %s", w.Code, w.Body)
	}
	if w := send(t.Context(), "small"); w.Code != 200 {
		t.Errorf("a small one: %d %s", w.Code, w.Body)
	}
	close(done)
	all.Wait()
	h.wantReceipts(17)
	if w := send(t.Context(), large(18)); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}
