package credential

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// access returns the access token of our own OAuth, renewed before it ends.
func (t *Tokens) access(ctx context.Context, h *owned) (string, error) {
	c := h.cred
	usable := c.issued.alive(t.Now())
	if usable && (c.Refresh == "" || !c.due(t.Now(), t.RefreshBefore) || t.busy(h.place())) {
		return c.Access, nil
	}
	next, err := t.renew(ctx, h.place(), func(c *cred) bool { return !c.issued.alive(t.Now()) || c.due(t.Now(), t.RefreshBefore) })
	switch {
	case err == nil:
		return next, nil
	case usable && !errors.Is(err, errDead):
		return c.Access, nil // it will do for a moment
	}
	return "", unsent(err)
}

// renew has the access token replaced unless it is not stale any more, once for
// all callers and instances, and returns the one that is stored then.
func (t *Tokens) renew(ctx context.Context, at place, stale func(*cred) bool) (string, error) {
	if err := t.paused(at); err != nil {
		return "", err
	}
	return once(ctx, t.doors, at, func(ctx context.Context) (token string, err error) {
		err = t.locked(ctx, at, func() error {
			token, err = t.renewed(ctx, at, stale)
			return err
		})
		return token, err
	})
}

// renewed is renew for the one who is alone.
func (t *Tokens) renewed(ctx context.Context, at place, stale func(*cred) bool) (string, error) {
	if err := t.paused(at); err != nil {
		return "", err
	}
	h, err := t.reread(ctx, at)
	if err != nil {
		return "", unread(err)
	}
	if !stale(h.cred) {
		return h.cred.Access, nil
	}
	next := *h.cred
	err = t.refresh(ctx, &h, &next)
	var no *refusal
	switch {
	case err == nil:
		return t.renewal(ctx, &h, &next)
	case errors.Is(err, errDead) || errors.As(err, &no) && no.final() && !no.client():
		err = t.expire(ctx, &h, no)
	}
	t.pause(at, err)
	return "", err
}

// refresh asks for new tokens, which replace those in c.
func (t *Tokens) refresh(ctx context.Context, h *owned, c *cred) error {
	if c.Refresh == "" {
		return errDead
	}
	app, p, err := t.client(ctx, h)
	if err != nil {
		return err
	}
	return t.exchange(ctx, app, p, &c.issued, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {c.Refresh}})
}

// client returns whom the integration's tokens were issued to, and the
// endpoints: a refresh token goes nowhere else.
func (t *Tokens) client(ctx context.Context, h *owned) (*registration, preset, error) {
	p, ok := t.presetFor(h.in.Provider, action.KindOAuth2)
	if !ok {
		return nil, p, failing(sources.FaultConfig, nil, "The gateway does not sign in to %s any more; connect it in another way.", t.title(h.in.Provider))
	}
	app, err := t.registration(ctx, h.in.Organization, h.in.Provider)
	if err != nil {
		return nil, p, err
	}
	if p = p.at(app.BaseURL); app.ClientID != h.cred.Client || p.token != h.cred.Token {
		return nil, p, failing(sources.FaultReconnect, nil, "The gateway's registration at %s was changed since; somebody must connect %s again.", h.in.Provider, t.title(h.in.Provider))
	}
	return app, p, nil
}

func (t *Tokens) presetFor(provider string, kind action.IntegrationKind) (preset, bool) {
	if m := t.modules[provider]; m != nil {
		for _, n := range m.Needs {
			if n.Kind == kind {
				return presetOf(n.Preset)
			}
		}
	}
	return preset{}, false
}

// exchange asks the token endpoint for tokens and puts them into k. Errors that
// wrap a *[refusal] are the service's no.
func (t *Tokens) exchange(ctx context.Context, app *registration, p preset, k *issued, form url.Values) error {
	form.Set("client_id", app.ClientID)
	secrets := []string{form.Get("refresh_token"), form.Get("code"), form.Get("code_verifier")}
	if secret := app.secrets[action.AppClientSecret]; secret != "" {
		form.Set("client_secret", secret)
		secrets = append(secrets, secret)
	}
	now := t.Now().UTC() // before it is sent: a token may not seem to live longer than it does
	a, err := t.post(ctx, app.Organization, p.token, form, secrets)
	if err != nil {
		return err
	}
	if err := k.take(a.Status, a.Body, now, p.bearers...); err != nil {
		var no *refusal
		if errors.As(err, &no) && no.client() {
			e := failing(sources.FaultAuth, nil, "%s does not take the gateway's client (%s); an owner or admin must set its id and secret again: sallyport integration app set %s.", app.Provider, no.code, app.Provider)
			e.Err = no
			return e
		}
		return err
	}
	k.Granted = scopes(strings.FieldsFunc(joined(k.Granted), func(r rune) bool { return r == ' ' || r == ',' }))
	return nil
}

// post sends a form to an endpoint of a preset.
func (t *Tokens) post(ctx context.Context, organization, endpoint string, form url.Values, secrets []string) (*outbound.Response, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	return t.send(ctx, "oauth:"+organization, endpoint, &outbound.Request{Method: http.MethodPost, Header: header, Body: []byte(form.Encode())}, secrets...)
}

// send makes one request that has to do with credentials, to an absolute URL.
func (t *Tokens) send(ctx context.Context, whose, endpoint string, r *outbound.Request, secrets ...string) (*outbound.Response, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, failing(sources.FaultConfig, nil, "The service's URL cannot be used; set the base URL again.")
	}
	r.Path, r.Query, r.NoRedirect = u.EscapedPath(), u.Query(), true
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Accept", "application/json")
	ctx, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	var kept []string
	for _, s := range secrets {
		if s != "" {
			kept = append(kept, s)
		}
	}
	a, err := t.HTTP.Client(whose, &url.URL{Scheme: u.Scheme, Host: u.Host}, kept...).Do(ctx, r)
	return a, unsent(err)
}

// renewal writes new tokens. They may be the only good ones, so that a failure
// is not taken for an answer at once.
func (t *Tokens) renewal(ctx context.Context, h *owned, c *cred) (string, error) {
	in, at := h.in, h.place()
	sealed, err := seal(t.Vault, integrationRef(at.organization, at.id), c)
	if err != nil {
		return "", unread(err)
	}
	in.Sealed, in.UpdatedAt, in.ExpiresAt = sealed, t.Now().UTC(), nil
	if !c.ExpiresAt.IsZero() {
		in.ExpiresAt = &c.ExpiresAt
	}
	if len(c.Granted) > 0 {
		in.Scopes = scopeList(c.Granted)
	}
	for attempt := 1; ; attempt++ {
		if err = t.Store.RenewIntegration(ctx, in); err == nil {
			t.forget(at)
			return c.Access, nil
		}
		if errors.Is(err, action.ErrConflict) {
			if now, err := t.reread(ctx, at); err == nil && now.cred.issued.alive(t.Now()) {
				return now.cred.Access, nil // connected again meanwhile
			}
		}
		if attempt == 3 || errors.Is(err, action.ErrConflict) || errors.Is(err, action.ErrNotFound) {
			t.Log.Error("writing renewed tokens", "integration", at.id, "error", err)
			return "", unread(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(attempt) * 200 * time.Millisecond):
		}
	}
}

// expire writes down that the tokens are of no use any more, unless another
// instance renewed them while this one had lost the lock.
func (t *Tokens) expire(ctx context.Context, h *owned, no *refusal) error {
	if now, err := t.reread(ctx, h.place()); err == nil && now.in.Version != h.in.Version {
		return failing(sources.FaultTimeout, nil, "The token was renewed just now; try again.")
	}
	reason := "The access to " + t.title(h.in.Provider) + " ended, and there is nothing to renew it with; connect it again."
	if no != nil {
		reason = t.title(h.in.Provider) + " does not renew the access any more (" + no.code + "); connect it again."
	}
	return t.bury(ctx, h, action.IntegrationExpired, reason)
}

// bury writes why an integration cannot be used, and returns the error that
// says so.
func (t *Tokens) bury(ctx context.Context, h *owned, status action.IntegrationStatus, reason string) error {
	t.setStatus(ctx, h.in, status, reason)
	dead := h.in
	dead.Status, dead.Reason = status, reason
	return t.over(&dead)
}

// setStatus writes a status, as the gateway itself found it.
func (t *Tokens) setStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) {
	changed, err := t.Store.SetIntegrationStatus(ctx, in.Organization, in.ID, status, reason, "")
	if err != nil {
		t.Log.Error("writing an integration's status", "integration", in.ID, "status", status, "error", err)
		return
	}
	t.drop(place{in.Organization, in.ID})
	if changed {
		t.Log.Warn("an integration changed its status", "integration", in.ID, "provider", in.Provider, "status", status, "reason", reason)
		t.Changed(in.Organization)
	}
}
