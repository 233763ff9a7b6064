package credential

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// integrationFlowSecrets is the sealed part of a flow.
type integrationFlowSecrets struct {
	Wanted   action.ConnectRequest `json:"wanted"` // without a secret
	Host     string                `json:"host"`   // of the credential
	Client   string                `json:"client_id,omitempty"`
	Token    string                `json:"token_endpoint,omitempty"`
	Issuer   string                `json:"issuer,omitempty"` // expected in the answer; empty: unknown
	Verifier string                `json:"verifier,omitempty"`
	Key      string                `json:"key,omitempty"` // the broker's name of the provider
}

func integrationFlowRef(organization, hash string) action.Ref {
	return action.Ref{Organization: organization, Table: "integration_flows", Row: hash, Column: "sealed"}
}

// Begin starts a connection that a person completes in a browser within
// FlowLife, and returns where to continue. Errors of kind ErrInvalid name the
// field, or have the code "no_app" if the gateway must first be registered at
// the service.
func (t *Tokens) Begin(ctx context.Context, w action.ConnectRequest) (action.ConnectStep, error) {
	var step action.ConnectStep
	w.Secret = ""
	m, need, err := t.checkRequest(&w)
	if err != nil {
		return step, err
	}
	if w.Kind != action.KindOAuth2 && w.Kind != action.KindApp {
		return step, invalid("/kind", "%s is connected with %s by entering the credential, without a browser.", m.Title, w.Kind)
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
	state := randomToken()
	f := action.IntegrationFlow{
		StateHash: hashState(state), Organization: w.Organization, Provider: w.Provider, By: w.By, Login: w.Login, ExpiresAt: t.Now().UTC().Add(t.FlowLife),
	}
	b := &integrationFlowSecrets{Wanted: w}
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

func (t *Tokens) beginOAuth(ctx context.Context, m *sources.Module, need sources.Need, b *integrationFlowSecrets, state string) (step action.ConnectStep, err error) {
	p, ok := presetOf(need.Preset)
	if !ok {
		return step, fmt.Errorf("module %s has no OAuth preset %q", m.ID, need.Preset)
	}
	app, err := t.registration(ctx, b.Wanted.Organization, m.ID)
	if err != nil {
		return step, err
	}
	if app.ClientID == "" {
		return step, noApp(m.ID, "The registration at %s has no client ID.", m.ID)
	}
	if b.Wanted.BaseURL, b.Host, err = t.registeredBaseURL(m, &b.Wanted, app); err != nil {
		return step, err
	}
	p = p.forServer(app.BaseURL)
	b.Client, b.Token, b.Issuer, b.Verifier = app.ClientID, p.token, p.issuer, randomToken()
	step.URL, err = p.authorizeURL(b, t.redirectURL(m.ID), state)
	return step, err
}

// redirectURL returns the callback URL for a provider.
func (t *Tokens) redirectURL(provider string) string {
	return strings.TrimSuffix(t.RedirectURL, "/") + "/" + url.PathEscape(provider)
}

func (p preset) authorizeURL(b *integrationFlowSecrets, redirect, state string) (string, error) {
	u, err := url.Parse(p.authorize)
	if err != nil {
		return "", err
	}
	separator := " "
	if p.commaScopes {
		separator = ","
	}
	challenge := sha256.Sum256([]byte(b.Verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {b.Client}, "redirect_uri": {redirect}, "state": {state}, "scope": {strings.Join(b.Wanted.Scopes, separator)},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	for name, values := range p.authorizeParams {
		q[name] = values
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (t *Tokens) beginApp(ctx context.Context, m *sources.Module, b *integrationFlowSecrets, state string) (step action.ConnectStep, err error) {
	app, err := t.registration(ctx, b.Wanted.Organization, m.ID)
	if err != nil {
		return step, err
	}
	if app.Slug == "" || app.AppID == "" && app.ClientID == "" {
		return step, noApp(m.ID, "The registration at %s has no slug or no app ID.", m.ID)
	}
	if _, err := app.secret(action.AppPrivateKey); err != nil {
		return step, err
	}
	if b.Wanted.BaseURL, b.Host, err = t.registeredBaseURL(m, &b.Wanted, app); err != nil {
		return step, err
	}
	if hostKey(t.appAPI(app)) != b.Host {
		return step, invalid("/base_url", "The GitHub App is registered for another host. Omit base_url.")
	}
	u := &url.URL{Scheme: "https", Host: "github.com", Path: "/apps/" + app.Slug + "/installations/new"}
	if base, err := guard.CheckURL(app.BaseURL); err == nil {
		u.Scheme, u.Host, u.Path = base.Scheme, base.Host, "/github-apps/"+app.Slug+"/installations/new"
	}
	u.RawQuery = url.Values{"state": {state}}.Encode()
	step.URL = u.String()
	return step, nil
}

func (t *Tokens) beginNango(ctx context.Context, m *sources.Module, f *action.IntegrationFlow, b *integrationFlowSecrets) (step action.ConnectStep, err error) {
	app, err := t.registration(ctx, b.Wanted.Organization, string(action.BrokerNango))
	if err != nil {
		return step, err
	}
	if b.Wanted.BaseURL, b.Host, err = t.requestedBaseURL(m, &b.Wanted, ""); err != nil {
		return step, err
	}
	b.Key = cmp.Or(app.Keys[m.ID], m.ID) // the broker's name of the provider
	return t.nangoSession(ctx, app, f, b.Key)
}

// Finish completes a connection with the answer from the browser, for the user
// and login that began it, once, and on the callback page of the service that
// was asked. An attempt by another login leaves the flow intact. decides
// reports whether the user can still connect for the organization; other users
// complete only their own connections. Afterwards the flow is over, successful
// or not: retrying requires another Begin.
func (t *Tokens) Finish(ctx context.Context, organization, by, login string, decides bool, a action.ConnectCallback) (action.Integration, error) {
	f, b, err := t.takeFlow(ctx, organization, by, login, a.State)
	if err != nil {
		return action.Integration{}, err
	}
	m := t.modules[f.Provider]
	switch {
	case !decides && !b.Wanted.Own:
		return action.Integration{}, action.Errorf(action.ErrForbidden, "role_required",
			"Only an owner or admin can connect services for the organization. Ask one, or connect it as your own.")
	case a.Provider != f.Provider || a.Iss != "" && b.Issuer != "" && a.Iss != b.Issuer:
		return action.Integration{}, flowError("The response is not from the expected service, and may have been tampered with. Start again on the integrations page.")
	case m == nil:
		return action.Integration{}, flowError("The gateway no longer supports %s.", f.Provider)
	case a.Error != "":
		return action.Integration{}, flowError("%s denied access: %s. Start again, and grant the requested access.", m.Title, errorCode(a.Error))
	}
	// A code is valid once: from here on, closing the browser cancels nothing.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), flowTimeout)
	defer stop()
	var in action.Integration
	switch {
	case b.Wanted.Broker == action.BrokerNango:
		in, err = t.finishNango(ctx, m, f, b, a.Connection)
	case b.Wanted.Kind == action.KindApp:
		in, err = t.finishApp(ctx, m, b, a.Installation)
	default:
		in, err = t.finishOAuth(ctx, m, b, a.Code)
	}
	if errors.Is(err, action.ErrUnavailable) {
		e := *action.Public(err)
		e.Message += " This attempt to connect has ended. Start again on the integrations page."
		return in, &e
	}
	return in, err
}

// takeFlow takes the flow of a state. It does not reveal whether the flow
// belongs to another login.
func (t *Tokens) takeFlow(ctx context.Context, organization, by, login, state string) (f action.IntegrationFlow, b *integrationFlowSecrets, err error) {
	now := t.Now()
	if state == "" {
		return f, nil, flowError("The response has no state, so it matches no connection attempt. Start on the integrations page.")
	}
	f, err = t.Store.TakeIntegrationFlow(ctx, organization, hashState(state), by, login, now)
	if errors.Is(err, action.ErrNotFound) || errors.Is(err, action.ErrGone) || err == nil && !now.Before(f.ExpiresAt) {
		return f, nil, flowError("This connection attempt does not exist, has expired, is already complete, or was started by another login, which can still complete it. Start again on the integrations page.")
	}
	if err != nil {
		return f, nil, err
	}
	b = &integrationFlowSecrets{}
	return f, b, unseal(t.Vault, integrationFlowRef(f.Organization, f.StateHash), f.Sealed, b)
}

func (t *Tokens) finishOAuth(ctx context.Context, m *sources.Module, b *integrationFlowSecrets, code string) (action.Integration, error) {
	var none action.Integration
	if code == "" {
		return none, flowError("The response has no code. Start again.")
	}
	c := &secrets{Host: b.Host, tokenSet: tokenSet{Granted: b.Wanted.Scopes}, Token: b.Token, Client: b.Client}
	app, p, err := t.clientFor(ctx, &storedIntegration{in: action.Integration{Organization: b.Wanted.Organization, Provider: m.ID}, secrets: c})
	if err != nil {
		return none, err
	}
	err = t.exchange(ctx, app, p, &c.tokenSet, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {t.redirectURL(m.ID)}, "code_verifier": {b.Verifier},
	})
	var no *tokenError
	if errors.As(err, &no) && !no.clientRejected() {
		return none, flowError("%s did not accept the authorization code (%s). Start again.", m.Title, no.code)
	}
	if err != nil {
		return none, err
	}
	return t.verifyAndSave(ctx, m, b.Wanted, c, c.Access)
}

// finishApp asks GitHub for the account of the installation: the browser's
// answer is untrusted.
func (t *Tokens) finishApp(ctx context.Context, m *sources.Module, b *integrationFlowSecrets, id string) (action.Integration, error) {
	var none action.Integration
	if id == "" || len(id) > 19 || strings.Trim(id, "0123456789") != "" {
		return none, flowError("The response has no installation. Start again, and install the app or ask the account's owner to do so.")
	}
	app, err := t.registration(ctx, b.Wanted.Organization, m.ID)
	if err != nil {
		return none, err
	}
	api := t.appAPI(app)
	if hostKey(api) != b.Host {
		return none, flowError("The GitHub App's base URL has changed. Start again.")
	}
	i, err := t.installation(ctx, app, api, id)
	if err != nil {
		return none, err
	}
	if i == nil {
		return none, flowError("This installation of the GitHub App does not exist. Install it again from the integrations page.")
	}
	if i.SuspendedAt != nil {
		return none, flowError("The installation is suspended. Ask its owner to unsuspend it at GitHub, then start again.")
	}
	account, err := i.account(m, api)
	if err != nil {
		return none, err
	}
	return t.save(ctx, m, b.Wanted, account, &secrets{Host: b.Host, Installation: id})
}

// finishNango asks Nango for the connection, which must have been created by
// this flow.
func (t *Tokens) finishNango(ctx context.Context, m *sources.Module, f action.IntegrationFlow, b *integrationFlowSecrets, id string) (action.Integration, error) {
	var none action.Integration
	if id == "" || len(id) > 255 {
		return none, flowError("The response has no connection. Start again.")
	}
	app, err := t.registration(ctx, f.Organization, string(action.BrokerNango))
	if err != nil {
		return none, err
	}
	c, status, err := t.nangoConnection(ctx, app, id, b.Key, false)
	if err != nil {
		return none, err
	}
	if status != http.StatusOK || c.Tags[nangoFlow] != f.StateHash || !strings.EqualFold(c.Tags["organization_id"], f.Organization) || !strings.EqualFold(c.Tags["end_user_id"], f.By) {
		return none, flowError("Nango has no matching connection that was created here. Start again.")
	}
	return t.verifyAndSave(ctx, m, b.Wanted, &secrets{Host: b.Host, Connection: id, Key: b.Key}, c.token())
}
