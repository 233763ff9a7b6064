package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"sallyport/action"
)

// signedIn is what is known of a connector's tokens.
type signedIn struct {
	Status    action.OAuthStatus `json:"status"`
	Reason    string             `json:"reason"`
	Issuer    string             `json:"issuer"`
	Scope     string             `json:"scope"`
	ExpiresAt time.Time          `json:"expires_at"`
	By        string             `json:"by"`
}

// signInLife is how long a URL to sign in is good.
const signInLife = 10 * time.Minute

// signInLink is where a person signs in.
type signInLink struct {
	URL    string `json:"authorize_url"`
	Host   string `json:"host"`
	Issuer string `json:"issuer"` // where its host is another
	Known  bool   `json:"known"`  // somebody said so before the connector's server did
}

// leads says where the link goes.
func (l signInLink) leads() string {
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
	named
	Wait time.Duration `placeholder:"D" help:"Wait this long until somebody did it, at most 10m, such as 5m."`
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
	before, err := c.now(ctx, server)
	if err != nil {
		return err
	}
	if before.OAuth["kind"] != string(action.OAuthCode) {
		return before.nobody("signs in", &c.remote)
	}
	var link signInLink
	raw, err := server.change(ctx, http.MethodPost, connectorPath(c.Name)+"/sign-in", nil, &link)
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) {
		fmt.Fprintln(std.Err, link.leads())
		fmt.Fprintln(std.Err, "open this within ten minutes, in a browser that is signed in to Sallyport as you:")
		fmt.Fprintln(w, visible(link.URL))
	}); err != nil || c.Wait <= 0 {
		return err
	}
	return c.until(ctx, std, server, before.grant())
}

// until waits for tokens that are not those from before.
func (c *connectorSignIn) until(ctx context.Context, std *stdio, server *client, before signedIn) error {
	waiting, end := context.WithTimeout(ctx, c.Wait)
	defer end()
	for {
		select {
		case <-waiting.Done():
			return c.ended(ctx)
		case <-time.After(time.Second):
		}
		row, err := c.now(waiting, server)
		if waiting.Err() != nil {
			return c.ended(ctx)
		}
		if err != nil {
			return err
		}
		if now := row.grant(); now.Status == action.OAuthConnected && now != before {
			said("connector " + c.Name + " is connected to " + now.Issuer)(std.Err)
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
	return fmt.Errorf("%s; the URL is good for ten minutes, and then: %s", why, visible(c.hint("connector", "sign-in", c.Name)))
}

// now is the connector as it is.
func (c *named) now(ctx context.Context, server *client) (row connectorRow, err error) {
	_, err = server.read(ctx, connectorPath(c.Name), nil, &row)
	return row, err
}

// grant is what is known of the tokens.
func (c *connectorRow) grant() signedIn {
	if c.SignedIn == nil {
		return signedIn{}
	}
	return *c.SignedIn
}

// nobody says of a connector without a person's sign-in why, and what to do.
func (c *connectorRow) nobody(does string, r *remote) error {
	why := "it has no OAuth; change that first with: " + r.hint("connector", "update", c.Name, "--oauth", "code")
	if c.OAuth["kind"] == string(action.OAuthClient) {
		why = "the gateway does so by itself; when the service refuses it, set its secret again with: " + r.hint("secret", "set", c.key(), "--host", "HOST")
	}
	return fmt.Errorf("nobody %s to connector %s: %s", does, visible(c.Name), visible(why))
}

type connectorSignOut struct{ named }

// signedOut reports whether there are no tokens to forget.
func (c *connectorRow) signedOut() bool {
	return c.SignedIn == nil || c.SignedIn.Status != action.OAuthConnected && c.SignedIn.Status != action.OAuthReconnect
}

func (c *connectorSignOut) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	now, err := c.now(ctx, server)
	switch {
	case err != nil:
		return err
	case now.OAuth == nil, now.OAuth["kind"] == string(action.OAuthClient) && now.signedOut():
		return now.nobody("is signed in", &c.remote)
	case now.signedOut():
		return fmt.Errorf("nobody is signed in to connector %s; sign in first: %s", visible(now.Name), visible(c.hint("connector", "sign-in", now.Name)))
	}
	raw, err := server.change(ctx, http.MethodPost, connectorPath(c.Name)+"/sign-out", nil, nil)
	if err != nil {
		return err
	}
	return c.print(std, raw, said("the tokens of connector "+c.Name+" are forgotten"))
}
