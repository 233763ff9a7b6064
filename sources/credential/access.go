package credential

import (
	"context"
	"errors"
	"net/url"
	"time"

	"sallyport/action"
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
