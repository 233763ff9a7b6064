package credential

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
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

// Finish ends a connection with what the browser came back with: for the user
// and the login that began it, once, at the page of the very service that was
// asked. Another login's attempt leaves it as it is. decides tells whether the user may still connect for the organization;
// who may not ends his own connections alone. The connection is over then, in
// whichever way: another one needs another Begin.
func (t *Tokens) Finish(ctx context.Context, organization, by, login string, decides bool, a action.ConnectAnswer) (action.Integration, error) {
	f, b, err := t.resumed(ctx, organization, by, login, a.State)
	if err != nil {
		return action.Integration{}, err
	}
	m := t.modules[f.Provider]
	switch {
	case !decides && !b.Wanted.Own:
		return action.Integration{}, action.Errorf(action.ErrForbidden, "role_required",
			"An owner or admin connects services for the organization, which you no longer are; ask one, or connect it as your own.")
	case a.Provider != f.Provider || a.Iss != "" && b.Issuer != "" && a.Iss != b.Issuer:
		return action.Integration{}, unfinished("The answer is not of the service that was asked. Somebody may have tampered with it; begin again on the page of integrations.")
	case m == nil:
		return action.Integration{}, unfinished("The gateway does not speak to %s any more.", f.Provider)
	case a.Error != "":
		return action.Integration{}, unfinished("%s did not let the gateway in: %s. Begin again, and allow what it asks for.", m.Title, errorCode(a.Error))
	}
	// A code is good once: from here on the person's leaving stops nothing.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), maxBegin)
	defer stop()
	in, err := t.finish(ctx, m, f, b, &a)
	return in, over(err)
}

func (t *Tokens) finish(ctx context.Context, m *sources.Module, f action.IntegrationFlow, b *wish, a *action.ConnectAnswer) (action.Integration, error) {
	switch {
	case b.Wanted.Broker == action.BrokerNango:
		return t.finishNango(ctx, m, f, b, a.Connection)
	case b.Wanted.Kind == action.KindApp:
		return t.finishApp(ctx, m, b, a.Installation)
	}
	return t.finishOAuth(ctx, m, b, a.Code)
}

// over says of a service that could not be asked that trying again means
// beginning again.
func over(err error) error {
	if err == nil || !errors.Is(err, action.ErrUnavailable) {
		return err
	}
	e := *action.Public(err)
	e.Message += " This attempt to connect is over: begin again on the page of integrations."
	return &e
}

// resumed takes the flow of a state, which must be the login's own. Whether it is
// another's is not told.
func (t *Tokens) resumed(ctx context.Context, organization, by, login, state string) (f action.IntegrationFlow, b *wish, err error) {
	now := t.Now()
	if state == "" {
		return f, nil, unfinished("The answer has no state in it, so that nobody knows what it answers; begin the connection here, on the page of integrations.")
	}
	f, err = t.Store.TakeIntegrationFlow(ctx, organization, hash(state), by, login, now)
	if errors.Is(err, action.ErrNotFound) || errors.Is(err, action.ErrGone) || err == nil && !now.Before(f.ExpiresAt) {
		return f, nil, unfinished("This connection is over, took too long, was never begun, or was begun by another login, which can still end it; begin again on the page of integrations.")
	}
	if err != nil {
		return f, nil, err
	}
	b = &wish{}
	return f, b, unseal(t.Vault, integrationFlowRef(f.Organization, f.StateHash), f.Sealed, b)
}

func (t *Tokens) finishOAuth(ctx context.Context, m *sources.Module, b *wish, code string) (action.Integration, error) {
	var none action.Integration
	if code == "" {
		return none, unfinished("The answer has no code in it; begin again.")
	}
	c := &cred{Host: b.Host, issued: issued{Granted: b.Wanted.Scopes}, Token: b.Token, Client: b.Client}
	app, p, err := t.client(ctx, &owned{in: action.Integration{Organization: b.Wanted.Organization, Provider: m.ID}, cred: c})
	if err != nil {
		return none, err
	}
	err = t.exchange(ctx, app, p, &c.issued, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {t.redirectURL(m.ID)}, "code_verifier": {b.Verifier},
	})
	var no *refusal
	if errors.As(err, &no) && !no.client() {
		return none, unfinished("%s did not take what the browser came back with (%s); begin again.", m.Title, no.code)
	}
	if err != nil {
		return none, err
	}
	return t.verified(ctx, m, b.Wanted, c, c.Access)
}

// finishApp asks GitHub whose the installation is: the browser may say anything.
func (t *Tokens) finishApp(ctx context.Context, m *sources.Module, b *wish, id string) (action.Integration, error) {
	var none action.Integration
	if !installationID(id) {
		return none, unfinished("The answer has no installation in it; begin again, and install the app or ask the account's owner to.")
	}
	app, err := t.registration(ctx, b.Wanted.Organization, m.ID)
	if err != nil {
		return none, err
	}
	api := t.appAPI(app)
	if hostOf(api) != b.Host {
		return none, unfinished("The GitHub App's base URL was changed meanwhile; begin again.")
	}
	i, err := t.installationOf(ctx, app, api, id)
	if err != nil {
		return none, err
	}
	if i == nil {
		return none, unfinished("The GitHub App has no such installation; install it again from the page of integrations.")
	}
	if i.SuspendedAt != nil {
		return none, unfinished("The installation is suspended; have its owner unsuspend it at GitHub, and begin again.")
	}
	account, err := i.account(m, api)
	if err != nil {
		return none, err
	}
	return t.keep(ctx, m, b.Wanted, account, &cred{Host: b.Host, Installation: id})
}

// finishNango asks Nango for the connection: it must be the one that this very
// flow had it make.
func (t *Tokens) finishNango(ctx context.Context, m *sources.Module, f action.IntegrationFlow, b *wish, id string) (action.Integration, error) {
	var none action.Integration
	if id == "" || len(id) > 255 {
		return none, unfinished("The answer has no connection in it; begin again.")
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
		return none, unfinished("Nango has no such connection that was made here; begin again.")
	}
	return t.verified(ctx, m, b.Wanted, &cred{Host: b.Host, Connection: id, Key: b.Key}, c.token())
}
