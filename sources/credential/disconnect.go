package credential

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
)

// Disconnect gives the connector's tokens back where the authorization server
// takes them (RFC 7009), and removes them in any case. by is the person who
// wants it.
func (o *OAuth) Disconnect(ctx context.Context, c action.Connector, by string) error {
	at := place{c.Organization, c.ID}
	return o.alone(ctx, at, func() error {
		_, k, err := o.readGrant(ctx, c.Organization, c.ID)
		if err != nil {
			o.Log.Warn("tokens are removed that cannot be given back", "connector", c.ID, "error", err)
		}
		if k != nil {
			o.revoke(ctx, &c, k)
		}
		defer o.forget(at)
		return o.Store.DeleteOAuthGrant(ctx, c.Organization, c.ID, by)
	})
}

// revoke tells the authorization server that the tokens are not needed. The
// refresh token goes first: most servers end what came of it, too. The client's
// secret is bound to the host of the token endpoint.
func (o *OAuth) revoke(ctx context.Context, c *action.Connector, k *kept) {
	r, err := o.reach(k.Server)
	if err != nil || k.Revoke == "" || hostOf(k.Revoke) != hostOf(k.Token) {
		return
	}
	for _, token := range []struct{ value, kind string }{{k.Refresh, "refresh_token"}, {k.Access, "access_token"}} {
		if token.value == "" {
			continue
		}
		form, header := url.Values{"token": {token.value}, "token_type_hint": {token.kind}}, http.Header{}
		err := r.prove(ctx, c.Organization, &k.target, form, header)
		if err == nil {
			_, err = r.post(ctx, k.Revoke, "revocation endpoint", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), header)
		}
		if err != nil {
			o.Log.Warn("a token could not be given back", "connector", c.ID, "error", err)
			return
		}
	}
}
