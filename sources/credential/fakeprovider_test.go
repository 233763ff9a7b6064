package credential_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/internal/outbound"
	"sallyport/internal/vault"
	"sallyport/sources"
	"sallyport/sources/credential"
)

// bank is a gateway with integrations as far as it matters here: rows, locks
// and a clock that several instances share, and a service to connect to.
type bank struct {
	credential.Store // nothing is asked of the grants of connectors

	t     *testing.T
	vault *vault.Vault
	url   string // of the service
	mux   *http.ServeMux

	mu      sync.Mutex // the fields below
	now     time.Time
	rows    map[string]action.Integration
	apps    map[string]action.ProviderApp
	flows   map[string]action.IntegrationFlow
	locks   map[string]chan struct{}
	broken  int // renewals that fail from now on
	changed int
	log     bytes.Buffer
	seen    []string // requests to the service: method, path, Authorization, body
	good    func(token string) bool
	on      func(r *http.Request) // called before each request to the service
}

func newBank(t *testing.T) *bank {
	v, err := vault.New(bytes.Repeat([]byte{7}, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{
		t: t, vault: v, mux: http.NewServeMux(), now: time.Now().UTC(), rows: map[string]action.Integration{}, apps: map[string]action.ProviderApp{},
		flows: map[string]action.IntegrationFlow{}, locks: map[string]chan struct{}{}, good: func(string) bool { return true },
	}
	s := httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(s.Close)
	b.url = s.URL
	b.mux.HandleFunc("GET /me", b.me)
	t.Cleanup(b.leaks)
	return b
}

// serve records a request and has the test's service answer it.
func (b *bank) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.mu.Lock()
	b.seen = append(b.seen, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+string(body))
	on := b.on
	b.mu.Unlock()
	if on != nil {
		on(r)
	}
	b.mux.ServeHTTP(w, r)
}

// me is what the module asks to see whose a token is.
func (b *bank) me(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	b.mu.Lock()
	good := b.good(token)
	b.mu.Unlock()
	if !good {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "no such token: %s", token)
		return
	}
	fmt.Fprint(w, `{"id":"acme-1","name":"Acme"}`)
}

// requests counts those that begin so.
func (b *bank) requests(prefix string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.seen {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// leaks fails the test when a secret is in a log, or bare in a row.
func (b *bank) leaks() {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.log.String()
	for _, in := range b.rows {
		raw, _ := json.Marshal(in)
		all += string(raw) + string(in.Sealed)
	}
	for _, app := range b.apps {
		raw, _ := json.Marshal(app)
		all += string(raw) + string(app.Sealed)
	}
	for _, f := range b.flows {
		all += string(f.Sealed)
	}
	if strings.Contains(all, "canary") || strings.Contains(all, "PRIVATE KEY") {
		b.t.Errorf("a secret is in a log or a row: %q", all)
	}
}

// module is a small service: whoever has a token may ask for /me.
func (b *bank) module(change ...func(*sources.Module)) *sources.Module {
	m := &sources.Module{
		ID: "acme", Title: "Acme", BaseURL: b.url,
		Needs: []sources.Need{
			{Kind: action.KindAPIKey, Users: true},
			{Kind: action.KindOAuth2, Users: true, Preset: "linear", Scopes: []string{"read", "write"}},
		},
		Settings: json.RawMessage(`{"type":"object","properties":{"team":{"type":"string"},"org":{"type":"string"}},"required":["org"],"additionalProperties":false}`),
		Account: func(ctx context.Context, c *sources.Conn) (sources.Account, error) {
			a, err := c.HTTP.Do(ctx, &outbound.Request{Method: "GET", Path: "/me", Header: http.Header{"Authorization": {"Bearer " + c.Token}}})
			if err != nil {
				return sources.Account{}, err
			}
			if a.Status != http.StatusOK {
				return sources.Account{}, &sources.Refusal{Code: "bad_token", Status: a.Status, Message: "Make another key.", Credential: true, Detail: string(a.Body)}
			}
			var got struct{ ID, Name string }
			err = json.Unmarshal(a.Body, &got)
			return sources.Account{ID: got.ID, Name: got.Name, Settings: json.RawMessage(`{"org":"acme"}`)}, err
		},
	}
	for _, f := range change {
		f(m)
	}
	return m
}

// instance starts one, with its own memory.
func (b *bank) instance(m *sources.Module, change ...func(*credential.TokensConfig)) *credential.Tokens {
	b.t.Helper()
	pool := outbound.New(outbound.Config{Guard: guard.Config{}})
	b.t.Cleanup(pool.Close)
	c := credential.TokensConfig{
		Store: b, Vault: b.vault, Lock: b.lock, Modules: []*sources.Module{m}, HTTP: pool, RedirectURL: callback, Now: b.clock, Timeout: 5 * time.Second,
		Changed: func(string) { b.mu.Lock(); b.changed++; b.mu.Unlock() },
		Log:     slog.New(slog.NewTextHandler(ledger{b}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&c)
	}
	t, err := credential.NewTokens(c)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = t.Close() })
	return t
}

type ledger struct{ b *bank }

func (l ledger) Write(p []byte) (int, error) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.b.log.Write(p)
}

func (b *bank) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bank) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// register has the organization's gateway registered at a provider.
func (b *bank) register(t *credential.Tokens, app action.ProviderApp, secrets map[string]string) {
	b.t.Helper()
	app.Organization = cmp.Or(app.Organization, "org")
	app, err := t.SealApp(app, secrets)
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apps[app.Organization+"/"+app.Provider] = app
}

func (b *bank) row(id string) action.Integration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rows[id]
}

// IntegrationOf implements credential.Store.
func (b *bank) IntegrationOf(_ context.Context, organization, provider, holder, account string, own bool) (action.Integration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, in := range b.rows {
		if in.Organization == organization && in.Provider == provider && in.Owner() == holder && in.Account == account && (in.User != "") == own {
			return in, nil
		}
	}
	return action.Integration{}, missing()
}

// Integrations implements credential.Store.
func (b *bank) Integrations(_ context.Context, organization string) (list []action.Integration, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, in := range b.rows {
		if in.Organization == organization && in.Status != action.IntegrationDeleted {
			in.Sealed = nil
			list = append(list, in)
		}
	}
	return list, nil
}

// BrokeredIntegrations implements credential.Store.
func (b *bank) BrokeredIntegrations(_ context.Context, broker action.Broker) (list []action.Integration, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, in := range b.rows {
		if in.Broker == broker && in.Status != action.IntegrationDeleted && len(in.Sealed) > 0 {
			list = append(list, in)
		}
	}
	return list, nil
}

// IntegrationCredential implements credential.Store.
func (b *bank) IntegrationCredential(_ context.Context, organization, id string) (action.Integration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in, ok := b.rows[id]
	if !ok || in.Organization != organization || in.Status == action.IntegrationDeleted {
		return action.Integration{}, missing()
	}
	return in, nil
}

func moved() error {
	return action.Errorf(action.ErrConflict, "integration_moved", "Somebody was first.")
}

// PutIntegration implements credential.Store.
func (b *bank) PutIntegration(_ context.Context, in action.Integration, _ string) (action.Integration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rows[in.ID].Version != in.Version {
		return in, moved()
	}
	in.Version++
	in.Revision++
	b.rows[in.ID] = in
	for id, other := range b.rows { // a user has one of his own
		if in.User != "" && other.User == in.User && other.Provider == in.Provider && id != in.ID {
			other.Status, other.Sealed, other.Version = action.IntegrationDeleted, nil, other.Version+1
			b.rows[id] = other
		}
	}
	return in, nil
}

// RenewIntegration implements credential.Store.
func (b *bank) RenewIntegration(_ context.Context, in action.Integration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken > 0 {
		b.broken--
		return errors.New("the disk is full")
	}
	row := b.rows[in.ID]
	if row.Version != in.Version || row.Status == action.IntegrationDeleted {
		return moved()
	}
	row.Sealed, row.ExpiresAt, row.Scopes, row.UpdatedAt = in.Sealed, in.ExpiresAt, in.Scopes, in.UpdatedAt
	row.Version++
	b.rows[in.ID] = row
	return nil
}

// SetIntegrationStatus implements credential.Store.
func (b *bank) SetIntegrationStatus(_ context.Context, organization, id string, version int64, status action.IntegrationStatus, reason, by string) (bool, error) {
	if by == "" {
		return false, errors.New("nobody did it")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	in, ok := b.rows[id]
	if !ok || in.Organization != organization {
		return false, missing()
	}
	if version != 0 && version != in.Version {
		return false, moved()
	}
	changed := in.Status != status || in.Reason != reason
	in.Status, in.Reason = status, reason
	if status == action.IntegrationDeleted {
		in.Sealed, in.Version = nil, in.Version+1
	}
	b.rows[id] = in
	return changed, nil
}

// ProviderApp implements credential.Store.
func (b *bank) ProviderApp(_ context.Context, organization, provider string) (action.ProviderApp, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	app, ok := b.apps[organization+"/"+provider]
	if !ok {
		return app, missing()
	}
	return app, nil
}

// PutIntegrationFlow implements credential.Store.
func (b *bank) PutIntegrationFlow(_ context.Context, f action.IntegrationFlow) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flows[f.StateHash] = f
	return nil
}

// TakeIntegrationFlow implements credential.Store.
func (b *bank) TakeIntegrationFlow(_ context.Context, organization, stateHash, by, login string, _ time.Time) (action.IntegrationFlow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.flows[stateHash]
	if !ok || f.Organization != organization || f.By != by || f.Login != login {
		return f, missing()
	}
	delete(b.flows, stateHash)
	return f, nil
}

func (b *bank) lock(ctx context.Context, name string) (func(), error) {
	b.mu.Lock()
	l := b.locks[name]
	if l == nil {
		l = make(chan struct{}, 1)
		b.locks[name] = l
	}
	b.mu.Unlock()
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func key() action.ConnectRequest {
	return action.ConnectRequest{Organization: "org", Provider: "acme", Kind: action.KindAPIKey, Secret: "key-canary-1", By: "ann", Login: "l1"}
}
