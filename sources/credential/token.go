package credential

import (
	"context"
	"errors"

	"sallyport/action"
	"sallyport/sources"
)

// Token returns the connector's access token and the host that it is for. It
// is renewed before it ends; ctx bounds the wait for that, and not the renewal.
// Errors of kind ErrUnavailable with the code [sources.FaultReconnect] say who
// must do what.
func (o *OAuth) Token(ctx context.Context, c action.Connector) (token, host string, err error) {
	if c.OAuth == nil {
		return "", "", action.Errorf(action.ErrInvalid, codeFlow, "The connector has no OAuth settings.")
	}
	at := place{c.Organization, c.ID}
	h, err := o.look(ctx, at)
	if err != nil {
		return "", "", unread(err)
	}
	g, k := h.grant, h.kept
	if o.good(&c, k) {
		return k.Access, k.Host, nil
	}
	if c.OAuth.Kind == action.OAuthCode {
		if err := ended(&c, g, k); err != nil {
			return "", "", err
		}
	}
	usable := k.fits(&c) && k.alive(o.Now())
	if usable && o.busy(at) {
		return k.Access, k.Host, nil
	}
	next, err := o.renew(ctx, &c, func(k *kept) bool { return !o.good(&c, k) })
	switch {
	case err == nil:
		return next.Access, next.Host, nil
	case usable && !errors.Is(err, errDead):
		return k.Access, k.Host, nil // it will do for a moment
	}
	return "", "", err
}

// good reports whether the tokens are for the connector and need no renewal.
func (o *OAuth) good(c *action.Connector, k *kept) bool {
	if !k.fits(c) || !k.alive(o.Now()) {
		return false
	}
	return !k.due(o.Now(), o.RefreshBefore) || c.OAuth.Kind == action.OAuthCode && k.Refresh == ""
}

// ended returns an error when only a person can help.
func ended(c *action.Connector, g action.OAuthGrant, k *kept) error {
	switch {
	case k == nil:
		return signIn(c, "Nobody has signed in to the connector's service yet.")
	case !k.fits(c):
		return signIn(c, "The connector was changed since somebody signed in to its service.")
	case k.Access == "" && g.Reason != "":
		return signIn(c, g.Reason)
	case k.Access == "":
		return signIn(c, "The sign-in has ended.")
	}
	return nil
}

// Unread is a credential that cannot be had because of our own rows.
func unread(err error) error {
	var shown *action.Error
	if errors.As(err, &shown) {
		return err
	}
	e := action.Errorf(action.ErrUnavailable, sources.FaultCredential, "The credential cannot be read or written just now; try again.")
	e.Err = err
	return e
}
