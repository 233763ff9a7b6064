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

// revokeTimeout bounds the revocation at the service when an integration is
// disconnected.
const revokeTimeout = 5 * time.Second

// Disconnect deletes an integration on behalf of a person, and reports whether
// the service revoked the credential. A missing revocation is no error: the
// service may not support it, or it would end another integration of the same
// account.
func (t *Tokens) Disconnect(ctx context.Context, in action.Integration, by string) (revoked bool, err error) {
	key := rowKey{in.Organization, in.ID}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), renewTimeout)
	defer stop()
	// A concurrent renewal would create a credential that is never revoked.
	err = t.exclusive(ctx, key, func() error {
		h, err := t.readIntegration(ctx, key)
		switch {
		case errors.Is(err, action.ErrNotFound):
			return err
		case err != nil:
			t.Log.Warn("could not revoke a credential before deleting it", "integration", key.id, "error", err)
		default:
			revoked = t.revoke(ctx, &h)
		}
		changed, err := t.Store.SetIntegrationStatus(ctx, key.organization, key.id, 0, action.IntegrationDeleted, "", by)
		t.evictAll(key)
		if changed {
			t.Changed(key.organization)
		}
		return err
	})
	return revoked, err
}

// accountInUse reports whether revoking the credential would end another
// integration: uninstalling an app, and revoking at many services, ends all
// access that the account granted. A broker's connection belongs to one
// integration only.
func (t *Tokens) accountInUse(ctx context.Context, h *storedIntegration) (bool, error) {
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

// revoke revokes the credential at the service.
func (t *Tokens) revoke(ctx context.Context, h *storedIntegration) bool {
	ctx, stop := context.WithTimeout(ctx, revokeTimeout)
	defer stop()
	needed, err := t.accountInUse(ctx, h)
	m := t.modules[h.in.Provider]
	switch {
	case h.in.Kind == action.KindNone || m == nil:
		return false
	case needed && err == nil:
		err = errNotRevocable
	case err != nil:
	case h.in.Kind == action.KindApp:
		err = t.uninstall(ctx, h)
	case h.in.Broker == action.BrokerNango:
		err = t.nangoDelete(ctx, h)
	case m.Revoke != nil:
		err = t.revokeByModule(ctx, m, h)
	case h.in.Kind == action.KindOAuth2:
		err = t.revokeOAuth(ctx, h)
	default:
		return false
	}
	if err != nil && !errors.Is(err, errNotRevocable) {
		t.Log.Warn("a credential could not be revoked", "integration", h.in.ID, "provider", h.in.Provider, "error", err)
	}
	return err == nil
}

// errNotRevocable reports a credential that the service cannot revoke, or that
// is still in use.
var errNotRevocable = errors.New("the credential is not revoked")

func (t *Tokens) uninstall(ctx context.Context, h *storedIntegration) error {
	app, api, err := t.appFor(ctx, h)
	if err != nil {
		return err
	}
	a, err := t.requestAsApp(ctx, app, api, http.MethodDelete, h.secrets.Installation, "", nil)
	if err == nil && a.Status != http.StatusNoContent && a.Status != http.StatusNotFound {
		err = t.appError(a)
	}
	return err
}

func (t *Tokens) nangoDelete(ctx context.Context, h *storedIntegration) error {
	app, err := t.registration(ctx, h.in.Organization, string(action.BrokerNango))
	if err != nil {
		return err
	}
	q := url.Values{"provider_config_key": {h.secrets.Key}}
	a, err := t.nango(ctx, app, &outbound.Request{Method: http.MethodDelete}, outbound.Path("connections", h.secrets.Connection), q)
	if err == nil && a.Status >= 300 && a.Status != http.StatusNotFound {
		err = nangoError(a)
	}
	return err
}

// revokeByModule lets the module revoke the stored token. It does not renew a
// token only to revoke it.
func (t *Tokens) revokeByModule(ctx context.Context, m *sources.Module, h *storedIntegration) error {
	token := h.secrets.Value
	if h.in.Kind == action.KindOAuth2 {
		token = h.secrets.Access
	}
	c, err := t.connWithToken(h, token)
	if err != nil {
		return err
	}
	if token == "" {
		return errors.New("there is no credential to revoke")
	}
	var no *sources.Refusal
	if err = m.Revoke(ctx, c); errors.As(err, &no) {
		return errors.New(redactText(no.Message, token)) // its detail is untrusted
	}
	return err
}

// revokeOAuth revokes the gateway's own OAuth tokens (RFC 7009), the refresh
// token first: most services then revoke its access tokens, too.
func (t *Tokens) revokeOAuth(ctx context.Context, h *storedIntegration) error {
	app, p, err := t.clientFor(ctx, h)
	if err != nil {
		return err
	}
	if p.revoke == "" && p.deletePath == "" {
		return errNotRevocable
	}
	if p.deletePath != "" {
		return t.deleteGitHubToken(ctx, h, app, p)
	}
	for _, token := range []struct{ value, kind string }{{h.secrets.Refresh, "refresh_token"}, {h.secrets.Access, "access_token"}} {
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
		if a.Status >= 300 && !(token.kind == "access_token" && h.secrets.Refresh != "") { // revoked with the refresh token
			return unavailable(sources.FaultRefused, nil, "The service returned %d.", a.Status)
		}
	}
	return nil
}

// deleteGitHubToken deletes a token through GitHub's API, for which the app
// authenticates as itself.
func (t *Tokens) deleteGitHubToken(ctx context.Context, h *storedIntegration, app *registration, p preset) error {
	secret, err := app.secret(action.AppClientSecret)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"access_token": h.secrets.Access})
	if err != nil {
		return errors.New("encoding a token")
	}
	proof := http.Request{Header: http.Header{"Content-Type": {"application/json"}}}
	proof.SetBasicAuth(app.ClientID, secret)
	endpoint := t.appAPI(app) + outbound.Path(p.deletePath, app.ClientID, "token")
	a, err := t.send(ctx, "oauth:"+h.in.Organization, endpoint, &outbound.Request{Method: http.MethodDelete, Header: proof.Header, Body: body}, h.secrets.Access, secret)
	if err == nil && a.Status >= 300 && a.Status != http.StatusNotFound {
		err = unavailable(sources.FaultRefused, nil, "The service returned %d.", a.Status)
	}
	return err
}
