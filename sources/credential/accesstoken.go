package credential

import (
	"context"
	"errors"
	"net/url"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// access returns the gateway's own OAuth access token and renews it before it
// expires.
func (t *Tokens) access(ctx context.Context, h *storedIntegration) (string, error) {
	c := h.secrets
	usable := c.tokenSet.valid(t.Now())
	if usable && (c.Refresh == "" || !c.needsRenewal(t.Now(), t.RefreshBefore) || t.changing(h.key())) {
		return c.Access, nil
	}
	next, err := t.renew(ctx, h, func(c *secrets) bool { return !c.tokenSet.valid(t.Now()) || c.needsRenewal(t.Now(), t.RefreshBefore) })
	switch {
	case err == nil:
		return next, nil
	case usable && !errors.Is(err, errEnded):
		return c.Access, nil // still valid for a moment
	}
	return "", asUnavailable(err)
}

// renew replaces the access token if it is stale, once for all callers and
// instances, and returns the stored one.
func (t *Tokens) renew(ctx context.Context, h *storedIntegration, stale func(*secrets) bool) (string, error) {
	return renew(ctx, t.rowCache, h.key(), func(now storedIntegration) (string, bool) {
		return now.secrets.Access, now.same(h) && !stale(now.secrets)
	}, func(ctx context.Context, now storedIntegration) (string, error) {
		if !now.same(h) {
			return "", changedError()
		}
		return t.replaceToken(ctx, &now)
	})
}

// replaceToken requests new tokens and records the result.
func (t *Tokens) replaceToken(ctx context.Context, h *storedIntegration) (string, error) {
	if h.secrets.Refresh == "" {
		return "", t.markExpired(ctx, h, nil)
	}
	next := *h.secrets
	app, p, err := t.clientFor(ctx, h)
	if err == nil {
		err = t.exchange(ctx, app, p, &next.tokenSet, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {next.Refresh}})
	}
	var no *tokenError
	switch {
	case err == nil:
		return t.saveRenewal(ctx, h, &next)
	case errors.Is(err, errRegistrationChanged):
		err = t.markUnusable(ctx, h, action.IntegrationExpired, action.Public(err).Message)
	case errors.As(err, &no) && no.permanent() && !no.clientRejected():
		err = t.markExpired(ctx, h, no)
	}
	return "", err
}

// saveRenewal writes renewed tokens.
func (t *Tokens) saveRenewal(ctx context.Context, h *storedIntegration, c *secrets) (string, error) {
	in, key := h.in, h.key()
	in.UpdatedAt, in.ExpiresAt = t.Now().UTC(), nil
	if !c.ExpiresAt.IsZero() {
		in.ExpiresAt = &c.ExpiresAt
	}
	if len(c.Granted) > 0 {
		in.Scopes = sortedScopes(c.Granted)
	}
	err := t.writeRenewed(ctx, key, func() (err error) {
		// Seal on each attempt: the vault's key can be rotated in between.
		if in.Sealed, err = seal(t.Vault, integrationRef(key.organization, key.id), c); err != nil {
			return err
		}
		return t.Store.RenewIntegration(ctx, in)
	})
	if errors.Is(err, action.ErrConflict) {
		if now, err := t.reload(ctx, key); err == nil && now.secrets.tokenSet.valid(t.Now()) {
			return now.secrets.Access, nil // connected again meanwhile
		}
	}
	if err != nil {
		t.Log.Error("could not store renewed tokens", "integration", key.id, "error", err)
		return "", storageError(err)
	}
	return c.Access, nil
}

// markExpired records that the tokens are no longer valid, unless another
// instance renewed them after this one lost the lock.
func (t *Tokens) markExpired(ctx context.Context, h *storedIntegration, no *tokenError) error {
	reason := "The access to " + t.title(h.in.Provider) + " has expired and cannot be renewed. Connect it again."
	if no != nil {
		reason = t.title(h.in.Provider) + " no longer renews the access (" + no.code + "). Connect it again."
	}
	return t.markUnusable(ctx, h, action.IntegrationExpired, reason)
}

// Refused reports that the service refused the integration's credential, which
// was token, and did nothing. again reports whether there is a new credential
// to try once. An error, of kind ErrUnavailable, says what to do instead. why
// is the service's reason, for people.
func (t *Tokens) Refused(ctx context.Context, in action.Integration, token, why string) (again bool, err error) {
	key := rowKey{in.Organization, in.ID}
	h, err := t.reload(ctx, key)
	if err != nil {
		return false, storageError(err)
	}
	switch {
	case h.in.Status != action.IntegrationActive:
		return false, t.reconnectError(&h.in)
	case h.in.Kind == action.KindNone:
		return false, nil
	case h.in.Kind == action.KindOAuth2 && h.in.Broker == action.BrokerOwn:
		return t.accessTokenRefused(ctx, &h, token, why)
	case h.in.Kind == action.KindOAuth2 || h.in.Kind == action.KindApp:
		if m, ok := t.cached(&h); ok && m.token == token && t.Now().Sub(m.issuedAt) < minTokenAge {
			return false, t.freshTokenRefused(&h.in)
		}
		next, err := t.issueToken(ctx, &h, token)
		if err == nil && next == token {
			return false, t.freshTokenRefused(&h.in)
		}
		return err == nil, err
	case h.secrets.Value != token:
		return true, nil
	}
	return false, t.exclusive(ctx, key, func() error {
		h, err := t.reload(ctx, key)
		if err != nil {
			return storageError(err)
		}
		if h.secrets.Value != token {
			return unavailable(sources.FaultCredential, nil, "The credential has just been replaced. Retry.")
		}
		return t.confirmRefused(ctx, &h, token, why)
	})
}

// confirmRefused marks a credential that cannot be renewed as unusable if the
// service also refuses it for the account request, which every credential
// permits: some services answer missing permissions with the same error.
func (t *Tokens) confirmRefused(ctx context.Context, h *storedIntegration, token, why string) error {
	m := t.modules[h.in.Provider]
	if m == nil || m.Account == nil {
		return t.markUnusable(ctx, h, action.IntegrationRevoked, t.refusedReason(&h.in, token, why))
	}
	c, err := t.connWithToken(h, token)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	_, err = m.Account(ctx, c)
	var no *sources.Refusal
	switch {
	case errors.As(err, &no) && no.Credential:
		return t.markUnusable(ctx, h, action.IntegrationRevoked, t.refusedReason(&h.in, token, why))
	case err == nil || no != nil:
		return unavailable(sources.FaultRefused, nil, "%s refused this%s but still accepts the credential, which may lack a permission. Check its permissions there, or connect another credential.",
			m.Title, inParentheses(why, token))
	}
	return requestError(m.Title, err)
}

// refusedReason says that the service no longer accepts the credential, with
// its reason.
func (t *Tokens) refusedReason(in *action.Integration, token, why string) string {
	return t.title(in.Provider) + " no longer accepts the credential" + inParentheses(why, token) + ". Connect it again."
}

// inParentheses returns the service's reason in parentheses, if there is one.
func inParentheses(why, token string) string {
	if why = redactText(why, token); why != "" {
		return " (" + why + ")"
	}
	return ""
}

// accessTokenRefused replaces an access token. A token that was issued just now
// is not replaced: the next one would be refused as well.
func (t *Tokens) accessTokenRefused(ctx context.Context, h *storedIntegration, token, why string) (bool, error) {
	if h.secrets.Access != token {
		return true, nil
	}
	if t.Now().Sub(h.secrets.IssuedAt) < minTokenAge {
		return false, t.freshTokenRefused(&h.in)
	}
	if h.secrets.Refresh == "" {
		err := t.exclusive(ctx, h.key(), func() error {
			now, err := t.reload(ctx, h.key())
			if err != nil {
				return storageError(err)
			}
			if now.secrets.Access != token {
				return nil
			}
			return t.confirmRefused(ctx, &now, token, why)
		})
		return err == nil, err
	}
	_, err := t.renew(ctx, h, func(c *secrets) bool { return c.Access == token })
	return err == nil, asUnavailable(err)
}

func (t *Tokens) freshTokenRefused(in *action.Integration) error {
	return unavailable(sources.FaultAuth, nil, "%s refuses a token that was issued just now. Retry in a minute, and connect it again if that does not help.", t.title(in.Provider))
}

// cachedToken is a token that is not stored in a row: it is requested again
// when needed.
type cachedToken struct {
	version     int64 // of the row at that time
	token       string
	issuedAt    time.Time
	usableUntil time.Time // earlier than its expiry
}

// issueToken returns a token of an app installation or of a broker, cached or
// requested once for all callers of this instance. It never returns the token
// not.
func (t *Tokens) issueToken(ctx context.Context, h *storedIntegration, not string) (string, error) {
	if m, ok := t.cached(h); ok && m.token != not {
		return m.token, nil
	}
	key := h.key()
	if err := t.retryError(key); err != nil {
		return "", err
	}
	return runExclusive(ctx, t.rowCache, key, func(ctx context.Context) (string, error) {
		if m, ok := t.cached(h); ok && m.token != not {
			return m.token, nil
		}
		if err := t.retryError(key); err != nil {
			return "", err
		}
		now, err := t.reload(ctx, key)
		if err != nil {
			return "", storageError(err)
		}
		if !now.same(h) {
			return "", changedError()
		}
		if m, ok := t.cached(&now); ok && m.token != not {
			return m.token, nil
		}
		var m cachedToken
		if now.in.Kind == action.KindApp {
			m, err = t.installationToken(ctx, &now, nil)
		} else {
			m, err = t.nangoToken(ctx, &now, not != "")
		}
		if errors.Is(err, errChanged) {
			return "", err
		}
		if err != nil {
			err = asUnavailable(err)
			t.setRetry(key, err)
			return "", err
		}
		m.version, m.issuedAt = now.in.Version, t.Now()
		t.cachedMu.Lock()
		t.cachedTokens[key] = m
		t.cachedMu.Unlock()
		return m.token, nil
	})
}

// cached returns the cached token for this version of the row.
func (t *Tokens) cached(h *storedIntegration) (cachedToken, bool) {
	t.cachedMu.Lock()
	defer t.cachedMu.Unlock()
	m, ok := t.cachedTokens[h.key()]
	return m, ok && m.version == h.in.Version && t.Now().Before(m.usableUntil)
}

// evictAll removes an integration from the caches of this instance.
func (t *Tokens) evictAll(key rowKey) {
	t.evict(key)
	t.cachedMu.Lock()
	delete(t.cachedTokens, key)
	t.cachedMu.Unlock()
}
