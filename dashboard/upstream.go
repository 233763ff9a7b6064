package dashboard

import (
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

func upstreamApply(u *api.Upstream, c *action.Connector) {
	apply(c, u, "MayAsk", "OAuth")
	set(&c.TimeoutSeconds, u.Timeout)
	if u.MayAsk != nil {
		c.MayAsk = slices.DeleteFunc(action.AskKinds(), func(k action.AskKind) bool { return !slices.Contains(*u.MayAsk, k) })
	}
	if u.OAuth != nil {
		c.OAuth = newOAuthSettings(u.OAuth)
	}
	credential := c.Secret != "" || u.SecretValue != ""
	if credential && u.Prefix == nil && c.Prefix == "" && (c.Header == "" || strings.EqualFold(c.Header, "Authorization")) {
		c.Prefix = "Bearer "
	}
}

func newOAuthSettings(o *api.NewOAuth) *action.OAuthSettings {
	if o.Kind == "none" {
		return nil
	}
	return &action.OAuthSettings{
		Kind: action.OAuthKind(o.Kind), ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes, Issuer: o.Issuer,
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
