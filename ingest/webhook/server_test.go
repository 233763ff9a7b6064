package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/ingest/webhook"
	"sallyport/internal/vault"
)

// The vectors that GitHub and Standard Webhooks publish.
const (
	hubSecret    = "It's a Secret to Everybody"
	hubBody      = "Hello, World!"
	hubSignature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

	standardSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	standardID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	standardBody      = `{"test": 2432232314}`
	standardSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

// standardTime is when the second one was signed.
var standardTime = time.Unix(1614265330, 0).UTC()

// fixture is a server with what it works on.
type fixture struct {
	*testing.T
	*receiptRows
	*triggerRows
	*fakeClock
	vault  *vault.Vault
	log    *bytes.Buffer
	woken  atomic.Int64
	counts *counts
	web    http.Handler
}

// counts is what the server counted.
type counts struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *counts) add(what, provider string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[what+" "+provider]++
}

func (c *counts) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[what]
}

// hubProvider signs as GitHub does, and can do what modules should not.
func hubProvider() event.Provider {
	return event.Provider{ID: "hub", IdentifiesAccount: true, Types: []event.Type{{ID: "push"}}, Webhook: &event.Webhook{
		Verify: func(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
			switch d.Header.Get("X-Do") {
			case "panic":
				panic(string(secrets[0]))
			case "lax":
				return nil
			}
			signature, _ := event.Header(d.Header, "X-Hub-Signature-256")
			return event.VerifyHex(signature, "sha256=", secrets, d.Body)
		},
		Challenge: func(d *event.Delivery) []byte {
			if d.Header.Get("X-Do") == "challenge" {
				panic("a challenge")
			}
			answer, _ := bytes.CutPrefix(d.Body, []byte("challenge="))
			if len(answer) == len(d.Body) {
				return nil
			}
			return answer
		},
		Parse:    func(*event.Delivery) (event.Parsed, error) { panic("the server parses nothing") },
		IDHeader: "X-Hub-Delivery",
		MaxBody:  3 << 20,
	}}
}

func newFixture(t *testing.T, change ...func(*webhook.Config)) *fixture {
	t.Helper()
	v, err := vault.New(bytes.Repeat([]byte{7}, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{
		T: t, receiptRows: &receiptRows{}, triggerRows: &triggerRows{locks: map[string]event.TriggerSecrets{}}, fakeClock: &fakeClock{at: standardTime}, vault: v,
		log: &bytes.Buffer{}, counts: &counts{all: map[string]int{}},
	}
	polled := event.Provider{ID: "polled", SupportsPolling: true}
	posthog := event.Provider{ID: "posthog", Webhook: hubProvider().Webhook}
	var ids atomic.Int64
	c := webhook.Config{
		Providers: []event.Provider{hubProvider(), polled, posthog, {ID: "secretless", IdentifiesAccount: true, Webhook: hubProvider().Webhook}},
		Rows:      h, Vault: v, Now: h.now, Log: newLog(h.log),
		Secrets: map[string][]string{"hub": {"next", hubSecret}, "nango": {"nango's"}}, Operator: "operators",
		Accepted: func() { h.woken.Add(1) },
		Count:    h.counts.add,
		NewID:    func() string { return fmt.Sprint("receipt-", ids.Add(1)) },
	}
	for _, do := range change {
		do(&c)
	}
	s, err := webhook.NewServer(c)
	if err != nil {
		t.Fatal(err)
	}
	h.web = s.Handler()
	return h
}

// trigger adds one with secrets.
func (h *fixture) trigger(id, provider, config string, secrets ...string) {
	h.Helper()
	l := event.TriggerSecrets{Trigger: event.Trigger{
		ID: uid(id), Organization: "acme", Automation: id + "-automation", Provider: provider, Kind: event.Webhooks, Enabled: true, Config: []byte(config),
	}}
	for i, secret := range secrets {
		one := event.Secret{ID: fmt.Sprint(id, "-", i)}
		sealed, err := h.vault.Seal(action.Ref{Organization: "acme", Table: "signing_secrets", Row: one.ID, Column: "sealed"}, []byte(secret))
		if err != nil {
			h.Fatal(err)
		}
		one.Sealed = sealed
		l.Secrets = append(l.Secrets, one)
	}
	h.locks[uid(id)] = l
}

func newLog(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type headers map[string]string

// uid is the id of what tests call by a name.
func uid(name string) string { return uuid.NewSHA1(uuid.Nil, []byte(name)).String() }

var named = regexp.MustCompile(`^(/?(?:webhooks/)?(?:custom|direct/[a-z]+)/)([a-z0-9]{1,20})$`)

// withID has the id in a path in place of a trigger's name.
func withID(path string) string {
	if m := named.FindStringSubmatch(path); m != nil {
		return m[1] + uid(m[2])
	}
	return path
}

func request(method, path, body string, set headers) *http.Request {
	path = withID(path)
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for name, value := range set {
		r.Header.Set(name, value)
	}
	return r
}

func (h *fixture) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.web.ServeHTTP(w, r)
	return w
}

// post posts, and checks the status of the answer.
func (h *fixture) post(path, body string, set headers, status int) *httptest.ResponseRecorder {
	h.Helper()
	w := h.do(request("POST", path, body, set))
	if w.Code != status {
		h.Errorf("POST %s: %d %s, want %d", path, w.Code, w.Body, status)
	}
	return w
}

// wantReceipts checks how many receipts there are.
func (h *fixture) wantReceipts(n int) {
	h.Helper()
	if got := len(h.stored()); got != n {
		h.Errorf("%d receipts are kept, want %d", got, n)
	}
}

// signed signs a body as GitHub does, and adds headers.
func signed(secret, body string, more headers) headers {
	set := headers{"X-Hub-Signature-256": "sha256=" + hexMAC(secret, body)}
	maps.Copy(set, more)
	return set
}

func standardHeaders() headers {
	return headers{"Webhook-Id": standardID, "Webhook-Timestamp": "1614265330", "Webhook-Signature": standardSignature}
}

func TestPublishedVectors(t *testing.T) {
	h := newFixture(t)
	h.trigger("one", "custom", `{}`, standardSecret)
	w := h.post("/webhooks/direct/hub", hubBody, headers{"X-Hub-Signature-256": hubSignature, "X-Hub-Delivery": "d1", "Cookie": "a=b"}, 200)
	if got := w.Body.String(); got != `{"received":true}` || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("answered %s, %v", got, w.Header())
	}
	h.post("/webhooks/custom/one", standardBody, standardHeaders(), 200)
	h.wantReceipts(2)
	if h.woken.Load() != 2 || h.counts.of("received hub") != 1 || h.counts.of("received custom") != 1 {
		t.Errorf("woken %d times, counted %v", h.woken.Load(), h.counts.all)
	}

	r := h.stored()[0]
	if r.Organization != "operators" || r.Endpoint != "direct/hub" || r.Provider != "hub" || r.Trigger != "" || r.Size != len(hubBody) ||
		r.Status != event.ReceiptQueued || !r.NextAt.Equal(standardTime) || !r.ReceivedAt.Equal(standardTime) || r.ID == "" || len(r.Key) != 64 {
		t.Errorf("the provider's receipt: %+v", r)
	}
	d, err := delivery.Open(h.vault, r)
	if err != nil || string(d.Body) != hubBody || d.Config != nil || d.Header.Get("X-Hub-Delivery") != "d1" || d.Header.Get("Cookie") != "" {
		t.Errorf("it keeps %+v, %v", d, err)
	}
	r = h.stored()[1]
	if r.Organization != "acme" || r.Endpoint != withID("custom/one") || r.Provider != "custom" || r.Trigger != uid("one") {
		t.Errorf("the trigger's receipt: %+v", r)
	}
	if d, err := delivery.Open(h.vault, r); err != nil || string(d.Config) != `{}` || d.Header.Get("Webhook-Id") != standardID {
		t.Errorf("it keeps %+v, %v", d, err)
	}
}

func TestEveryURL(t *testing.T) {
	h := newFixture(t)
	h.trigger("t1", "hub", `{}`, "s")
	h.trigger("t2", "custom", `{"verification":{"scheme":"hmac","header":"X-Hub-Signature-256"}}`, "s")
	h.trigger("t3", "posthog", `{}`, "s")
	for path, endpoint := range map[string]string{
		"direct/hub": "direct/hub", "direct/hub/t1": "direct/hub/t1", "custom/t2": "custom/t2", "posthog/t3-automation": "direct/posthog/t3",
	} {
		secret := map[string]string{"direct/hub": hubSecret}[path]
		if secret == "" {
			secret = "s"
		}
		h.post("/webhooks/"+path, "{}", signed(secret, "{}", nil), 200)
		if all := h.stored(); len(all) == 0 || all[len(all)-1].Endpoint != withID(endpoint) {
			t.Errorf("%s: kept %+v", path, all)
		}
		for _, method := range []string{"GET", "HEAD"} {
			if w := h.do(request(method, "/webhooks/"+path, "", nil)); w.Code != 200 || w.Body.String() != `{"status":"ok"}` {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
		for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS"} {
			if w := h.do(request(method, "/webhooks/"+path, "{}", signed(secret, "{}", nil))); w.Code != 405 || w.Header().Get("Allow") == "" {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	if w := h.do(request("GET", "/webhooks/direct/posthog", "", nil)); w.Code != 404 {
		t.Errorf("a URL that takes nothing is there: %d %s", w.Code, w.Body)
	}
	// What was captured at one URL of a trigger is no news at another.
	h.post("/webhooks/automation/t2-automation", "{}", signed("s", "{}", nil), 200)
	h.post("/webhooks/direct/custom/t2", "{}", signed("s", "{}", nil), 200)
	h.wantReceipts(4)
	h.post("/webhooks/nango", "{}", headers{"X-Nango-Hmac-Sha256": hexMAC("nango's", "{}")}, 200)
	sum := sha256.Sum256([]byte("nango's{}"))
	h.post("/webhooks/nango", "{}", headers{"X-Nango-Signature": hex.EncodeToString(sum[:])}, 401)
	h.wantReceipts(5)
}

func TestRefusals(t *testing.T) {
	const hmacConfig = `{"verification":{"scheme":"hmac"}}`
	good := signed(hubSecret, "{}", nil)
	for _, test := range []struct {
		name   string
		path   string
		body   string
		set    headers
		edit   func(*http.Request)
		status int
	}{
		{name: "an unknown provider", path: "direct/other", status: 404},
		{name: "a provider that is only polled", path: "direct/polled", status: 404},
		{name: "custom has no URL without a trigger", path: "direct/custom", status: 404},
		{name: "an unknown trigger", path: "direct/hub/none", status: 404},
		{name: "a trigger of another provider", path: "direct/hub/custom", status: 404},
		{name: "a trigger that polls", path: "direct/hub/polls", status: 404},
		{name: "an unknown custom trigger", path: "custom/none", status: 404},
		{name: "another provider's trigger as custom", path: "custom/hub", status: 404},
		{name: "an unknown automation", path: "automation/none", status: 404},
		{name: "an automation without such a trigger", path: "posthog/custom-automation", status: 404},
		{name: "a very long id", path: "custom/" + strings.Repeat("a", 300), status: 404},
		{name: "an id that is no trigger's", path: "direct/hub/T-1", status: 404},
		{name: "an id that is no text", path: "custom/%ff", status: 404},
		{name: "an id with a zero in it", path: "custom/a%00", status: 404},
		{name: "no id", path: "custom/", status: 404},
		{name: "too much of a path", path: "custom/custom/more", status: 404},
		{name: "no path", path: "", status: 404},
		{name: "no secret", path: "direct/secretless", set: good, status: 401},
		{name: "a trigger without secrets", path: "direct/hub/bare", set: signed("", "{}", nil), status: 401},
		{name: "a trigger with an empty secret", path: "direct/hub/empty", set: signed("", "{}", nil), status: 401},
		{name: "no secret, and a lax module", path: "direct/secretless", set: headers{"X-Do": "lax"}, status: 401},
		{name: "an empty secret, and a lax module", path: "direct/hub/empty", set: headers{"X-Do": "lax"}, status: 401},
		{name: "no signature", path: "direct/hub", status: 401},
		{name: "another secret", path: "direct/hub", set: signed("other", "{}", nil), status: 401},
		{name: "a trigger's secret elsewhere", path: "direct/hub", set: signed("s", "{}", nil), status: 401},
		{name: "the deployment's secret at a trigger", path: "direct/hub/hub", set: good, status: 401},
		{name: "another body", path: "direct/hub", body: "{ }", set: good, status: 401},
		{name: "two signatures", path: "direct/hub", set: good, edit: func(r *http.Request) {
			r.Header.Add("X-Hub-Signature-256", r.Header.Get("X-Hub-Signature-256"))
		}, status: 401},
		{name: "a panic", path: "direct/hub", set: signed(hubSecret, "{}", headers{"X-Do": "panic"}), status: 401},
		{name: "a signature for another scheme", path: "custom/custom", set: signed("s", "{}", nil), status: 401},
		{name: "standard where hmac is due", path: "custom/hmac", set: standardHeaders(), body: standardBody, status: 401},
		{name: "a stale time", path: "custom/stale", set: standardHeaders(), body: standardBody, status: 401},
		{name: "compressed", path: "direct/hub", set: signed(hubSecret, "{}", headers{"Content-Encoding": "gzip"}), status: 415},
		{name: "too large where there is no secret", path: "direct/secretless", body: strings.Repeat("a", 3<<20+1), status: 401},
		{name: "a body that breaks off where there is no secret", path: "direct/secretless", edit: func(r *http.Request) { r.Body = io.NopCloser(&failingReader{}) }, status: 401},
		{name: "too large", path: "direct/hub", body: strings.Repeat("a", 3<<20+1), status: 413},
		{name: "too large without saying so", path: "custom/custom", body: strings.Repeat("a", 1<<20+1), edit: func(r *http.Request) { r.ContentLength = -1 }, status: 413},
		{name: "much too large without saying so", path: "direct/hub", body: strings.Repeat("a", 3<<20+1), edit: func(r *http.Request) { r.ContentLength = -1 }, status: 413},
		{name: "a body that breaks off", path: "direct/hub", edit: func(r *http.Request) { r.Body = io.NopCloser(&failingReader{}) }, status: 400},
	} {
		h := newFixture(t, func(c *webhook.Config) { c.Tolerances = map[string]time.Duration{"custom": time.Minute} })
		h.trigger("hub", "hub", `{}`, "s")
		h.trigger("bare", "hub", `{}`)
		h.trigger("empty", "hub", `{}`, "")
		h.trigger("custom", "custom", `{}`, "s")
		h.trigger("hmac", "custom", hmacConfig, standardSecret)
		h.trigger("stale", "custom", `{}`, standardSecret)
		h.trigger("polls", "hub", `{}`)
		h.change("polls", func(l *event.TriggerSecrets) { l.Trigger.Kind = event.Polling })
		h.advance(time.Minute + time.Second)
		if test.body == "" {
			test.body = "{}"
		}
		r := request("POST", "/webhooks/"+test.path, test.body, test.set)
		if test.edit != nil {
			test.edit(r)
		}
		w := h.do(r)
		if w.Code != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.status)
		}
		if test.status == 404 || test.status == 401 { // which of both it is tells the status alone
			if want := newFixture(t).post("/webhooks/nowhere", "", nil, 404); w.Body.String() != want.Body.String() {
				t.Errorf("%s: %s", test.name, w.Body)
			}
		}
		var body map[string]string
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body["error"] == "" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: answered %s", test.name, w.Body)
		}
		if h.wantReceipts(0); h.woken.Load() != 0 {
			t.Errorf("%s: the worker was woken", test.name)
		}
		if strings.Contains(h.log.String(), hubSecret) {
			t.Errorf("%s: the log has the secret: %s", test.name, h.log)
		}
	}
}

// failingReader is a body that breaks off.
type failingReader struct{}

func (*failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestStale(t *testing.T) {
	h := newFixture(t)
	h.trigger("one", "custom", `{}`, standardSecret)
	for _, test := range []struct {
		away   time.Duration
		status int
	}{{5 * time.Minute, 200}, {5*time.Minute + time.Second, 401}, {-5 * time.Minute, 200}, {-5*time.Minute - time.Second, 401}} {
		h.advance(test.away)
		h.post("/webhooks/custom/one", standardBody, standardHeaders(), test.status)
		h.advance(-test.away)
	}
	if h.counts.of("stale custom") != 2 {
		t.Errorf("counted %v", h.counts.all)
	}
}

// A forger who is first with a delivery's id, or floods its URL, changes
// nothing for the real one.
func TestABadSignatureLeavesNoTrace(t *testing.T) {
	h := newFixture(t, func(c *webhook.Config) { c.PerMinute = 1 })
	id := headers{"X-Hub-Delivery": "d1"}
	for range 50 {
		h.post("/webhooks/direct/hub", "{}", signed("forged", "{}", id), 401)
	}
	h.wantReceipts(0)
	h.post("/webhooks/direct/hub", "{}", signed(hubSecret, "{}", id), 200)
	h.wantReceipts(1)
	h.post("/webhooks/direct/hub", "{}", signed("forged", "{}", id), 401)
}

func TestRateLimit(t *testing.T) {
	h := newFixture(t, func(c *webhook.Config) { c.PerMinute = 2 })
	h.trigger("one", "hub", `{}`, "s")
	h.trigger("two", "hub", `{}`, "s")
	h.advance(-h.now().Sub(h.now().Truncate(time.Minute)) + 40*time.Second)
	send := func(path, secret, body string, status int) *httptest.ResponseRecorder {
		h.Helper()
		return h.post(path, body, signed(secret, body, headers{"X-Hub-Delivery": body}), status)
	}
	const one = "/webhooks/direct/hub/one"
	send(one, "s", "1", 200)
	send(one, "s", "2", 200)
	h.advance(500 * time.Millisecond)
	if w := send(one, "s", "3", 429); w.Header().Get("Retry-After") != "20" {
		t.Errorf("Retry-After: %s", w.Header().Get("Retry-After"))
	}
	send(one, "forged", "3", 401)
	send("/webhooks/direct/hub/two", "s", "4", 200)
	for i := range 20 { // everybody's come here
		send("/webhooks/direct/hub", hubSecret, fmt.Sprint(i), 200)
	}
	send("/webhooks/direct/hub", hubSecret, "20", 429)
	h.wantReceipts(23)
	h.advance(20 * time.Second)
	send(one, "s", "3", 200)
	h.wantReceipts(24)
}

// Who sends again what he captured uses up nothing that new deliveries need.
func TestRepeatsHaveOwnBudget(t *testing.T) {
	h := newFixture(t, func(c *webhook.Config) { c.PerMinute = 3 })
	h.trigger("one", "hub", `{}`, "s")
	send := func(body, id string, status int) {
		h.Helper()
		h.post("/webhooks/direct/hub/one", body, signed("s", body, headers{"X-Hub-Delivery": id}), status)
	}
	send("1", "1", 200)
	h.advance(time.Minute - h.now().Sub(h.now().Truncate(time.Minute)))
	for i := range 3 { // in a minute of their own, the last under other ids
		send("1", fmt.Sprint(max(1, i)), 200)
	}
	send("1", "3", 429)
	send("2", "2", 200)
	if h.counts.of("repeated hub") != 2 || h.counts.of("received hub") != 3 {
		t.Errorf("counted %v", h.counts.all)
	}
	// What is remembered nowhere but in the rows is no new one either.
	h.advance(11 * time.Minute)
	send("1", "1", 200)
	send("2", "2", 200)
	for i := range 3 {
		send(fmt.Sprint("new", i), "9", 200)
	}
	send("new", "9", 429)
}

func TestRepeats(t *testing.T) {
	h := newFixture(t)
	post := func(body string, set headers) {
		h.Helper()
		h.post("/webhooks/direct/hub", body, signed(hubSecret, body, set), 200)
	}
	id := headers{"X-Hub-Delivery": "d1"}
	post("{}", id)
	post("{}", id)
	h.advance(time.Hour)
	post("{}", id)
	h.wantReceipts(1)
	post("{ }", id) // whoever changes the body cannot hide the other
	post("{}", headers{"X-Hub-Delivery": "d2"})
	h.wantReceipts(3)
	post("{}", nil)
	post("{}", nil)
	h.wantReceipts(4)
	h.advance(5 * time.Minute)
	post("{}", nil)
	h.wantReceipts(5)
}

func TestDisabledTriggerStoresNothing(t *testing.T) {
	h := newFixture(t)
	h.trigger("one", "hub", `{}`, "s")
	h.change("one", func(l *event.TriggerSecrets) { l.Trigger.Enabled = false })
	h.post("/webhooks/direct/hub/one", "{}", signed("s", "{}", nil), 200)
	h.post("/webhooks/direct/hub/one", "{}", signed("other", "{}", nil), 401)
	h.wantReceipts(0)
}

func TestChallenge(t *testing.T) {
	h := newFixture(t)
	w := h.post("/webhooks/direct/hub", "challenge=<b>", signed(hubSecret, "challenge=<b>", nil), 200)
	if w.Body.String() != "<b>" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("answered %s, %v", w.Body, w.Header())
	}
	h.post("/webhooks/direct/hub", "challenge=x", signed("forged", "challenge=x", nil), 401)
	h.post("/webhooks/direct/hub", "{}", signed(hubSecret, "{}", headers{"X-Do": "challenge"}), 401)
	h.wantReceipts(0)
}

// The sender is asked to try again, and then is heard.
func TestStorageUnavailable(t *testing.T) {
	h := newFixture(t)
	h.trigger("one", "hub", `{}`, "s")
	set := signed(hubSecret, "{}", headers{"X-Hub-Delivery": "d1"})
	h.receiptRows.fail = errors.New("no route to host")
	if w := h.post("/webhooks/direct/hub", "{}", set, 503); w.Header().Get("Retry-After") != "5" || strings.Contains(w.Body.String(), "route") {
		t.Errorf("answered %s, %v", w.Body, w.Header())
	}
	if h.woken.Load() != 0 {
		t.Error("the worker was woken")
	}
	h.receiptRows.fail = nil
	h.post("/webhooks/direct/hub", "{}", set, 200)
	h.wantReceipts(1)

	h.triggerRows.fail = errors.New("no route to host")
	h.post("/webhooks/direct/hub/one", "{}", signed("s", "{}", nil), 503)
	h.triggerRows.fail = nil
	h.post("/webhooks/direct/hub/one", "{}", signed("s", "{}", nil), 200)
}

// Workers slow down when deliveries take longer to store than before.
func TestServerRecordsLatency(t *testing.T) {
	var pace loop.Pace
	h := newFixture(t, func(c *webhook.Config) { c.Pace = &pace })
	h.trigger("t", "hub", `{}`, hubSecret)
	h.post("/webhooks/direct/hub/t", hubBody, signed(hubSecret, hubBody, nil), 200)
	if got := pace.BatchSize(25, 0, time.Now()); got != 25 {
		t.Errorf("%d of a batch of 25 after a fast delivery", got)
	}
	h.receiptRows.before = func(context.Context) error { time.Sleep(200 * time.Millisecond); return nil }
	h.post("/webhooks/direct/hub/t", "slow", signed(hubSecret, "slow", nil), 200)
	if got := pace.BatchSize(25, 0, time.Now()); got >= 25 {
		t.Errorf("%d of a batch of 25 after a slow delivery", got)
	}
}

// Where nothing else tells them apart the same body means something new, five
// minutes later.
func TestCustomIDs(t *testing.T) {
	h := newFixture(t)
	h.trigger("one", "custom", `{"verification":{"scheme":"header","header":"X-Token"},"id_header":"Delivery-No"}`, "secret")
	post := func(id string) {
		h.Helper()
		set := headers{"X-Token": "secret", "X-Other": "1"}
		if id != "" {
			set["Delivery-No"] = id
		}
		h.post("/webhooks/custom/one", "{}", set, 200)
	}
	post("1")
	post("1")
	post("2")
	h.wantReceipts(2)
	d, err := delivery.Open(h.vault, h.stored()[1])
	if err != nil || d.Header.Get("Delivery-No") != "2" || d.Header.Get("X-Other") != "1" {
		t.Errorf("it keeps %v, %v", d, err)
	}
	if len(d.Header["X-Token"]) != 0 {
		t.Error("the credential is kept")
	}
	post("")
	post("")
	h.wantReceipts(3)
	h.advance(5 * time.Minute)
	post("")
	h.wantReceipts(4)
	post("1")
	h.wantReceipts(4)
}

func hexMAC(secret string, parts ...string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(strings.Join(parts, "")))
	return hex.EncodeToString(mac.Sum(nil))
}
