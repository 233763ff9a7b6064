package credential

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

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
