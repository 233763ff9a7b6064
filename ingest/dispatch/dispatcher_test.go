package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/dispatch"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/internal/vault"
)

// deliveryRows is an outbox in memory.
type deliveryRows struct {
	ingest.Rows
	t          *testing.T
	mu         sync.Mutex
	deliveries map[string]*storedDelivery
	sent       []event.DispatchResult
	away       bool                  // no attempt can be settled
	change     func(*event.Dispatch) // of what is laid; nil: nothing is
}

type storedDelivery struct {
	event.Dispatch
	lease time.Time
}

const (
	oldKey  = "whsec_b2xkIGtleSBvZiB0aGUgZW5kcG9pbnQ="
	newKey  = "whsec_bmV3IGtleSBvZiB0aGUgZW5kcG9pbnQ="
	bearer  = "session canary 4711"
	content = `{"issue":{"id":12345678901234567890,"title":"<b>"}}`
)

// add puts a delivery of an organization into the rows.
func (o *deliveryRows) add(id, organization string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := testVault(o.t)
	seal := func(table, row, plain string) []byte {
		sealed, err := v.Seal(action.Ref{Organization: organization, Table: table, Row: row, Column: "sealed"}, []byte(plain))
		if err != nil {
			o.t.Fatal(err)
		}
		return sealed
	}
	now, over := time.Now(), time.Now().Add(-time.Second)
	o.deliveries[id] = &storedDelivery{Dispatch: event.Dispatch{
		Delivery: event.RunDelivery{ID: id, Organization: organization, Run: "run " + id, Status: event.DeliveryPending, NextAt: now},
		Work: event.Work{
			Run:        event.Run{ID: "run " + id, Organization: organization, Status: event.RunClaimed, Claim: "claim " + id, Session: "session " + id, CreatedAt: now},
			Automation: event.Automation{ID: "auto", Name: "Triage", Instructions: "Sort it."},
			Record:     event.Record{ID: "event " + id, Organization: organization, Title: "Something happened"},
			Sealed:     seal("events", "event "+id, content), ExpiresAt: now.Add(48 * time.Hour),
		},
		Endpoint: event.Endpoint{Organization: organization, URL: "https://" + organization + ".example/runs?key=canary-in-the-url", Enabled: true, Secrets: []event.Secret{
			{ID: "new", Sealed: seal("signing_secrets", "new", newKey)},
			{ID: "old", Sealed: seal("signing_secrets", "old", oldKey)},
			{ID: "over", Sealed: seal("signing_secrets", "over", oldKey), ExpiresAt: &over},
		}},
	}}
	if o.change != nil {
		o.change(&o.deliveries[id].Dispatch)
	}
}

func (o *deliveryRows) ClaimRunDeliveries(_ context.Context, _ string, limit int, lease, _ time.Duration) (list []event.Dispatch, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	var due []*storedDelivery
	for _, p := range o.deliveries {
		if p.Delivery.Status == event.DeliveryPending && !p.Delivery.NextAt.After(now) || p.Delivery.Status == event.DeliverySending && !p.lease.After(now) {
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b *storedDelivery) int {
		return 2*a.Delivery.NextAt.Compare(b.Delivery.NextAt) + strings.Compare(a.Delivery.ID, b.Delivery.ID)
	})
	for _, p := range due[:min(limit, len(due))] {
		p.Delivery.Status, p.lease = event.DeliverySending, now.Add(lease)
		p.Delivery.Attempt++
		list = append(list, p.Dispatch)
	}
	return list, nil
}

func (o *deliveryRows) SettleRunDelivery(_ context.Context, _ string, s event.DispatchResult) (event.Run, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		return event.Run{}, false, &action.Error{Kind: action.ErrNotReady, Code: "database_unavailable", Message: "away"}
	}
	p := o.deliveries[s.Delivery.ID]
	if p.Delivery.Attempt != s.Delivery.Attempt || p.Delivery.Status != event.DeliverySending {
		return event.Run{}, false, nil
	}
	p.Delivery.Status, p.Delivery.FirstAt, p.Delivery.NextAt, p.Delivery.LastError = s.Status, s.Delivery.FirstAt, s.NextAt, s.Error
	o.sent = append(o.sent, s)
	run := p.Work.Run
	if s.Status == event.DeliveryDead {
		run.Status = event.RunFailed
	}
	return run, true, nil
}

func (o *deliveryRows) status(id string) event.RunDelivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.deliveries[id].Delivery
}

// endpoint answers requests.
type endpoint func(r *http.Request, body []byte) (*http.Response, error)

func (e endpoint) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	resp, err := e(r, body)
	if err != nil {
		return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: err}
	}
	return resp, nil
}

func answer(status int, body string, h ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(h); i += 2 {
		resp.Header.Set(h[i], h[i+1])
	}
	return resp
}

// noResponse is an endpoint that takes the connection and never answers.
func noResponse(r *http.Request, _ []byte) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// startDispatcher runs a dispatcher on rows with the deliveries until the returned
// function is called, which says what was logged and whose runs changed.
func startDispatcher(t *testing.T, o *deliveryRows, e endpoint, deliveries ...string) (stop func() (logged string, changed []event.Run)) {
	t.Helper()
	o.t, o.deliveries = t, map[string]*storedDelivery{}
	for _, id := range deliveries {
		o.add(id, strings.TrimRight(id, "0123456789"))
	}
	var log bytes.Buffer
	var mu sync.Mutex
	var changed []event.Run
	d, err := dispatch.NewDispatcher(dispatch.DispatcherConfig{
		Rows: o, Vault: testVault(t), JSON: &redact.JSON{}, Do: e.Do, Worker: "worker", MCPURL: "https://gate.example/mcp", APIURL: "https://gate.example/api/v1",
		Token:   func(string) string { return bearer },
		Changed: func(runs []event.Run) { mu.Lock(); defer mu.Unlock(); changed = append(changed, runs...) },
		Log:     slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := d.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	return func() (string, []event.Run) {
		cancel()
		all.Wait()
		return log.String(), changed
	}
}

func TestRunIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o deliveryRows
		var got map[string]any
		stop := startDispatcher(t, &o, func(r *http.Request, body []byte) (*http.Response, error) {
			for _, key := range []string{newKey, oldKey} {
				if err := event.VerifyStandard(r.Header, body, [][]byte{[]byte(key)}, time.Now(), time.Minute); err != nil {
					t.Errorf("under %s: %v", key, err)
				}
			}
			if n := len(strings.Fields(r.Header.Get("Webhook-Signature"))); n != 2 || r.Header.Get("Webhook-Id") != "a1" || r.Header.Get("User-Agent") != "sallyport" || r.Method != http.MethodPost {
				t.Errorf("%s with %v", r.Method, r.Header)
			}
			if !bytes.Contains(body, []byte("12345678901234567890")) {
				t.Error("a number of the context was altered")
			}
			if err := json.Unmarshal(body, &got); err != nil {
				t.Error(err)
			}
			return answer(204, ""), nil
		}, "a1")
		time.Sleep(time.Second)
		synctest.Wait()
		_, changed := stop()
		if p := o.status("a1"); p.Status != event.DeliveryDelivered || p.Attempt != 1 || len(changed) != 1 || changed[0].ID != "run a1" {
			t.Errorf("it is %+v; changed %v", p, changed)
		}
		data, _ := got["data"].(map[string]any)
		happened, _ := data["event"].(map[string]any)
		want := map[string]any{
			"type": "run.created", "timestamp": "2000-01-01T00:00:00Z", "claim": "claim a1", "api": "https://gate.example/api/v1",
			"automation": map[string]any{"id": "auto", "name": "Triage", "instructions": "Sort it."},
			"session":    map[string]any{"id": "session a1", "token": bearer, "mcp_url": "https://gate.example/mcp", "expires_at": "2000-01-03T00:00:00Z"},
			"title":      "Something happened", "context": map[string]any{"issue": map[string]any{"id": 12345678901234567890.0, "title": "<b>"}},
			"run": "run a1",
		}
		run, _ := data["run"].(map[string]any)
		have := map[string]any{
			"type": got["type"], "timestamp": got["timestamp"], "claim": data["claim_id"], "api": data["api_url"], "automation": data["automation"],
			"session": data["session"], "title": happened["title"], "context": happened["context"], "run": run["id"],
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Error(diff)
		}
	})
}

// One attempt, and what comes of it.
func TestAnswersOfAnEndpoint(t *testing.T) {
	for _, test := range []struct {
		name            string
		answer          endpoint
		status          event.RunDeliveryStatus
		http            int
		atLeast, atMost time.Duration
		says            string
	}{
		{"taken", ok(200, "thanks"), event.DeliveryDelivered, 200, 0, 0, ""},
		{"taken, and more to come", ok(202, ""), event.DeliveryDelivered, 202, 0, 0, ""},
		{"a fault", ok(500, " <h1>Oh\nno</h1> "), event.DeliveryPending, 500, 5 * time.Second, 7 * time.Second, "The endpoint answered 500 and said: <h1>Oh no</h1>"},
		{"not found", ok(404, ""), event.DeliveryPending, 404, 5 * time.Second, 7 * time.Second, "The endpoint answered 404"},
		{"a long answer", ok(500, strings.Repeat("x", 100_000)), event.DeliveryPending, 500, 5 * time.Second, 7 * time.Second, "The endpoint answered 500 and said: " + strings.Repeat("x", 297) + "…"},
		{"moved", ok(301, "", "Location", "https://else.example"), event.DeliveryPending, 301, 5 * time.Second, 7 * time.Second, "The endpoint answered 301, and redirects are not followed: set the URL that it leads to."},
		{"gone", ok(410, ""), event.DeliveryDead, 410, 0, 0, "The endpoint answered 410: it is gone."},
		{"told to wait", ok(503, "", "Retry-After", "600"), event.DeliveryPending, 503, 10 * time.Minute, 10 * time.Minute, "The endpoint answered 503"},
		{"told a date", ok(429, "", "Retry-After", "Sat, 01 Jan 2000 01:00:00 GMT"), event.DeliveryPending, 429, time.Hour, time.Hour, "The endpoint answered 429"},
		{"told to wait too long", ok(503, "", "Retry-After", "99999999"), event.DeliveryPending, 503, 4 * time.Hour, 4 * time.Hour, "The endpoint answered 503"},
		{"told to come at once", ok(503, "", "Retry-After", "0"), event.DeliveryPending, 503, 5 * time.Second, 7 * time.Second, "The endpoint answered 503"},
		{"told nonsense", ok(503, "", "Retry-After", "-5"), event.DeliveryPending, 503, 5 * time.Second, 7 * time.Second, "The endpoint answered 503"},
		{"no connection", func(*http.Request, []byte) (*http.Response, error) { return nil, errors.New("no such host") }, event.DeliveryPending, 0, 5 * time.Second, 7 * time.Second, "The endpoint could not be reached: no such host"},
		{"a private address", func(*http.Request, []byte) (*http.Response, error) {
			return nil, action.Errorf(action.ErrUnavailable, "upstream_blocked", "The address is private.")
		}, event.DeliveryPending, 0, 5 * time.Second, 7 * time.Second, "The address is private."},
		{"no answer", noResponse, event.DeliveryPending, 0, 20 * time.Second, 53 * time.Second, "The endpoint did not answer within 15s."},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o deliveryRows
				began := time.Now()
				stop := startDispatcher(t, &o, test.answer, "a1")
				time.Sleep(4 * time.Second)
				if test.name == "no answer" {
					time.Sleep(15 * time.Second)
				}
				synctest.Wait()
				stop()
				s := o.sent[0]
				if s.Status != test.status || s.HTTP != test.http || s.Error != test.says {
					t.Errorf("came of it: %s, %d, %q", s.Status, s.HTTP, s.Error)
				}
				if wait := s.NextAt.Sub(began); s.Status == event.DeliveryPending && (wait < test.atLeast || wait > test.atMost) {
					t.Errorf("again after %s", wait)
				}
			})
		})
	}
}

func ok(status int, body string, h ...string) endpoint {
	return func(*http.Request, []byte) (*http.Response, error) { return answer(status, body, h...), nil }
}

func TestDeliveryIsRetriedForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o deliveryRows
		began, at := time.Now(), []time.Duration{}
		claims := map[string]bool{}
		stop := startDispatcher(t, &o, func(r *http.Request, body []byte) (*http.Response, error) {
			at = append(at, time.Since(began))
			var n struct {
				Data struct {
					ClaimID string `json:"claim_id"`
					Session struct{ ID string }
				}
			}
			if err := json.Unmarshal(body, &n); err != nil {
				t.Error(err)
			}
			claims[r.Header.Get("Webhook-Id")+n.Data.ClaimID+n.Data.Session.ID] = true
			return answer(500, ""), nil
		}, "a1")
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		_, changed := stop()
		p := o.status("a1")
		if p.Status != event.DeliveryDead || len(at) < 10 || len(at) > 12 {
			t.Errorf("%s after %d attempts: %v", p.Status, len(at), at)
		}
		if last := at[len(at)-1]; last < 24*time.Hour || last > 24*time.Hour+2*time.Second {
			t.Errorf("the last attempt was after %s", last)
		}
		if len(claims) != 1 {
			t.Errorf("the attempts were not one delivery: %v", claims)
		}
		if len(changed) != 2 || changed[1].Status != event.RunFailed {
			t.Errorf("told of %v", changed)
		}
	})
}

// What waits behind others for an endpoint that is away is dead as they are.
func TestManyDeliveriesAreRetriedForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o deliveryRows
		var ids []string
		for i := range 300 {
			ids = append(ids, "a"+strconv.Itoa(i))
		}
		stop := startDispatcher(t, &o, func(*http.Request, []byte) (*http.Response, error) { return nil, errors.New("connection refused") }, ids...)
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		stop()
		for _, id := range ids {
			if p := o.status(id); p.Status != event.DeliveryDead {
				t.Fatalf("%s is %s", id, p.Status)
			}
		}
	})
}

// An endpoint that never answers keeps only its own runs waiting, of which it is
// asked for few at a time.
func TestUnreachableEndpointDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o deliveryRows
		var mu sync.Mutex
		open, most := 0, 0
		arrived := map[string]time.Time{}
		deliveries := []string{}
		for i := range 200 {
			deliveries = append(deliveries, fmt.Sprintf("dead%03d", i))
		}
		for i := range 40 {
			deliveries = append(deliveries, fmt.Sprintf("well%03d", i))
		}
		stop := startDispatcher(t, &o, func(r *http.Request, _ []byte) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Host, "well") {
				mu.Lock()
				defer mu.Unlock()
				arrived[r.Header.Get("Webhook-Id")] = time.Now()
				return answer(200, ""), nil
			}
			mu.Lock()
			open++
			most = max(most, open)
			mu.Unlock()
			defer func() { mu.Lock(); defer mu.Unlock(); open-- }()
			return noResponse(r, nil)
		}, deliveries...)
		began := time.Now()
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		for id, at := range arrived {
			if at.Sub(began) > 12*time.Second {
				t.Errorf("%s arrived after %s", id, at.Sub(began))
			}
		}
		if !slices.ContainsFunc(o.sent, func(s event.DispatchResult) bool { return strings.Contains(s.Error, "another delivery") }) {
			t.Error("what waited for the dead endpoint was not put off when it did not answer")
		}
		if len(arrived) != 40 || most > 4 {
			t.Errorf("%d arrived; %d requests at once at the dead endpoint", len(arrived), most)
		}
	})
}

// All of a burst arrives, each once.
func TestABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o deliveryRows
		var mu sync.Mutex
		arrived := map[string]int{}
		deliveries := []string{}
		for i := range 300 {
			deliveries = append(deliveries, "a"+strconv.Itoa(i))
		}
		stop := startDispatcher(t, &o, func(r *http.Request, _ []byte) (*http.Response, error) {
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			arrived[r.Header.Get("Webhook-Id")]++
			return answer(200, ""), nil
		}, deliveries...)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		stop()
		for id, n := range arrived {
			if n != 1 {
				t.Errorf("%s arrived %d times", id, n)
			}
		}
		if len(arrived) != 300 {
			t.Errorf("%d arrived", len(arrived))
		}
	})
}

func TestNoDeliveryWithoutSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := deliveryRows{change: func(d *event.Dispatch) {
			secrets := d.Endpoint.Secrets
			if d.Endpoint.Secrets = secrets[2:]; d.Delivery.ID == "b1" { // in a1 it expired
				d.Endpoint.Secrets = []event.Secret{{ID: "elsewhere", Sealed: secrets[0].Sealed}}
			}
		}}
		stop := startDispatcher(t, &o, func(*http.Request, []byte) (*http.Response, error) {
			t.Error("it was sent")
			return answer(200, ""), nil
		}, "a1", "b1")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		stop()
		for _, id := range []string{"a1", "b1"} {
			if p := o.status(id); p.Status != event.DeliveryPending || !strings.Contains(p.LastError, "Rotate its secret") {
				t.Errorf("%s: %s %q", id, p.Status, p.LastError)
			}
		}
	})
}

// Whatever an endpoint says, its people and the log see no secret.
func TestDeliveryHidesSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o deliveryRows
		stop := startDispatcher(t, &o, func(r *http.Request, body []byte) (*http.Response, error) {
			switch r.URL.Host {
			case "echo.example":
				return answer(400, bearer+" "+newKey+" "+oldKey), nil
			case "broken.example":
				return nil, errors.New("cannot write " + bearer)
			}
			return answer(410, bearer), nil
		}, "echo1", "broken1", "gone1")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		logged, _ := stop()
		if len(o.sent) < 3 {
			t.Fatalf("only %d attempts", len(o.sent))
		}
		for _, s := range o.sent {
			logged += s.Error
		}
		for _, canary := range []string{bearer, newKey, oldKey, "canary"} {
			if strings.Contains(logged, canary) {
				t.Errorf("%s is told in %s", canary, logged)
			}
		}
	})
}

// While rows are away nothing is sent twice that was settled late.
func TestLateSettlementIsNotResent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o deliveryRows
		o.away = true
		arrived := 0
		stop := startDispatcher(t, &o, func(*http.Request, []byte) (*http.Response, error) {
			arrived++
			return answer(200, ""), nil
		}, "a1")
		time.Sleep(30 * time.Second)
		o.mu.Lock()
		o.away = false
		o.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		if p := o.status("a1"); p.Status != event.DeliveryDelivered || arrived != 1 {
			t.Errorf("%s, arrived %d times", p.Status, arrived)
		}
	})
}

// A dispatcher that is to stop lets a request end, gives back what waits, and
// does not wait for an endpoint for long.
func TestDispatcherStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o deliveryRows
		deliveries := []string{}
		for i := range 10 {
			deliveries = append(deliveries, "slow"+strconv.Itoa(i))
		}
		stop := startDispatcher(t, &o, func(r *http.Request, _ []byte) (*http.Response, error) {
			if r.Header.Get("Webhook-Id") != "slow0" {
				return noResponse(r, nil)
			}
			time.Sleep(3 * time.Second)
			return answer(200, ""), nil
		}, deliveries...)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("stopped after %s", took)
		}
		for _, id := range deliveries {
			want := event.DeliveryPending
			if id == "slow0" {
				want = event.DeliveryDelivered
			}
			if p := o.status(id); p.Status != want {
				t.Errorf("%s is %s", id, p.Status)
			}
		}
	})
}

func testVault(t testing.TB) *vault.Vault {
	t.Helper()
	v, err := vault.New(make([]byte, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
