package credential

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

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
