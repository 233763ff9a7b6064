package credential

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"sallyport/action"
	"sallyport/sources"
)

// authority finds the metadata of an authorization server and checks what
// will be used of it.
func (r reach) authority(ctx context.Context, issuer string, kind action.OAuthKind, legacy bool) (*oauthex.AuthServerMeta, error) {
	const what = "authorization server"
	u, err := r.check(issuer, what)
	if err != nil {
		return nil, err
	}
	for _, place := range authorityPlaces(u) {
		var meta oauthex.AuthServerMeta
		found, err := r.document(ctx, place, what+"'s metadata", &meta)
		if err != nil {
			return nil, err
		}
		if found {
			return r.accept(&meta, issuer, kind, legacy)
		}
	}
	if !legacy {
		return nil, unusable("The authorization server %s has no metadata at any of the usual places; check the issuer.", sources.Printable(issuer, 200))
	}
	base := strings.TrimSuffix(issuer, "/")
	return &oauthex.AuthServerMeta{
		Issuer: issuer, AuthorizationEndpoint: base + "/authorize", TokenEndpoint: base + "/token", RegistrationEndpoint: base + "/register",
	}, nil
}

// authorityPlaces are where the metadata of an issuer may be, by RFC 8414 and
// by OpenID Connect.
func authorityPlaces(u *url.URL) []string {
	places := []string{
		wellKnown(u, "/.well-known/oauth-authorization-server", u.Path),
		wellKnown(u, "/.well-known/openid-configuration", u.Path),
	}
	if path := strings.TrimSuffix(u.Path, "/"); path != "" {
		places = append(places, wellKnown(u, path+"/.well-known/openid-configuration", ""))
	}
	return places
}

// accept checks metadata. Of servers that are their own authorization server
// some give it a path of its own.
func (r reach) accept(m *oauthex.AuthServerMeta, issuer string, kind action.OAuthKind, legacy bool) (*oauthex.AuthServerMeta, error) {
	shown := sources.Printable(issuer, 200)
	if !sameIssuer(m.Issuer, issuer) && !(legacy && hostOf(m.Issuer) == hostOf(issuer)) {
		return nil, unusable("The authorization server %s says of itself that it is another (%s); its operator must mend that.", shown, sources.Printable(m.Issuer, 200))
	}
	if _, err := r.check(m.TokenEndpoint, "token endpoint"); err != nil {
		return nil, err
	}
	if kind == action.OAuthClient {
		return m, nil
	}
	if _, err := r.check(m.AuthorizationEndpoint, "authorization endpoint"); err != nil {
		return nil, err
	}
	if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		return nil, unusable("The authorization server %s does not say that it supports PKCE with S256, without which a sign-in is not safe; its operator must turn it on.", shown)
	}
	return m, nil
}
