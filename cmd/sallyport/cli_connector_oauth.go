package main

import (
	"context"
	"errors"
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

type connectorSignIn struct {
	named
	Wait time.Duration `placeholder:"D" help:"Wait this long until somebody did it, at most 10m, such as 5m."`
}

// Run prints where to sign in. It needs a browser that is signed in to
// Sallyport as the same person: nobody else can finish it.
func (c *connectorSignIn) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	before, err := c.now(ctx, server)
	if err != nil {
		return err
	}
	var link struct {
		URL string `json:"authorize_url"`
	}
	raw, err := server.change(ctx, http.MethodPost, connectorPath(c.Name)+"/sign-in", nil, &link)
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) {
		fmt.Fprintln(std.Err, "open this within ten minutes, in a browser that is signed in to Sallyport as you:")
		fmt.Fprintln(w, visible(link.URL))
	}); err != nil || c.Wait <= 0 {
		return err
	}
	return c.until(ctx, std, server, before)
}

// until waits for tokens that are not those from before.
func (c *connectorSignIn) until(ctx context.Context, std *stdio, server *client, before signedIn) error {
	ctx, stop := context.WithTimeout(ctx, min(c.Wait, 10*time.Minute))
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody signed in within %s; the URL is good for ten minutes, and then: %s", c.Wait, c.hint("connector", "sign-in", c.Name))
		case <-time.After(time.Second):
		}
		now, err := c.now(ctx, server)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
		case err != nil:
			return err
		case now.Status == action.OAuthConnected && now != before:
			said("connector " + c.Name + " is connected to " + now.Issuer)(std.Err)
			return nil
		}
	}
}

// now is what is known of the tokens.
func (c *connectorSignIn) now(ctx context.Context, server *client) (signedIn, error) {
	var row connectorRow
	_, err := server.read(ctx, connectorPath(c.Name), nil, &row)
	if err != nil || row.SignedIn == nil {
		return signedIn{}, err
	}
	return *row.SignedIn, nil
}

type connectorSignOut struct{ named }

func (c *connectorSignOut) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	raw, err := server.change(ctx, http.MethodPost, connectorPath(c.Name)+"/sign-out", nil, nil)
	if err != nil {
		return err
	}
	return c.print(std, raw, said("the tokens of connector "+c.Name+" are forgotten"))
}
