package main

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"time"

	"sallyport/action"
	"sallyport/api"
)

// signInLife is how long a URL to sign in is good.
const signInLife = 10 * time.Minute

// destination says where the link leads.
func destination(l *api.SignInLink) string {
	to := "it leads to " + visible(l.Host)
	if l.Issuer != "" {
		to += ", for the authorization server " + visible(l.Issuer)
	}
	if l.Known {
		return to
	}
	return to + "; go there only if you know it as the service's: the connector's server named it"
}

type connectorSignIn struct {
	theConnector
	Wait time.Duration `placeholder:"D" help:"Wait for the sign-in, at most 10m."`
}

// Run prints where to sign in. It needs a browser that is signed in to
// Sallyport as the same person: nobody else can finish it.
func (c *connectorSignIn) Run(ctx context.Context, std *stdio) error {
	if c.Wait < 0 || c.Wait > signInLife {
		return wrongUse("--wait is a time of at most 10m: no URL to sign in is good for longer")
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	before, _, err := fetch(ctx, server, api.GetConnector, c.ref())
	if err != nil {
		return err
	}
	if !hasOAuth(before, action.OAuthCode) {
		return c.nobody(before, "signs in")
	}
	link, raw, err := fetch(ctx, server, api.SignInConnector, c.ref())
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) {
		fmt.Fprintln(std.Err, destination(link))
		fmt.Fprintln(std.Err, "open this within ten minutes, in a browser that is signed in to Sallyport as you:")
		fmt.Fprintln(w, visible(link.AuthorizeURL))
	}); err != nil || c.Wait <= 0 {
		return err
	}
	return c.until(ctx, std, server, before.OAuthStatus)
}

// until waits for tokens that are not those from before.
func (c *connectorSignIn) until(ctx context.Context, std *stdio, server *client, before *api.OAuthStatus) error {
	waiting, end := context.WithTimeout(ctx, c.Wait)
	defer end()
	for {
		select {
		case <-waiting.Done():
			return c.ended(ctx)
		case <-time.After(time.Second):
		}
		now, _, err := fetch(waiting, server, api.GetConnector, c.ref())
		if waiting.Err() != nil {
			return c.ended(ctx)
		}
		if err != nil {
			return err
		}
		if signedIn(now, action.OAuthConnected) && !reflect.DeepEqual(now.OAuthStatus, before) {
			said("connector " + c.Ref + " is connected to " + now.OAuthStatus.Issuer)(std.Err)
			return nil
		}
	}
}

// ended says why the wait is over: of ctx, by a signal.
func (c *connectorSignIn) ended(ctx context.Context) error {
	why := "nobody signed in within " + c.Wait.String()
	if ctx.Err() != nil {
		why = "stopped before anybody signed in"
	}
	return fmt.Errorf("%s; the URL is good for ten minutes, and then: %s", why, visible(c.hint("connector", "sign-in", c.Ref)))
}

// hasOAuth reports whether tokens of this kind are sent to the connector.
func hasOAuth(c *api.ConnectorView, kind action.OAuthKind) bool {
	return c.OAuth != nil && c.OAuth.Kind == kind
}

// signedIn reports whether the tokens of the connector are like this.
func signedIn(c *api.ConnectorView, as action.OAuthStatus) bool {
	return c.OAuthStatus != nil && c.OAuthStatus.Status == string(as)
}

// nobody says of a connector without a person's sign-in why, and what to do.
func (r *remote) nobody(c *api.ConnectorView, does string) error {
	why := "it has no OAuth; change that first with: " + r.hint("connector", "update", c.Name, "--oauth", "code")
	if hasOAuth(c, action.OAuthClient) {
		why = "the gateway does so by itself; when the service refuses it, set its secret again with: " + r.hint("secret", "set", connectorKey(c), "--host", "HOST")
	}
	return fmt.Errorf("nobody %s to connector %s: %s", does, visible(c.Name), visible(why))
}

type connectorSignOut struct{ theConnector }

func (c *connectorSignOut) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	now, _, err := fetch(ctx, server, api.GetConnector, c.ref())
	signedOut := !signedIn(now, action.OAuthConnected) && !signedIn(now, action.OAuthReconnect)
	switch {
	case err != nil:
		return err
	case now.OAuth == nil, hasOAuth(now, action.OAuthClient) && signedOut:
		return c.nobody(now, "is signed in")
	case signedOut:
		return fmt.Errorf("nobody is signed in to connector %s; sign in first: %s", visible(now.Name), visible(c.hint("connector", "sign-in", now.Name)))
	}
	return perform(ctx, &c.remote, std, api.SignOutConnector, c.ref(), done("the tokens of connector "+c.Ref+" are forgotten"))
}
