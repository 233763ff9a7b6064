package credential

import (
	"context"
	"errors"
	"net/url"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// access returns the access token of our own OAuth, renewed before it ends.
func (t *Tokens) access(ctx context.Context, h *owned) (string, error) {
	c := h.cred
	usable := c.issued.alive(t.Now())
	if usable && (c.Refresh == "" || !c.due(t.Now(), t.RefreshBefore) || t.busy(h.place())) {
		return c.Access, nil
	}
	next, err := t.renew(ctx, h, func(c *cred) bool { return !c.issued.alive(t.Now()) || c.due(t.Now(), t.RefreshBefore) })
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
func (t *Tokens) renew(ctx context.Context, h *owned, stale func(*cred) bool) (string, error) {
	at := h.place()
	if err := t.paused(at); err != nil {
		return "", err
	}
	return once(ctx, t.doors, at, func(ctx context.Context) (token string, err error) {
		// Whoever was here before may have renewed it: no lock is needed for that.
		if now, err := t.look(ctx, at); err == nil && now.cred.Host == h.cred.Host && !stale(now.cred) {
			return now.cred.Access, nil
		}
		err = t.locked(ctx, at, func() error {
			token, err = t.renewed(ctx, h, stale)
			return err
		})
		return token, err
	})
}

// renewed is renew for the one who is alone.
func (t *Tokens) renewed(ctx context.Context, h *owned, stale func(*cred) bool) (string, error) {
	at := h.place()
	if err := t.paused(at); err != nil {
		return "", err
	}
	h, err := t.same(ctx, h)
	if err != nil {
		return "", err
	}
	if !stale(h.cred) {
		return h.cred.Access, nil
	}
	next := *h.cred
	err = t.refresh(ctx, h, &next)
	var no *refusal
	switch {
	case err == nil:
		return t.renewal(ctx, h, &next)
	case errors.Is(err, errForeign):
		err = t.bury(ctx, h, action.IntegrationExpired, action.Public(err).Message)
	case errors.Is(err, errDead) || errors.As(err, &no) && no.final() && !no.client():
		err = t.expire(ctx, h, no)
	}
	if !errors.Is(err, errNewer) { // which may be good
		t.pause(at, err)
	}
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

// renewal writes new tokens. They may be the only good ones, so that a failure
// is not taken for an answer at once.
func (t *Tokens) renewal(ctx context.Context, h *owned, c *cred) (string, error) {
	in, at := h.in, h.place()
	in.UpdatedAt, in.ExpiresAt = t.Now().UTC(), nil
	if !c.ExpiresAt.IsZero() {
		in.ExpiresAt = &c.ExpiresAt
	}
	if len(c.Granted) > 0 {
		in.Scopes = scopeList(c.Granted)
	}
	for attempt := 1; ; attempt++ {
		// Each time anew: the vault's key may be replaced between two tries.
		sealed, err := seal(t.Vault, integrationRef(at.organization, at.id), c)
		if err != nil {
			return "", unread(err)
		}
		in.Sealed = sealed
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
	reason := "The access to " + t.title(h.in.Provider) + " ended, and there is nothing to renew it with; connect it again."
	if no != nil {
		reason = t.title(h.in.Provider) + " does not renew the access any more (" + no.code + "); connect it again."
	}
	return t.bury(ctx, h, action.IntegrationExpired, reason)
}

// Refused is told that the service did not take the integration's credential,
// which was token, and did nothing. again reports whether there is another one
// by now, to try once. An error says what is to be done instead; of kind
// ErrUnavailable. why is the service's, for people.
func (t *Tokens) Refused(ctx context.Context, in action.Integration, token, why string) (again bool, err error) {
	at := place{in.Organization, in.ID}
	h, err := t.reread(ctx, at)
	if err != nil {
		return false, unread(err)
	}
	switch {
	case h.in.Status != action.IntegrationActive:
		return false, t.over(&h.in)
	case h.in.Kind == action.KindNone:
		return false, nil
	case h.in.Kind == action.KindOAuth2 && h.in.Broker == action.BrokerOwn:
		return t.refusedAccess(ctx, &h, token, why)
	case h.in.Kind == action.KindOAuth2 || h.in.Kind == action.KindApp:
		return t.refusedMinted(ctx, &h, token)
	case h.cred.Value != token:
		return true, nil
	}
	return false, t.refusedValue(ctx, at, token, why)
}

// refusedValue writes down that a key is of no use, unless another was set, or
// it is of use.
func (t *Tokens) refusedValue(ctx context.Context, at place, token, why string) error {
	return t.alone(ctx, at, func() error {
		h, err := t.reread(ctx, at)
		if err != nil {
			return unread(err)
		}
		if h.cred.Value != token {
			return failing(sources.FaultCredential, nil, "The credential was replaced just now; try again.")
		}
		return t.refusedForGood(ctx, &h, token, why)
	})
}

// refusedForGood buries a credential that cannot be renewed, when the service
// does not take it for what every credential is good for either: some refuse so
// what a credential merely is not allowed to do.
func (t *Tokens) refusedForGood(ctx context.Context, h *owned, token, why string) error {
	m := t.modules[h.in.Provider]
	if m == nil || m.Account == nil {
		return t.bury(ctx, h, action.IntegrationRevoked, t.reason(&h.in, token, why))
	}
	c, err := t.connWith(h, token)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	_, err = m.Account(ctx, c)
	var no *sources.Refusal
	switch {
	case errors.As(err, &no) && no.Credential:
		return t.bury(ctx, h, action.IntegrationRevoked, t.reason(&h.in, token, why))
	case err == nil || no != nil:
		return failing(sources.FaultRefused, nil, "%s refused this%s, though it still takes the credential, which may lack a right that it takes; see to its rights there, or connect another one.",
			m.Title, beside(why, token))
	}
	return unanswered(m.Title, err)
}

// reason says that the service does not take the credential, with its words.
func (t *Tokens) reason(in *action.Integration, token, why string) string {
	return t.title(in.Provider) + " does not take the credential any more" + beside(why, token) + "; connect it again."
}

// beside is what a service says, where it says anything.
func beside(why, token string) string {
	if why = clean(why, token); why != "" {
		return " (" + why + ")"
	}
	return ""
}

// refusedAccess replaces an access token. One that was had just now is not
// replaced: the next one would be refused as well.
func (t *Tokens) refusedAccess(ctx context.Context, h *owned, token, why string) (bool, error) {
	if h.cred.Access != token {
		return true, nil
	}
	if t.Now().Sub(h.cred.IssuedAt) < young {
		return false, t.tooYoung(&h.in)
	}
	if h.cred.Refresh == "" {
		err := t.alone(ctx, h.place(), func() error {
			now, err := t.reread(ctx, h.place())
			if err != nil {
				return unread(err)
			}
			if now.cred.Access != token {
				return nil
			}
			return t.refusedForGood(ctx, &now, token, why)
		})
		return err == nil, err
	}
	_, err := t.renew(ctx, h, func(c *cred) bool { return c.Access == token })
	return err == nil, unsent(err)
}

// refusedMinted has a token made anew.
func (t *Tokens) refusedMinted(ctx context.Context, h *owned, token string) (bool, error) {
	if m, ok := t.remembered(h); ok && m.token == token && t.Now().Sub(m.at) < young {
		return false, t.tooYoung(&h.in)
	}
	next, err := t.mint(ctx, h, token)
	if err == nil && next == token {
		return false, t.tooYoung(&h.in)
	}
	return err == nil, err
}

func (t *Tokens) tooYoung(in *action.Integration) error {
	return failing(sources.FaultAuth, nil, "%s refuses a token that was had just now; try again in a minute, and connect it again if that does not help.", t.title(in.Provider))
}

// minted is a token that is in no row: it is had anew whenever it is needed.
type minted struct {
	version int64 // of the row that it was had for
	token   string
	at      time.Time
	until   time.Time // it is used
}

// mint returns a token of an app's installation or of a broker, other than not,
// from memory or had anew: once for all callers of this instance.
func (t *Tokens) mint(ctx context.Context, h *owned, not string) (string, error) {
	if m, ok := t.remembered(h); ok && m.token != not {
		return m.token, nil
	}
	at := h.place()
	if err := t.paused(at); err != nil {
		return "", err
	}
	return once(ctx, t.doors, at, func(ctx context.Context) (string, error) {
		if m, ok := t.remembered(h); ok && m.token != not {
			return m.token, nil
		}
		if err := t.paused(at); err != nil {
			return "", err
		}
		now, err := t.same(ctx, h)
		if err != nil {
			return "", err
		}
		if m, ok := t.remembered(now); ok && m.token != not {
			return m.token, nil
		}
		m, err := t.minting(ctx, now, not != "")
		if errors.Is(err, errNewer) {
			return "", err
		}
		if err != nil {
			err = unsent(err)
			t.pause(at, err)
			return "", err
		}
		m.version, m.at = now.in.Version, t.Now()
		t.mintedMu.Lock()
		t.minted[at] = m
		t.mintedMu.Unlock()
		return m.token, nil
	})
}

// same returns the row as it is now, unless its credential is for something else
// than the caller knows.
func (t *Tokens) same(ctx context.Context, h *owned) (*owned, error) {
	now, err := t.reread(ctx, h.place())
	if err != nil {
		return nil, unread(err)
	}
	if now.in.Kind != h.in.Kind || now.in.Broker != h.in.Broker || now.cred.Host != h.cred.Host {
		return nil, newer()
	}
	return &now, nil
}

func (t *Tokens) minting(ctx context.Context, h *owned, anew bool) (minted, error) {
	if h.in.Kind == action.KindApp {
		return t.installationToken(ctx, h)
	}
	return t.brokersToken(ctx, h, anew)
}

// remembered returns the token that was had for the row as it is.
func (t *Tokens) remembered(h *owned) (minted, bool) {
	t.mintedMu.Lock()
	defer t.mintedMu.Unlock()
	m, ok := t.minted[h.place()]
	return m, ok && m.version == h.in.Version && t.Now().Before(m.until)
}

// drop forgets what this instance knows of an integration.
func (t *Tokens) drop(at place) {
	t.forget(at)
	t.mintedMu.Lock()
	delete(t.minted, at)
	t.mintedMu.Unlock()
}
