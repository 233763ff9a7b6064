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

// maxRenew bounds a renewal. Its caller's leaving does not stop it, since a
// refresh token may be good once.
const maxRenew = 30 * time.Second

// errDead is a sign-in that is over.
var errDead = errors.New("the sign-in is over")

// renew has the tokens replaced unless they are not stale any more, once for
// all callers and instances, and returns those that are stored then.
func (o *OAuth) renew(ctx context.Context, c *action.Connector, stale func(*kept) bool) (*kept, error) {
	at := place{c.Organization, c.ID}
	if err := o.paused(at); err != nil {
		return nil, err
	}
	return once(ctx, o.doors, at, func(ctx context.Context) (next *kept, err error) {
		// Whoever was here before may have renewed it: no lock is needed for that.
		if now, err := o.look(ctx, at); err == nil && !stale(now.kept) {
			return now.kept, nil
		}
		err = o.locked(ctx, at, func() error {
			next, err = o.renewed(ctx, c, stale)
			return err
		})
		return next, err
	})
}

// renewed is renew for the one who is alone.
func (o *OAuth) renewed(ctx context.Context, c *action.Connector, stale func(*kept) bool) (*kept, error) {
	at := place{c.Organization, c.ID}
	if err := o.paused(at); err != nil {
		return nil, err
	}
	h, err := o.reread(ctx, at)
	if err != nil {
		return nil, unread(err)
	}
	if !stale(h.kept) {
		return h.kept, nil
	}
	next, err := o.replace(ctx, c, h.grant, h.kept)
	if err != nil {
		o.pause(at, err)
	}
	return next, err
}

// replace asks for new tokens, and writes down what became of it.
func (o *OAuth) replace(ctx context.Context, c *action.Connector, g action.OAuthGrant, k *kept) (*kept, error) {
	next, err := o.ask(ctx, c, g, k)
	var no *refusal
	switch {
	case err == nil:
		g.Organization, g.Connector, g.Status = c.Organization, c.ID, action.OAuthConnected
		if len(next.Wanted) > 0 {
			g.Status = action.OAuthReconnect
		}
		return o.store(ctx, c, g, next)
	case !errors.Is(err, errDead) && !(errors.As(err, &no) && no.final() && k.fits(c)):
		return nil, err
	}
	// Another instance may have renewed it while this one had lost the lock.
	if now, readErr := o.reread(ctx, place{c.Organization, c.ID}); readErr == nil && now.kept != nil && now.kept.IssuedAt.After(k.IssuedAt) {
		return now.kept, nil
	}
	return nil, o.bury(ctx, c, g, k, no)
}

// ask gets new tokens for the connector.
func (o *OAuth) ask(ctx context.Context, c *action.Connector, g action.OAuthGrant, k *kept) (*kept, error) {
	r, err := o.reach(c.URL)
	if err != nil {
		return nil, err
	}
	if c.OAuth.Kind == action.OAuthClient {
		return o.askForItself(ctx, r, c, k)
	}
	if err := ended(c, g, k); err != nil {
		return nil, err
	}
	if k.Refresh == "" {
		return nil, errDead
	}
	next := *k
	return &next, r.exchange(ctx, c.Organization, &next, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {k.Refresh}})
}

// askForItself gets a token by client credentials.
func (o *OAuth) askForItself(ctx context.Context, r reach, c *action.Connector, k *kept) (*kept, error) {
	next := &kept{}
	if k.fits(c) && k.Access != "" {
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
		form["scope"] = []string{joined(next.Scopes)}
	}
	next.Granted = next.Scopes
	return next, r.exchange(ctx, c.Organization, next, form)
}

// store writes new tokens. They may be the only good ones, so that a failure
// is not taken for an answer at once.
func (o *OAuth) store(ctx context.Context, c *action.Connector, g action.OAuthGrant, k *kept) (*kept, error) {
	at := place{c.Organization, c.ID}
	for attempt := 1; ; attempt++ {
		err := o.write(ctx, g, k)
		if err == nil {
			o.forget(at)
			return k, nil
		}
		if errors.Is(err, action.ErrConflict) {
			if now, err := o.reread(ctx, at); err == nil && o.good(c, now.kept) {
				return now.kept, nil
			}
		}
		if attempt == 3 || errors.Is(err, action.ErrConflict) {
			o.Log.Error("writing renewed tokens", "connector", c.ID, "error", err)
			return nil, unread(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(attempt) * 200 * time.Millisecond):
		}
	}
}

// bury writes down that the tokens are of no use any more, and why.
func (o *OAuth) bury(ctx context.Context, c *action.Connector, g action.OAuthGrant, k *kept, no *refusal) error {
	dead := *k
	dead.Access, dead.Refresh, dead.ExpiresAt = "", "", time.Time{}
	g.Status, g.Reason = action.OAuthReconnect, "The access token ended, and there is none to renew it with."
	if no != nil {
		g.Reason = "The authorization server does not renew the sign-in any more (" + no.code + ")."
		if no.code == "invalid_client" || no.code == "unauthorized_client" {
			g.Reason = "The authorization server does not take the gateway's client any more (" + no.code + "); check the connector's client id and secret."
			dead.Client = client{}
		}
	}
	if err := o.write(ctx, g, &dead); err != nil {
		o.Log.Error("writing that a sign-in ended", "connector", c.ID, "error", err)
	}
	o.forget(place{c.Organization, c.ID})
	o.Log.Warn("a sign-in ended", "connector", c.ID, "reason", g.Reason)
	e := signIn(c, g.Reason)
	e.Err = errDead
	return e
}

// young is the age at which a token that is refused is not renewed: the next
// one would be refused as well.
const young = 10 * time.Second

// Refused is told that the connector's server refused the token with a status
// and the headers WWW-Authenticate. again reports whether the request is worth
// another try with what [OAuth.Token] returns then. An error says what is to be
// done instead, of kind ErrUnavailable; nil: nothing that is known here.
func (o *OAuth) Refused(ctx context.Context, c action.Connector, used string, status int, challenges []string) (again bool, err error) {
	if c.OAuth == nil {
		return false, nil
	}
	ch := readChallenge(challenges)
	switch {
	case status == http.StatusForbidden && ch.problem == "insufficient_scope":
		return o.insufficient(ctx, &c, used, ch.scopes)
	case status == http.StatusUnauthorized:
		return o.unauthorized(ctx, &c, used)
	}
	return false, nil
}

// unauthorized replaces a token that is not taken any more.
func (o *OAuth) unauthorized(ctx context.Context, c *action.Connector, used string) (bool, error) {
	fault := false
	_, err := o.renew(ctx, c, func(k *kept) bool {
		stale := k != nil && k.Access == used
		fault = stale && o.Now().Sub(k.IssuedAt) < young
		return stale && !fault
	})
	if fault {
		return false, action.Errorf(action.ErrUnavailable, sources.FaultAuth,
			"The server refuses a token that its authorization server has just given; try again in a minute, and sign in to %q again if that does not help.", c.Name)
	}
	return err == nil, err
}

// insufficient remembers the scopes that the server wants. A person must agree
// to them, since it is a person's sign-in; until then the token stays in use
// for what it is good for.
func (o *OAuth) insufficient(ctx context.Context, c *action.Connector, used string, wanted []string) (again bool, err error) {
	what := "more rights than it has"
	if len(wanted) > 0 {
		what = "the scopes " + sources.Printable(joined(wanted), 200)
	}
	if c.OAuth.Kind == action.OAuthClient {
		return false, action.Errorf(action.ErrUnavailable, sources.FaultAuth, "The server wants %s; add them to the scopes of the connector's OAuth settings.", what)
	}
	at := place{c.Organization, c.ID}
	err = o.alone(ctx, at, func() error {
		h, err := o.reread(ctx, at)
		if err != nil {
			return unread(err)
		}
		g, k := h.grant, h.kept
		if again = k != nil && k.Access != used && k.Access != ""; again || k == nil {
			return nil
		}
		next := *k
		next.Wanted = scopes(k.Wanted, wanted)
		if g.Status == action.OAuthReconnect && slices.Equal(next.Wanted, k.Wanted) {
			return nil
		}
		g.Status, g.Reason = action.OAuthReconnect, "The server wants "+what+"."
		defer o.forget(at)
		return o.write(ctx, g, &next)
	})
	if again && err == nil {
		return true, nil
	}
	if err != nil && !errors.Is(err, action.ErrConflict) {
		o.Log.Error("writing that scopes are wanted", "connector", c.ID, "error", err)
	}
	return false, signIn(c, "The server wants "+what+".")
}

func joined(scopes []string) string { return strings.Join(scopes, " ") }
