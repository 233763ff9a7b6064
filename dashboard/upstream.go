package dashboard

import (
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

func upstreamApply(u *api.Upstream, c *action.Connector) {
	set(&c.URL, u.URL)
	set(&c.Header, u.Header)
	set(&c.Prefix, u.Prefix)
	set(&c.Secret, u.Secret)
	set(&c.Headers, u.Headers)
	set(&c.PerAgent, u.PerAgent)
	set(&c.TimeoutSeconds, u.Timeout)
	set(&c.DefaultRisk, u.DefaultRisk)
	set(&c.Risks, u.Risks)
	set(&c.Review, u.Review)
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
