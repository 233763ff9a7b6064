package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// maxGiveBack bounds what is tried at the service when an integration ends.
const maxGiveBack = 5 * time.Second

// Disconnect ends an integration for a person, and tells whether the service
// took the credential back. That it did not is no error: the service may know no
// such thing, or another integration of the account would end with this one.
func (t *Tokens) Disconnect(ctx context.Context, in action.Integration, by string) (revoked bool, err error) {
	at := place{in.Organization, in.ID}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), maxRenew)
	defer stop()
	err = t.alone(ctx, at, func() error {
		revoked, err = t.disconnect(ctx, at, by)
		return err
	})
	return revoked, err
}

// disconnect is Disconnect for the one who is alone: a renewal under way would
// bring a credential that nobody gives back.
func (t *Tokens) disconnect(ctx context.Context, at place, by string) (revoked bool, err error) {
	h, err := t.owned(ctx, at)
	switch {
	case errors.Is(err, action.ErrNotFound):
		return false, err
	case err != nil:
		t.Log.Warn("a credential is removed that cannot be given back", "integration", at.id, "error", err)
	default:
		revoked = t.giveBack(ctx, &h)
	}
	changed, err := t.Store.SetIntegrationStatus(ctx, at.organization, at.id, 0, action.IntegrationDeleted, "", by)
	t.drop(at)
	if changed {
		t.Changed(at.organization)
	}
	return revoked, err
}

// needed reports whether another integration would end if the service took the
// credential back: uninstalling an app, and at many services revoking, ends all
// that an account gave the gateway. A broker's connection is the integration's
// alone.
func (t *Tokens) needed(ctx context.Context, h *owned) (bool, error) {
	if h.in.Broker == action.BrokerNango {
		return false, nil
	}
	all, err := t.Store.Integrations(ctx, h.in.Organization)
	if err != nil {
		return true, fmt.Errorf("reading the integrations beside it: %w", err)
	}
	return slices.ContainsFunc(all, func(in action.Integration) bool {
		return in.ID != h.in.ID && in.Provider == h.in.Provider && in.Account == h.in.Account
	}), nil
}

// giveBack tells the service that the credential is not needed any more.
func (t *Tokens) giveBack(ctx context.Context, h *owned) bool {
	ctx, stop := context.WithTimeout(ctx, maxGiveBack)
	defer stop()
	needed, err := t.needed(ctx, h)
	m := t.modules[h.in.Provider]
	switch {
	case h.in.Kind == action.KindNone || m == nil:
		return false
	case needed && err == nil:
		err = errKept
	case err != nil:
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

// errKept is a credential that no service takes back, or that is still needed.
var errKept = errors.New("the credential is not given back")

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
	token := h.cred.Value
	if h.in.Kind == action.KindOAuth2 {
		token = h.cred.Access
	}
	c, err := t.connWith(h, token)
	if err != nil {
		return err
	}
	if token == "" {
		return errors.New("there is no credential to give back")
	}
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
