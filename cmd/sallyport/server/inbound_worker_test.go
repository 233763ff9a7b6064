package server

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/ingest/inbox"
	"sallyport/ingest/webhook"
	"sallyport/internal/redact"
	"sallyport/internal/vault"
	"sallyport/sources/github"
	"sallyport/store"
)

// intake is the inbound side on real rows: a server, and workers beside it.
type intake struct {
	t       *testing.T
	db      *store.DB
	vault   *vault.Vault
	log     *slog.Logger
	handler http.Handler
	url     string // of the trigger
}

const intakeSecret = "of the trigger"

func newIntake(t *testing.T, db *store.DB, log *slog.Logger) *intake {
	in := &intake{t: t, db: db, log: log}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	in.vault, err = vault.New(bytes.Repeat([]byte{7}, vault.KeySize))
	ok(err)
	_, err = db.EnsureOrganization(t.Context(), "org", "Acme")
	ok(err)
	a, err := db.CreateAutomation(t.Context(), event.Automation{Organization: "org", Name: "triage", Enabled: true, CreatedBy: "ada"})
	ok(err)
	secret := event.Secret{ID: newIntakeID()}
	secret.Sealed, err = in.vault.Seal(action.Ref{Organization: "org", Table: "signing_secrets", Row: secret.ID, Column: "sealed"}, []byte(intakeSecret))
	ok(err)
	tr, err := db.CreateTrigger(t.Context(), event.Trigger{
		Organization: "org", Automation: a.ID, Name: "issues", Kind: event.Webhooks, Provider: "github", Type: "issue", Enabled: true,
		Config: []byte(`{"actions":["opened"]}`), CreatedBy: "ada",
	}, &secret)
	ok(err)
	in.url = "/webhooks/direct/github/" + tr.ID
	s, err := webhook.NewServer(webhook.Config{
		Providers: []event.Provider{github.Triggers()}, Rows: db, Vault: in.vault, Log: log, PerMinute: -1,
		NewID: newIntakeID,
	})
	ok(err)
	in.handler = s.Handler()
	return in
}

func newIntakeID() string { return uuid.Must(uuid.NewV7()).String() }

// work has a worker run on rows until the test ends.
func (in *intake) work(name string, db *store.DB) (stop func()) {
	w, err := inbox.NewWorker(inbox.Config{
		Providers: []event.Provider{github.Triggers()}, Rows: db, Integrations: noServices{db}, Vault: in.vault, JSON: &redact.JSON{},
		Worker: name, NewID: newIntakeID, Hydrates: func(string) bool { return false }, Timing: inbox.Timing{PollEvery: 20 * time.Millisecond}, MaxAttempts: 2,
		Backoff: func(int) time.Duration { return time.Millisecond }, Log: in.log,
	})
	if err != nil {
		in.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(in.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			in.t.Error(err)
		}
	}
}

// noServices has nobody connected with anything.
type noServices struct{ *store.DB }

func (noServices) IntegrationsByBroker(context.Context, string, string) ([]action.Integration, error) {
	return nil, nil
}

func (noServices) IntegrationStatus(context.Context, action.Integration, action.IntegrationStatus, string) error {
	return errors.New("not here")
}

func (noServices) Poll(context.Context, string, string, json.RawMessage) (event.PollResult, error) {
	return event.PollResult{}, errors.New("not here")
}

func (noServices) Recheck(context.Context, action.Integration) error { return errors.New("not here") }

func (noServices) Hydrate(context.Context, string, string, *event.Event) (bool, error) {
	return false, errors.New("not here")
}

// post has GitHub deliver a body under an id.
func (in *intake) post(id, body string) {
	mac := hmac.New(sha256.New, []byte(intakeSecret))
	mac.Write([]byte(body))
	r := httptest.NewRequest(http.MethodPost, in.url, strings.NewReader(body))
	r.Header.Set("X-GitHub-Event", "issues")
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	w := httptest.NewRecorder()
	in.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		in.t.Errorf("delivery %s was answered %d: %s", id, w.Code, w.Body)
	}
}

func anIssue(n int) string {
	return fmt.Sprintf(`{"action":"opened","issue":{"number":%d,"title":"It fails, %d","html_url":"https://github.com/acme/site/issues/%[1]d","updated_at":"2026-01-01T00:00:00Z","user":{"login":"ada"}},"repository":{"full_name":"acme/site","html_url":"https://github.com/acme/site"},"sender":{"login":"ada","type":"User"}}`, n, n)
}

// Whatever is delivered several times at once, by workers on several
// connections, is one run; what cannot be read is told, and keeps nobody back.
func TestDeliveriesAreWorkedOffOnceOnRows(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) []*store.DB{
		"SQLite": func(t *testing.T) []*store.DB {
			db := openIntake(t, store.Config{Path: withTables(t, filepath.Join(t.TempDir(), "sallyport.db"))})
			return []*store.DB{db, db}
		},
		"PostgreSQL": func(t *testing.T) []*store.DB {
			url := postgresTables(t)
			return []*store.DB{openIntake(t, store.Config{URL: url}), openIntake(t, store.Config{URL: url})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			dbs := open(t)
			in := newIntake(t, dbs[0], slog.New(slog.NewTextHandler(&log, nil)))
			stops := []func(){in.work("one", dbs[0]), in.work("two", dbs[1])}
			const issues = 15
			var senders sync.WaitGroup
			for n := range issues {
				for range 2 { // the sender tries again
					senders.Go(func() { in.post(fmt.Sprint("id-", n), anIssue(n)) })
				}
				senders.Go(func() { in.post(fmt.Sprint("replayed-", n), anIssue(n)) }) // somebody captured it
			}
			senders.Go(func() { in.post("bad", `{"action":`) })
			senders.Wait()
			settled := func() bool {
				for _, status := range []event.ReceiptStatus{event.ReceiptQueued, event.ReceiptProcessing} {
					if page, err := in.db.ListReceipts(t.Context(), event.ReceiptFilter{Organization: "org", Status: status}); err != nil || page.Total > 0 {
						return false
					}
				}
				return true
			}
			comes(settled) // what did not is told below
			for _, stop := range stops {
				stop()
			}
			runs, err := in.db.ListRuns(t.Context(), event.RunFilter{Organization: "org", Status: event.RunQueued})
			if err != nil || runs.Total != issues {
				t.Errorf("%d runs of %d, %v\n%s", runs.Total, issues, err, log.String())
			}
			failed, err := in.db.ListReceipts(t.Context(), event.ReceiptFilter{Organization: "org", Status: event.ReceiptFailed})
			waiting, err1 := in.db.DeliveriesWaiting(t.Context())
			undelivered, err2 := in.db.RunsUndelivered(t.Context())
			if err1 != nil || err2 != nil || waiting != 0 || undelivered != issues {
				t.Errorf("%d deliveries wait and %d runs, %v, %v", waiting, undelivered, err1, err2)
			}
			inbox, err1 := in.db.InboxLag(t.Context())
			outbox, err2 := in.db.OutboxLag(t.Context())
			if err1 != nil || err2 != nil || inbox != 0 || outbox <= 0 {
				t.Errorf("deliveries lag %s and runs %s, %v, %v", inbox, outbox, err1, err2)
			}
			if err != nil || failed.Total != 1 || failed.Items[0].Attempt != 1 || !strings.Contains(failed.Items[0].LastError, "not valid JSON") {
				t.Errorf("failed are %+v, %v", failed.Items, err)
			}
		})
	}
}

func openIntake(t *testing.T, c store.Config) *store.DB {
	db, err := store.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
