package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"sallyport/action"
	"sallyport/internal/vault"
	"sallyport/sources"
	"sallyport/sources/connector"
	"sallyport/sources/credential"
)

// The one organization, person and session.
const (
	organization = "o"
	person       = "ann"
	session      = "s"
)

// house is what of a gateway a connector needs.
type house struct {
	rows
	catalog *sources.Catalog
	oauth   *credential.OAuth

	mu        sync.Mutex
	connector action.Connector
}

func newHouse(ctx context.Context, server string, oauth bool, scenario string, given *given) (*house, error) {
	h := &house{connector: action.Connector{
		ID: "c", Organization: organization, Name: "Suite", URL: server, Enabled: true, Revision: 1,
	}}
	if strings.HasPrefix(scenario, "elicitation") || strings.HasPrefix(scenario, "sep-2322") {
		h.connector.MayAsk = []action.AskKind{action.AskElicitation}
	}
	secretHost := ""
	if oauth {
		h.connector.OAuth = &action.OAuthSettings{Kind: action.OAuthCode}
		if strings.HasPrefix(scenario, "auth/client-credentials") {
			h.connector.OAuth.Kind = action.OAuthClient
		}
		if given.ClientID != "" {
			h.connector.OAuth.ClientID, h.connector.OAuth.ClientSecret = given.ClientID, "client"
			secretHost = tokenHost(ctx, server)
		}
	}
	master := make([]byte, vault.KeySize)
	rand.Read(master) //nolint:errcheck // never fails: it ends the process instead
	v, err := vault.New(master)
	if err != nil {
		return nil, err
	}
	h.oauth, err = credential.New(credential.Config{
		Store: &h.rows, Vault: v,
		// Of one instance, which contends with nobody.
		Lock:        func(context.Context, string) (func(), error) { return func() {}, nil },
		RedirectURL: "http://localhost:3000/callback", MetadataURL: "https://conformance-test.local/client-metadata.json",
		ClientSecret: func(context.Context, string, string) (value, host string, err error) {
			return given.ClientSecret, secretHost, nil
		},
		Log: slog.Default(),
	})
	if err != nil {
		return nil, err
	}
	h.catalog, err = sources.New(sources.Config{Connectors: h.connectors, Open: h.open})
	return h, err
}

func (h *house) connectors(context.Context, string) ([]action.Connector, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return []action.Connector{h.connector}, nil
}

// open opens the connector as the gateway does.
func (h *house) open(c action.Connector) (sources.Source, error) {
	config := connector.Config{ID: c.Source(), URL: c.URL, MayAsk: c.MayAsk, Log: slog.Default()}
	if c.OAuth != nil {
		config.Header, config.Prefix = "Authorization", "Bearer "
		config.Secret = func(ctx context.Context) (value, host string, err error) { return h.oauth.Token(ctx, c) }
		config.Refused = func(ctx context.Context, used string, status int, challenges []string) (again bool, err error) {
			return h.oauth.Refused(ctx, c, used, status, challenges)
		}
	}
	return connector.New(config)
}

func (h *house) signsIn() bool {
	return h.connector.OAuth != nil && h.connector.OAuth.Kind == action.OAuthCode
}

// signIn signs a person in to the service: in the suite it lets everybody in
// at once. A server that has moved to another authorization server is told
// from a forged one by an admin, who disconnects first.
func (h *house) signIn(ctx context.Context) error {
	authorize, _, err := h.oauth.Begin(ctx, h.connector, person)
	if errors.Is(err, action.ErrConflict) {
		if err := h.oauth.Disconnect(ctx, h.connector, person); err != nil {
			return err
		}
		authorize, _, err = h.oauth.Begin(ctx, h.connector, person)
	}
	if err != nil {
		return err
	}
	resp, err := get(ctx, authorize)
	if err != nil {
		return err
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		return fmt.Errorf("the authorization server answered %s: %w", resp.Status, err)
	}
	q := back.Query()
	_, err = h.oauth.Finish(ctx, organization, person, q.Get("state"), q.Get("code"), q.Get("iss"), q.Get("error"))
	return err
}

// get follows no redirect: it would lead to the gateway's own page.
func get(ctx context.Context, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return client.Do(req)
}

// tokenHost is the host that an admin would store the client's secret for. An
// admin reads it in the service's documentation.
func tokenHost(ctx context.Context, server string) string {
	var resource struct {
		Servers []string `json:"authorization_servers"`
	}
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	fetch(ctx, u.Scheme+"://"+u.Host+"/.well-known/oauth-protected-resource"+u.Path, &resource)
	if len(resource.Servers) == 0 {
		return ""
	}
	issuer, err := url.Parse(resource.Servers[0])
	if err != nil {
		return ""
	}
	return issuer.Host
}

// fetch reads a document; what cannot be had is left empty.
func fetch(ctx context.Context, address string, v any) {
	resp, err := get(ctx, address)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_ = json.NewDecoder(resp.Body).Decode(v) // empty then
}
