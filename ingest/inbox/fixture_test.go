package inbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/internal/vault"
)

// fixture is all that a worker works with, in memory: rows that are fenced as
// those of a store, and a service.
type fixture struct {
	ingest.Rows // of the others nothing is asked
	t           testing.TB
	vault       *vault.Vault
	log         bytes.Buffer

	mu       sync.Mutex
	last     int // of ids
	down     bool
	receipts map[string]*storedReceipt
	bodies   map[string]time.Time
	events   map[string]event.Match // by trigger and key
	runs     []string
	settled  [][]event.Settlement // as they were written
	refuse   func(list []event.Settlement) error
	triggers map[string]event.Trigger
	accounts []action.Integration
	trusting map[string]bool
	statuses []string
	renewals int
	counted  map[string]int
	asked    []string // for events, by integration and key
	hydrate  func(ctx context.Context, integration string, e *event.Event) error
	lookups  int
	awry     error // of the first recheck
}

// storedReceipt is a row of the inbox.
type storedReceipt struct {
	event.Receipt
	holder string
	lease  time.Time
	error  string
}

func newFixture(t testing.TB) *fixture {
	v, err := vault.New(bytes.Repeat([]byte{7}, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{
		t: t, vault: v, receipts: map[string]*storedReceipt{}, bodies: map[string]time.Time{}, events: map[string]event.Match{},
		triggers: map[string]event.Trigger{}, trusting: map[string]bool{}, counted: map[string]int{},
	}
}

func (s *fixture) id() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return fmt.Sprintf("id%04d", s.last)
}

func (s *fixture) config() Config {
	return Config{
		Providers: []event.Provider{shopProvider("shop"), shopProvider("linear"), shopProvider("slow")}, Rows: s, Integrations: s, Vault: s.vault, JSON: &redact.JSON{},
		Operator: "operator", Worker: "w1", NewID: s.id, Hydrates: func(p string) bool { return p == "slow" },
		Count: func(what, provider string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.counted[what]++
		},
		Log: slog.New(slog.NewTextHandler(&lockedWriter{s: s}, nil)),
	}
}

// lockedWriter lets several write.
type lockedWriter struct{ s *fixture }

func (g *lockedWriter) Write(p []byte) (int, error) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.s.log.Write(p)
}

// start has a worker run until the returned function is called, which waits for
// its end.
func (s *fixture) start(c Config) (stop func()) {
	w, err := NewWorker(c)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			s.t.Errorf("the worker returned %v", err)
		}
	}
}

// post keeps a delivery as the server does.
func (s *fixture) post(r event.Receipt, body string, headers ...string) event.Receipt {
	s.t.Helper()
	d := &event.Delivery{Header: http.Header{}, Body: []byte(body)}
	for i := 0; i < len(headers); i += 2 {
		d.Header.Set(headers[i], headers[i+1])
	}
	r.ID, r.Status, r.Size, r.ReceivedAt, r.NextAt = s.id(), event.ReceiptQueued, len(body), time.Now(), time.Now()
	r.Organization, r.Provider = cmp.Or(r.Organization, "operator"), cmp.Or(r.Provider, "shop")
	r.Endpoint = cmp.Or(r.Endpoint, "direct/"+r.Provider+"/"+r.Trigger)
	if err := delivery.Seal(s.vault, &r, d); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receipts[r.ID] = &storedReceipt{Receipt: r}
	return r
}

func (s *fixture) receipt(id string) storedReceipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.receipts[id]
}

// kept returns the events that are kept, by trigger and key, in order, with why
// they were skipped.
func (s *fixture) kept() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, m := range s.events {
		all = append(all, strings.TrimSpace(key+" "+string(m.Record.Skip)))
	}
	slices.Sort(all)
	return all
}

func (s *fixture) trigger(t event.Trigger) {
	t.Organization, t.Provider, t.Type = cmp.Or(t.Organization, "org"), cmp.Or(t.Provider, "shop"), cmp.Or(t.Type, "sale")
	t.Automation, t.Enabled, t.Kind = cmp.Or(t.Automation, "auto"), true, cmp.Or(t.Kind, event.Webhooks)
	if t.Config == nil {
		t.Config = []byte(`{}`)
	}
	s.triggers[t.ID] = t
}

func (s *fixture) integration(in action.Integration) {
	in.Organization, in.Provider, in.Status = cmp.Or(in.Organization, "org"), cmp.Or(in.Provider, "shop"), cmp.Or(in.Status, action.IntegrationActive)
	in.Kind = cmp.Or(in.Kind, action.KindOAuth2)
	s.accounts = append(s.accounts, in)
}

var errDown = action.Errorf(action.ErrUnavailable, "database_unavailable", "away")

func (s *fixture) Receive(context.Context, event.Receipt) (bool, error) {
	return false, errors.New("not here")
}

func (s *fixture) ClaimReceipts(_ context.Context, worker string, limit int, lease time.Duration) (all []event.Receipt, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errDown
	}
	now := time.Now()
	for _, id := range slices.Sorted(maps.Keys(s.receipts)) {
		r := s.receipts[id]
		due := r.Status == event.ReceiptQueued && !r.NextAt.After(now) || r.Status == event.ReceiptProcessing && r.lease.Before(now)
		if due && len(all) < limit {
			if r.Attempt++; r.Status == event.ReceiptProcessing {
				r.Losses++
			}
			r.Status, r.holder, r.lease = event.ReceiptProcessing, worker, now.Add(lease)
			all = append(all, r.Receipt)
		}
	}
	return all, nil
}

func (s *fixture) RenewReceipts(_ context.Context, worker string, ids []string, lease time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewals++
	for _, id := range ids {
		if r := s.receipts[id]; r.holder == worker {
			r.lease = time.Now().Add(lease)
		}
	}
	return nil
}

func (s *fixture) Settle(_ context.Context, worker string, list []event.Settlement) (out event.SettleResult, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return out, errDown
	}
	if s.refuse != nil {
		if err := s.refuse(list); err != nil {
			return out, err
		}
	}
	s.settled = append(s.settled, list)
	for _, o := range list {
		r := s.receipts[o.Receipt.ID]
		if r.holder != worker || r.Attempt != o.Receipt.Attempt || r.Status != event.ReceiptProcessing {
			continue
		}
		r.Status, r.error, r.holder, r.Native, r.Failures, r.Losses = o.Status, o.Error, "", o.Native, o.Failures, o.Losses
		switch o.Status {
		case event.ReceiptQueued:
			r.NextAt = o.NextAt
		case event.ReceiptCompleted:
			if r.Redacted = o.Redacted; !o.KeepPayload {
				r.Sealed = nil
			}
		case event.ReceiptFailed:
			r.Redacted = o.Redacted
		default:
			s.t.Errorf("settled as %q", o.Status)
		}
		if o.BodyHash != "" && o.Status == event.ReceiptCompleted {
			key := r.Endpoint + " " + o.BodyHash
			if at, twice := s.bodies[key]; twice && r.ReceivedAt.Sub(at) < o.DedupWindow {
				r.Duplicate = true
				out.Duplicates = append(out.Duplicates, r.ID)
				continue
			}
			s.bodies[key] = r.ReceivedAt
		}
		for _, m := range o.Matches {
			key := m.Record.Trigger + " " + m.Record.Key
			if was, there := s.events[key]; there && was.Record.Skip != event.SkipRunFailed {
				continue
			}
			if (m.Run == "") != (m.Record.Skip != "") || (m.Sealed == nil) != (m.Record.Skip != "") {
				s.t.Errorf("%s: run %q, sealed %d bytes, skipped %q", key, m.Run, len(m.Sealed), m.Record.Skip)
			}
			s.events[key] = m
			if m.Run != "" {
				s.runs = append(s.runs, m.Run)
				out.Runs = append(out.Runs, event.Run{ID: m.Run, Organization: m.Record.Organization})
			}
		}
	}
	return out, nil
}

func (s *fixture) TriggerSecrets(_ context.Context, id string) (event.TriggerSecrets, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return event.TriggerSecrets{}, errDown
	}
	s.lookups++
	t, ok := s.triggers[id]
	if !ok {
		return event.TriggerSecrets{}, action.Errorf(action.ErrNotFound, "not_found", "no trigger")
	}
	return event.TriggerSecrets{Trigger: t}, nil
}

func (s *fixture) WebhookTriggerSecrets(context.Context, string, string) (event.TriggerSecrets, error) {
	return event.TriggerSecrets{}, errors.New("not here")
}

func (s *fixture) ActiveTriggers(_ context.Context, organization, provider string) (all []event.Trigger, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookups++
	for _, id := range slices.Sorted(maps.Keys(s.triggers)) {
		if t := s.triggers[id]; t.Organization == organization && t.Provider == provider && t.Enabled {
			all = append(all, t)
		}
	}
	return all, nil
}

func (s *fixture) UnverifiedEvents(_ context.Context, organization string) (bool, error) {
	return s.trusting[organization], nil
}

func (s *fixture) IntegrationsByAccount(_ context.Context, provider, account string) ([]action.Integration, error) {
	return s.integrations(func(in action.Integration) bool { return in.Provider == provider && in.Account == account }), nil
}

// IntegrationsByBroker finds those whose name is the connection's.
func (s *fixture) IntegrationsByBroker(_ context.Context, connection, key string) ([]action.Integration, error) {
	return s.integrations(func(in action.Integration) bool { return in.Name == connection+"@"+key }), nil
}

func (s *fixture) integrations(want func(action.Integration) bool) (all []action.Integration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.accounts {
		if want(in) {
			all = append(all, in)
		}
	}
	return all
}

func (s *fixture) IntegrationStatus(_ context.Context, in action.Integration, status action.IntegrationStatus, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, in.ID+" "+string(status))
	if (reason == "") != (status == action.IntegrationActive) {
		s.t.Errorf("%s is %s because of %q", in.ID, status, reason)
	}
	for i := range s.accounts {
		if s.accounts[i].ID == in.ID {
			s.accounts[i].Status = status
		}
	}
	return nil
}

func (s *fixture) Poll(context.Context, string, string, json.RawMessage) (event.PollResult, error) {
	return event.PollResult{}, errors.New("not here")
}

func (s *fixture) Recheck(_ context.Context, in action.Integration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, in.ID+" rechecked")
	if len(s.statuses) == 1 {
		return s.awry
	}
	return nil
}

func (s *fixture) Hydrate(ctx context.Context, _, integration string, e *event.Event) (bool, error) {
	s.mu.Lock()
	s.asked = append(s.asked, integration+" "+e.Key)
	hydrate := s.hydrate
	s.mu.Unlock()
	return true, hydrate(ctx, integration, e)
}

// shopProvider is a service that posts what tests want it to.
func shopProvider(id string) event.Provider {
	return event.Provider{
		ID: id, Title: "Shop",
		Types: []event.Type{
			{ID: "sale", Matches: shopMatches},
			{ID: "refund", Matches: shopMatches},
		},
		Webhook: &event.Webhook{
			Verify: func(*event.Delivery, [][]byte, time.Time, time.Duration) error { return nil },
			Parse:  shopParse,
		},
	}
}

// sale is what a shop posts, and the context of its events.
type sale struct {
	Account   string          `json:"account,omitempty"`
	Signed    bool            `json:"signed,omitempty"`   // though it has no keys
	Unsigned  bool            `json:"unsigned,omitempty"` // though it has
	Lifecycle event.Lifecycle `json:"lifecycle,omitempty"`
	Keys      []string        `json:"keys,omitempty"` // of its events
	Type      string          `json:"type,omitempty"`
	Title     string          `json:"title,omitempty"`
	URL       string          `json:"url,omitempty"`
	Goods     string          `json:"goods,omitempty"`
	Note      string          `json:"note,omitempty"`
}

func (s sale) String() string {
	text, _ := json.Marshal(s)
	return string(text)
}

func shopParse(d *event.Delivery) (event.Parsed, error) {
	if string(d.Body) == "panic" {
		panic("canary-panic")
	}
	var s sale
	if err := json.Unmarshal(d.Body, &s); err != nil {
		return event.Parsed{}, fmt.Errorf("shop: %q: %w", d.Body, err)
	}
	p := event.Parsed{Signed: s.Signed || strings.Join(s.Keys, "") != "" && !s.Unsigned, Account: s.Account, Lifecycle: s.Lifecycle}
	for _, key := range s.Keys {
		p.Events = append(p.Events, event.Event{
			Type: cmp.Or(s.Type, "sale"), Native: "shop." + cmp.Or(s.Type, "sale"), Key: strings.TrimPrefix(key, "-"), Title: s.Title, URL: s.URL, Context: json.RawMessage(d.Body),
		})
	}
	return p, nil
}

// shopMatches lets those goods pass that the config wants.
func shopMatches(e *event.Event, config json.RawMessage) bool {
	var want, is sale
	if json.Unmarshal(config, &want) != nil || json.Unmarshal(e.Context, &is) != nil {
		return false
	}
	if want.Goods == "panic" {
		panic("canary-panic")
	}
	return want.Goods == "" || want.Goods == is.Goods
}
