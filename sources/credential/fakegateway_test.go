package credential_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/vault"
	"sallyport/sources/credential"
)

const callback = "http://localhost:3000/callback"

// house is a gateway as far as it matters here: rows, locks and a clock that
// several instances share.
type house struct {
	credential.Store // nothing is asked of integrations

	t       *testing.T
	vault   *vault.Vault
	service *service

	mu      sync.Mutex // the fields below
	now     time.Time
	grants  map[string]action.OAuthGrant
	flows   map[string]action.OAuthFlow
	locks   map[string]chan struct{}
	secrets map[string][2]string // value and host, by key
	broken  int                  // writes of grants that fail from now on
	gone    error                // of reads of grants
	reading func()               // called by them; nil: nothing
	log     bytes.Buffer
}

func newHouse(t *testing.T) *house {
	v, err := vault.New(bytes.Repeat([]byte{7}, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	h := &house{
		t: t, vault: v, service: startService(t), now: time.Now().UTC(),
		grants: map[string]action.OAuthGrant{}, flows: map[string]action.OAuthFlow{}, locks: map[string]chan struct{}{}, secrets: map[string][2]string{},
	}
	t.Cleanup(h.leaks)
	return h
}

// leaks fails the test when a secret is in a log or bare in a row.
func (h *house) leaks() {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.log.String()
	for _, g := range h.grants {
		all += string(g.Sealed) + g.Reason + g.Scope
	}
	for _, f := range h.flows {
		all += string(f.Sealed)
	}
	if strings.Contains(all, "canary") {
		h.t.Errorf("a secret is in a log or a row: %q", all)
	}
}

// instance starts one, with its own memory.
func (h *house) instance(change ...func(*credential.Config)) *credential.OAuth {
	h.t.Helper()
	c := credential.Config{
		Store: h, Vault: h.vault, Lock: h.lock, RedirectURL: callback, ClientSecret: h.secret, Now: h.clock, Timeout: 2 * time.Second,
		Log: slog.New(slog.NewTextHandler(writer{h}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&c)
	}
	o, err := credential.New(c)
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

type writer struct{ h *house }

func (w writer) Write(p []byte) (int, error) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	return w.h.log.Write(p)
}

func (h *house) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *house) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// connector is one of the service's, to whose OAuth people sign in.
func (h *house) connector() action.Connector {
	return action.Connector{
		ID: "c1", Organization: "org", Name: "Service", URL: h.service.url(), OAuth: &action.OAuthSettings{Kind: action.OAuthCode},
	}
}

// visit follows the authorize URL as a browser does, and returns what the
// person is sent back with.
func (h *house) visit(authorize string) url.Values {
	h.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(authorize)
	if err != nil {
		h.t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil || !strings.HasPrefix(back.String(), callback) {
		h.t.Fatalf("sent back to %v: %v", back, err)
	}
	return back.Query()
}

func finish(t *testing.T, o *credential.OAuth, by string, q url.Values) (string, error) {
	return o.Finish(t.Context(), "org", by, q.Get("state"), q.Get("code"), q.Get("iss"), q.Get("error"))
}

// signIn plays a whole sign-in of ann.
func (h *house) signIn(o *credential.OAuth, c action.Connector) {
	h.t.Helper()
	authorize, _, err := o.Begin(h.t.Context(), c, "ann")
	if err != nil {
		h.t.Fatal(err)
	}
	if got, err := finish(h.t, o, "ann", h.visit(authorize)); err != nil || got != c.ID {
		h.t.Fatalf("finishing: %q, %v", got, err)
	}
}

// token fails the test when there is none.
func (h *house) token(o *credential.OAuth, c action.Connector) string {
	h.t.Helper()
	token, _, err := o.Token(h.t.Context(), c)
	if err != nil {
		h.t.Fatal(err)
	}
	return token
}

// fails checks an error's kind, code and a part of its message, which must
// hold no secret.
func fails(t *testing.T, err, kind error, code, says string) {
	t.Helper()
	var e *action.Error
	if !errors.As(err, &e) || !errors.Is(err, kind) || e.Code != code || !strings.Contains(e.Message, says) {
		t.Errorf("got %v; want %v, %q and %q in it", err, kind, code, says)
	}
	if err != nil && strings.Contains(err.Error(), "canary") {
		t.Errorf("a secret is in %v", err)
	}
}

func missing() error { return action.Errorf(action.ErrNotFound, "not_found", "It is not there.") }

// OAuthGrant implements credential.Store.
func (h *house) OAuthGrant(ctx context.Context, organization, connector string) (action.OAuthGrant, error) {
	if h.reading != nil {
		h.reading()
	}
	if err := ctx.Err(); err != nil {
		return action.OAuthGrant{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone != nil {
		return action.OAuthGrant{}, h.gone
	}
	g, ok := h.grants[organization+"/"+connector]
	if !ok {
		return g, missing()
	}
	return g, nil
}

// PutOAuthGrant implements credential.Store.
func (h *house) PutOAuthGrant(_ context.Context, g action.OAuthGrant) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken > 0 {
		h.broken--
		return errors.New("the disk is full")
	}
	key := g.Organization + "/" + g.Connector
	if h.grants[key].Version != g.Version {
		return action.Errorf(action.ErrConflict, "oauth_moved", "Somebody was first.")
	}
	g.Version++
	h.grants[key] = g
	return nil
}

// DeleteOAuthGrant implements credential.Store.
func (h *house) DeleteOAuthGrant(_ context.Context, organization, connector, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.grants, organization+"/"+connector)
	return nil
}

// PutOAuthFlow implements credential.Store.
func (h *house) PutOAuthFlow(_ context.Context, f action.OAuthFlow) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flows[f.StateHash] = f
	return nil
}

// TakeOAuthFlow implements credential.Store.
func (h *house) TakeOAuthFlow(_ context.Context, stateHash string, _ time.Time) (action.OAuthFlow, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.flows[stateHash]
	if !ok {
		return f, missing()
	}
	delete(h.flows, stateHash)
	return f, nil
}

func (h *house) lock(ctx context.Context, name string) (func(), error) {
	h.mu.Lock()
	l := h.locks[name]
	if l == nil {
		l = make(chan struct{}, 1)
		h.locks[name] = l
	}
	h.mu.Unlock()
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *house) secret(_ context.Context, _, key string) (value, host string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.secrets[key]
	if !ok {
		return "", "", missing()
	}
	return s[0], s[1], nil
}

func (h *house) grant() action.OAuthGrant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grants["org/c1"]
}
