package credential

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// maxGiveBack bounds what is tried at the service when an integration ends.
const maxGiveBack = 5 * time.Second

// Disconnect ends an integration for a person, and tells whether the service
// took the credential back. That it did not is no error.
func (t *Tokens) Disconnect(ctx context.Context, in action.Integration, by string) (revoked bool, err error) {
	at := place{in.Organization, in.ID}
	ctx = context.WithoutCancel(ctx)
	h, err := t.owned(ctx, at)
	switch {
	case errors.Is(err, action.ErrNotFound):
		return false, err
	case err != nil:
		t.Log.Warn("a credential is removed that cannot be given back", "integration", in.ID, "error", err)
	default:
		revoked = t.giveBack(ctx, &h)
	}
	changed, err := t.Store.SetIntegrationStatus(ctx, in.Organization, in.ID, 0, action.IntegrationDeleted, "", by)
	t.drop(at)
	if changed {
		t.Changed(in.Organization)
	}
	return revoked, err
}

// giveBack tells the service that the credential is not needed any more.
func (t *Tokens) giveBack(ctx context.Context, h *owned) bool {
	ctx, stop := context.WithTimeout(ctx, maxGiveBack)
	defer stop()
	var err error
	m := t.modules[h.in.Provider]
	switch {
	case h.in.Kind == action.KindNone || m == nil:
		return false
	case h.in.Kind == action.KindApp:
		err = t.uninstall(ctx, h)
	case h.in.Broker == action.BrokerNango:
		err = t.nangoDelete(ctx, h)
	case m.Revoke != nil:
		err = t.revokeByModule(ctx, m, h)
	case h.in.Kind == action.KindOAuth2:
		err = t.revokeTokens(ctx, h)
	default:
		return false
	}
	if err != nil && !errors.Is(err, errKept) {
		t.Log.Warn("a credential could not be given back", "integration", h.in.ID, "provider", h.in.Provider, "error", err)
	}
	return err == nil
}

// errKept is a service that takes no credential back.
var errKept = errors.New("the service takes no credential back")

func (t *Tokens) uninstall(ctx context.Context, h *owned) error {
	app, api, err := t.appOf(ctx, h)
	if err != nil {
		return err
	}
	a, err := t.asApp(ctx, app, api, http.MethodDelete, h.cred.Installation, "")
	if err == nil && a.Status != http.StatusNoContent && a.Status != http.StatusNotFound {
		err = t.appRefused(a)
	}
	return err
}

func (t *Tokens) nangoDelete(ctx context.Context, h *owned) error {
	app, err := t.registration(ctx, h.in.Organization, string(action.BrokerNango))
	if err != nil {
		return err
	}
	q := url.Values{"provider_config_key": {h.cred.Key}}
	a, err := t.nango(ctx, app, &outbound.Request{Method: http.MethodDelete}, outbound.Path("connections", h.cred.Connection), q)
	if err == nil && a.Status >= 300 && a.Status != http.StatusNotFound {
		err = nangoRefused(a)
	}
	return err
}

// revokeByModule has the module do it with the token that there is: to renew
// one for it would be odd.
func (t *Tokens) revokeByModule(ctx context.Context, m *sources.Module, h *owned) error {
	base, err := t.base(&h.in)
	token := h.cred.Value
	if h.in.Kind == action.KindOAuth2 {
		token = h.cred.Access
	}
	if err != nil || base == nil || hostOf(base.String()) != h.cred.Host || token == "" {
		return errors.New("there is no credential for the base URL")
	}
	c := &sources.Conn{Kind: h.in.Kind, Token: token, Settings: h.in.Settings, Account: h.in.Account, HTTP: t.HTTP.Client(h.in.ID, base, token)}
	var no *sources.Refusal
	if err = m.Revoke(ctx, c); errors.As(err, &no) {
		return errors.New(clean(no.Message, token)) // its detail is foreign
	}
	return err
}

// revokeTokens gives the tokens of our own OAuth back (RFC 7009), the refresh
// token first: most services end what came of it, too.
func (t *Tokens) revokeTokens(ctx context.Context, h *owned) error {
	app, p, err := t.client(ctx, h)
	if err != nil {
		return err
	}
	if p.revoke == "" && p.forget == "" {
		return errKept
	}
	if p.forget != "" {
		return t.forgetToken(ctx, h, app, p)
	}
	for _, token := range []struct{ value, kind string }{{h.cred.Refresh, "refresh_token"}, {h.cred.Access, "access_token"}} {
		if token.value == "" {
			continue
		}
		form := url.Values{"token": {token.value}, "token_type_hint": {token.kind}, "client_id": {app.ClientID}}
		secret := app.secrets[action.AppClientSecret]
		if secret != "" {
			form.Set("client_secret", secret)
		}
		a, err := t.post(ctx, h.in.Organization, p.revoke, form, []string{token.value, secret})
		if err != nil {
			return err
		}
		if a.Status >= 300 && !(token.kind == "access_token" && h.cred.Refresh != "") { // it went with the other
			return failing(sources.FaultRefused, nil, "The service answered %d.", a.Status)
		}
	}
	return nil
}

// forgetToken gives a token back in GitHub's way, in which the app speaks for
// itself at the API.
func (t *Tokens) forgetToken(ctx context.Context, h *owned, app *registration, p preset) error {
	secret, err := app.need(action.AppClientSecret)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"access_token": h.cred.Access})
	if err != nil {
		return errors.New("encoding a token")
	}
	proof := http.Request{Header: http.Header{"Content-Type": {"application/json"}}}
	proof.SetBasicAuth(app.ClientID, secret)
	endpoint := t.appAPI(app) + outbound.Path(p.forget, app.ClientID, "token")
	a, err := t.send(ctx, "oauth:"+h.in.Organization, endpoint, &outbound.Request{Method: http.MethodDelete, Header: proof.Header, Body: body}, h.cred.Access, secret)
	if err == nil && a.Status >= 300 && a.Status != http.StatusNotFound {
		err = failing(sources.FaultRefused, nil, "The service answered %d.", a.Status)
	}
	return err
}
