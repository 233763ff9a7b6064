package credential

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// Token returns the connector's access token and its host. It renews the token
// before it expires; ctx bounds the wait for that, not the renewal. Errors of
// kind ErrUnavailable with the code [sources.FaultReconnect] say who must do
// what.
func (o *OAuth) Token(ctx context.Context, c action.Connector) (token, host string, err error) {
	if c.OAuth == nil {
		return "", "", action.Errorf(action.ErrInvalid, codeFlow, "The connector has no OAuth settings.")
	}
	key := rowKey{c.Organization, c.ID}
	h, err := o.load(ctx, key)
	if err != nil {
		return "", "", storageError(err)
	}
	g, k := h.grant, h.secrets
	if o.current(&c, k) {
		return k.Access, k.Host, nil
	}
	if c.OAuth.Kind == action.OAuthCode {
		if err := grantError(&c, g, k); err != nil {
			return "", "", err
		}
	}
	usable := k.matches(&c) && k.valid(o.Now())
	if usable && o.changing(key) {
		return k.Access, k.Host, nil
	}
	next, err := o.renew(ctx, &c, func(k *grantSecrets) bool { return !o.current(&c, k) })
	switch {
	case err == nil:
		return next.Access, next.Host, nil
	case usable && !errors.Is(err, errEnded):
		return k.Access, k.Host, nil // still valid for a moment
	}
	return "", "", err
}

// current reports whether the tokens match the connector and need no renewal.
func (o *OAuth) current(c *action.Connector, k *grantSecrets) bool {
	if !k.matches(c) || !k.valid(o.Now()) {
		return false
	}
	return !k.needsRenewal(o.Now(), o.RefreshBefore) || c.OAuth.Kind == action.OAuthCode && k.Refresh == ""
}

// grantError returns an error if only a person can restore access.
func grantError(c *action.Connector, g action.OAuthGrant, k *grantSecrets) error {
	switch {
	case k == nil:
		return signInRequired(c, "The connector has no sign-in yet.")
	case !k.matches(c):
		return signInRequired(c, "The connector has changed since the last sign-in.")
	case k.Access == "" && g.Reason != "":
		return signInRequired(c, g.Reason)
	case k.Access == "":
		return signInRequired(c, "The sign-in has ended.")
	}
	return nil
}

// storageError reports a credential that cannot be read or written because of
// the database.
func storageError(err error) error {
	var shown *action.Error
	if errors.As(err, &shown) {
		return err
	}
	e := action.Errorf(action.ErrUnavailable, sources.FaultCredential, "The credential cannot be read or written right now. Retry.")
	e.Err = err
	return e
}

// renewTimeout bounds a renewal. It continues after its caller left, since a
// refresh token can be valid only once.
const renewTimeout = 30 * time.Second

// errEnded reports a sign-in that has ended.
var errEnded = errors.New("the sign-in is over")

// renew replaces the tokens if they are stale, once for all callers and
// instances, and returns the stored ones.
func (o *OAuth) renew(ctx context.Context, c *action.Connector, stale func(*grantSecrets) bool) (*grantSecrets, error) {
	return renew(ctx, o.rowCache, rowKey{c.Organization, c.ID}, func(h grantRow) (*grantSecrets, bool) {
		return h.secrets, !stale(h.secrets)
	}, func(ctx context.Context, h grantRow) (*grantSecrets, error) {
		return o.replaceTokens(ctx, c, h.grant, h.secrets)
	})
}

// replaceTokens requests new tokens and records the result.
func (o *OAuth) replaceTokens(ctx context.Context, c *action.Connector, g action.OAuthGrant, k *grantSecrets) (*grantSecrets, error) {
	next, err := o.requestTokens(ctx, c, g, k)
	var no *tokenError
	switch {
	case err == nil:
		g.Organization, g.Connector, g.Status = c.Organization, c.ID, action.OAuthConnected
		if len(next.Wanted) > 0 {
			g.Status = action.OAuthReconnect
		}
		key := rowKey{c.Organization, c.ID}
		err := o.writeRenewed(ctx, key, func() error { return o.writeGrant(ctx, g, next) })
		if errors.Is(err, action.ErrConflict) {
			if now, err := o.reload(ctx, key); err == nil && o.current(c, now.secrets) {
				return now.secrets, nil
			}
		}
		if err != nil {
			o.Log.Error("could not store renewed tokens", "connector", c.ID, "error", err)
			return nil, storageError(err)
		}
		return next, nil
	case !errors.Is(err, errEnded) && !(errors.As(err, &no) && no.permanent() && k.matches(c)):
		return nil, err
	}
	// Another instance can have renewed it after this one lost the lock.
	if now, readErr := o.reload(ctx, rowKey{c.Organization, c.ID}); readErr == nil && now.secrets != nil && now.secrets.IssuedAt.After(k.IssuedAt) {
		return now.secrets, nil
	}
	return nil, o.markEnded(ctx, c, g, k, no)
}

// requestTokens requests new tokens for the connector.
func (o *OAuth) requestTokens(ctx context.Context, c *action.Connector, g action.OAuthGrant, k *grantSecrets) (*grantSecrets, error) {
	r, err := o.clientFor(c.URL)
	if err != nil {
		return nil, err
	}
	if c.OAuth.Kind == action.OAuthClient {
		return o.requestClientCredentials(ctx, r, c, k)
	}
	if err := grantError(c, g, k); err != nil {
		return nil, err
	}
	if k.Refresh == "" {
		return nil, errEnded
	}
	next := *k
	return &next, r.exchange(ctx, c.Organization, &next, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {k.Refresh}})
}

// requestClientCredentials requests a token with client credentials.
func (o *OAuth) requestClientCredentials(ctx context.Context, r oauthClient, c *action.Connector, k *grantSecrets) (*grantSecrets, error) {
	next := &grantSecrets{}
	if k.matches(c) && k.Access != "" {
		next.target = k.target
		next.Client.SecretKey = c.OAuth.ClientSecret
	} else {
		t, _, err := r.discover(ctx, c, k)
		if err != nil {
			return nil, err
		}
		next.target = *t
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(next.Scopes) > 0 {
		form["scope"] = []string{joinScopes(next.Scopes)}
	}
	next.Granted = next.Scopes
	return next, r.exchange(ctx, c.Organization, next, form)
}

// markEnded records that the tokens are no longer valid, and why.
func (o *OAuth) markEnded(ctx context.Context, c *action.Connector, g action.OAuthGrant, k *grantSecrets, no *tokenError) error {
	dead := *k
	dead.Access, dead.Refresh, dead.ExpiresAt = "", "", time.Time{}
	g.Status, g.Reason = action.OAuthReconnect, "The access token has expired, and there is no refresh token."
	if no != nil {
		g.Reason = "The authorization server no longer renews the sign-in (" + no.code + ")."
		if no.code == "invalid_client" || no.code == "unauthorized_client" {
			g.Reason = "The authorization server no longer accepts the gateway's client (" + no.code + "). Check the connector's client ID and secret."
			dead.Client = client{}
		}
	}
	if err := o.writeGrant(ctx, g, &dead); err != nil {
		o.Log.Error("could not record the end of a sign-in", "connector", c.ID, "error", err)
	}
	o.evict(rowKey{c.Organization, c.ID})
	o.Log.Warn("a sign-in ended", "connector", c.ID, "reason", g.Reason)
	e := signInRequired(c, g.Reason)
	e.Err = errEnded
	return e
}

// minTokenAge is the age below which a refused token is not renewed: the next
// one would be refused as well.
const minTokenAge = 10 * time.Second

// Refused reports that the connector's server refused the token, with a status
// and the WWW-Authenticate headers. again reports whether to retry the request
// with the token that [OAuth.Token] returns then. An error, of kind
// ErrUnavailable, says what to do instead; nil: nothing known.
func (o *OAuth) Refused(ctx context.Context, c action.Connector, used string, status int, challenges []string) (again bool, err error) {
	if c.OAuth == nil {
		return false, nil
	}
	ch := readChallenge(challenges)
	switch {
	case status == http.StatusForbidden && ch.problem == "insufficient_scope":
		return o.onInsufficientScope(ctx, &c, used, ch.scopes)
	case status == http.StatusUnauthorized:
		fault := false
		_, err := o.renew(ctx, &c, func(k *grantSecrets) bool {
			stale := k != nil && k.Access == used
			fault = stale && o.Now().Sub(k.IssuedAt) < minTokenAge
			return stale && !fault
		})
		if fault {
			return false, action.Errorf(action.ErrUnavailable, sources.FaultAuth,
				"The server refuses a token that its authorization server has just issued. Retry in a minute, and sign in to %q again if that does not help.", c.Name)
		}
		return err == nil, err
	}
	return false, nil
}

// onInsufficientScope records the scopes that the server requires. A person
// must consent to them; until then the token stays in use for what it permits.
func (o *OAuth) onInsufficientScope(ctx context.Context, c *action.Connector, used string, wanted []string) (again bool, err error) {
	what := "more permissions"
	if len(wanted) > 0 {
		what = "the scopes " + sources.Printable(joinScopes(wanted), 200)
	}
	if c.OAuth.Kind == action.OAuthClient {
		return false, action.Errorf(action.ErrUnavailable, sources.FaultAuth, "The server requires %s. Add them to the scopes of the connector's OAuth settings.", what)
	}
	key := rowKey{c.Organization, c.ID}
	err = o.exclusive(ctx, key, func() error {
		h, err := o.reload(ctx, key)
		if err != nil {
			return storageError(err)
		}
		g, k := h.grant, h.secrets
		if again = k != nil && k.Access != used && k.Access != ""; again || k == nil {
			return nil
		}
		next := *k
		next.Wanted = scopes(k.Wanted, wanted)
		if g.Status == action.OAuthReconnect && slices.Equal(next.Wanted, k.Wanted) {
			return nil
		}
		g.Status, g.Reason = action.OAuthReconnect, "The server requires "+what+"."
		defer o.evict(key)
		return o.writeGrant(ctx, g, &next)
	})
	if again && err == nil {
		return true, nil
	}
	if err != nil && !errors.Is(err, action.ErrConflict) {
		o.Log.Error("could not record the requested scopes", "connector", c.ID, "error", err)
	}
	return false, signInRequired(c, "The server requires "+what+".")
}

func joinScopes(scopes []string) string { return strings.Join(scopes, " ") }
