package credential

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

// wish is what is sealed of a flow.
type wish struct {
	Wanted   action.Wanted `json:"wanted"` // without a secret
	Host     string        `json:"host"`   // that the credential will be for
	Client   string        `json:"client_id,omitempty"`
	Token    string        `json:"token_endpoint,omitempty"`
	Issuer   string        `json:"issuer,omitempty"` // of the answer, where it names one; empty: not known
	Verifier string        `json:"verifier,omitempty"`
	Key      string        `json:"key,omitempty"` // the broker's name of the provider
}

func integrationFlowRef(organization, hash string) action.Ref {
	return action.Ref{Organization: organization, Table: "integration_flows", Row: hash, Column: "sealed"}
}

// Begin starts a connection that a person ends in his browser, within FlowLife,
// and returns where it goes on. Errors of kind ErrInvalid name the field, or
// have the code "no_app" where the gateway must be registered at the service
// first.
func (t *Tokens) Begin(ctx context.Context, w action.Wanted) (action.ConnectStep, error) {
	var step action.ConnectStep
	w.Secret = ""
	m, need, err := t.need(&w)
	if err != nil {
		return step, err
	}
	if w.Kind != action.KindOAuth2 && w.Kind != action.KindApp {
		return step, invalid("/kind", "%s is connected with %s by giving the credential; there is nothing to do in a browser.", m.Title, w.Kind)
	}
	if err := w.Check(); err != nil {
		return step, err
	}
	if err := m.CheckSomeSettings(w.Settings); err != nil {
		return step, err
	}
	if len(w.Scopes) == 0 {
		w.Scopes = need.Scopes
	}
	state := secret()
	f := action.IntegrationFlow{
		StateHash: hash(state), Organization: w.Organization, Provider: w.Provider, By: w.By, Login: w.Login, ExpiresAt: t.Now().UTC().Add(t.FlowLife),
	}
	b := &wish{Wanted: w}
	switch {
	case w.Broker == action.BrokerNango:
		step, err = t.beginNango(ctx, m, &f, b)
	case w.Kind == action.KindApp:
		step, err = t.beginApp(ctx, m, b, state)
	default:
		step, err = t.beginOAuth(ctx, m, need, b, state)
	}
	if err != nil {
		return action.ConnectStep{}, err
	}
	if f.Sealed, err = seal(t.Vault, integrationFlowRef(f.Organization, f.StateHash), b); err != nil {
		return action.ConnectStep{}, err
	}
	if err := t.Store.PutIntegrationFlow(ctx, f); err != nil {
		return action.ConnectStep{}, fmt.Errorf("writing a connection that begins: %w", err)
	}
	step.State = state
	if step.ExpiresAt.IsZero() || f.ExpiresAt.Before(step.ExpiresAt) {
		step.ExpiresAt = f.ExpiresAt
	}
	return step, nil
}

func (t *Tokens) beginOAuth(ctx context.Context, m *sources.Module, need sources.Need, b *wish, state string) (step action.ConnectStep, err error) {
	p, ok := presetOf(need.Preset)
	if !ok {
		return step, fmt.Errorf("module %s has no OAuth preset %q", m.ID, need.Preset)
	}
	app, err := t.registration(ctx, b.Wanted.Organization, m.ID)
	if err != nil {
		return step, err
	}
	if app.ClientID == "" {
		return step, noApp(m.ID, "The registration at %s has no client id.", m.ID)
	}
	if b.Wanted.BaseURL, b.Host, err = t.boundBase(m, &b.Wanted, app); err != nil {
		return step, err
	}
	p = p.at(app.BaseURL)
	b.Client, b.Token, b.Issuer, b.Verifier = app.ClientID, p.token, p.issuer, secret()
	step.URL, err = p.authorizeURL(b, t.redirectURL(m.ID), state)
	return step, err
}

// redirectURL is where a provider's answers come back to.
func (t *Tokens) redirectURL(provider string) string {
	return strings.TrimSuffix(t.RedirectURL, "/") + "/" + url.PathEscape(provider)
}

func (p preset) authorizeURL(b *wish, redirect, state string) (string, error) {
	u, err := url.Parse(p.authorize)
	if err != nil {
		return "", err
	}
	separator := " "
	if p.comma {
		separator = ","
	}
	challenge := sha256.Sum256([]byte(b.Verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {b.Client}, "redirect_uri": {redirect}, "state": {state}, "scope": {strings.Join(b.Wanted.Scopes, separator)},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	for name, values := range p.authorizing {
		q[name] = values
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (t *Tokens) beginApp(ctx context.Context, m *sources.Module, b *wish, state string) (step action.ConnectStep, err error) {
	app, err := t.registration(ctx, b.Wanted.Organization, m.ID)
	if err != nil {
		return step, err
	}
	if app.Slug == "" || app.AppID == "" && app.ClientID == "" {
		return step, noApp(m.ID, "The registration at %s has no slug or no app id.", m.ID)
	}
	if _, err := app.need(action.AppPrivateKey); err != nil {
		return step, err
	}
	if b.Wanted.BaseURL, b.Host, err = t.boundBase(m, &b.Wanted, app); err != nil {
		return step, err
	}
	if hostOf(t.appAPI(app)) != b.Host {
		return step, invalid("/base_url", "The GitHub App is registered for another host; leave base_url out.")
	}
	step.URL = installURL(app, state)
	return step, nil
}

func (t *Tokens) beginNango(ctx context.Context, m *sources.Module, f *action.IntegrationFlow, b *wish) (step action.ConnectStep, err error) {
	app, err := t.registration(ctx, b.Wanted.Organization, string(action.BrokerNango))
	if err != nil {
		return step, err
	}
	if b.Wanted.BaseURL, b.Host, err = t.wantedBase(m, &b.Wanted, ""); err != nil {
		return step, err
	}
	b.Key = nangoKey(app, m.ID)
	return t.nangoSession(ctx, app, f, b.Key)
}
