package credential

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// Bounds of the scopes that a server may ask for.
const (
	maxScopes = 64
	maxScope  = 256 // characters of one
)

// challenge is what a server says in WWW-Authenticate.
type challenge struct {
	metadata string // URL of its resource metadata
	problem  string // error code
	scopes   []string
}

// readChallenge reads the headers; one that is malformed is passed over.
func readChallenge(headers []string) (c challenge) {
	for _, h := range headers {
		list, err := oauthex.ParseWWWAuthenticate([]string{h})
		if err != nil {
			continue
		}
		for _, one := range list {
			if one.Scheme != "bearer" {
				continue
			}
			c.metadata = cmp.Or(c.metadata, one.Params["resource_metadata"])
			c.problem = cmp.Or(c.problem, one.Params["error"])
			if len(c.scopes) == 0 {
				c.scopes = scopes(strings.Fields(one.Params["scope"]))
			}
		}
	}
	return c
}

// scopes returns those of the lists that are formed like scopes, each once, in
// order, and not more than a server may ask for.
func scopes(lists ...[]string) (all []string) {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
	for _, list := range lists {
		for _, s := range list {
			if s != "" && len(s) <= maxScope && !strings.ContainsFunc(s, odd) && len(all) < maxScopes && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// protection is what a server says of how it is protected.
type protection struct {
	resource string
	issuers  []string
	scopes   []string
	// legacy: it says nothing, so that its own origin is the authorization
	// server, as it was in the version 2025-03-26 of MCP.
	legacy bool
}

const resourceWellKnown = "/.well-known/oauth-protected-resource"

// probe asks the server without a credential for its challenge. What it asks
// has no effect, and makes no session.
func (r reach) probe(ctx context.Context, plain map[string]string) (challenge, error) {
	header := http.Header{
		"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"server/discover"},
	}
	for name, value := range plain {
		header.Set(name, value)
	}
	body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"sallyport","version":"1"}}}}`)
	a, err := r.post(ctx, r.server.String(), "connector's URL", "application/json", body, header)
	var odd *action.Error
	switch {
	case errors.As(err, &odd) && odd.Code == codeDiscovery:
		return challenge{}, nil // a long page, say: what there is to know is at the well-known places
	case err != nil || a.status != http.StatusUnauthorized:
		return challenge{}, err
	}
	return readChallenge(a.header.Values("WWW-Authenticate")), nil
}

// protection finds the server's resource metadata: where the challenge says,
// at the well-known place of its path, or at that of its root.
func (r reach) protection(ctx context.Context, ch challenge) (*protection, error) {
	const what = "resource metadata"
	places := []string{ch.metadata, wellKnown(r.server, resourceWellKnown, r.server.Path), wellKnown(r.server, resourceWellKnown, "")}
	var other string
	for i, place := range places {
		if place == "" || slices.Contains(places[:i], place) {
			continue
		}
		var meta oauthex.ProtectedResourceMetadata
		found, err := r.document(ctx, place, what, &meta)
		switch {
		case err != nil:
			return nil, err
		case !found:
			continue
		case !r.covers(meta.Resource, place):
			other = cmp.Or(other, "“"+sources.Printable(meta.Resource, 200)+"”")
			continue
		case len(meta.AuthorizationServers) == 0:
			return nil, unusable("The server's resource metadata names no authorization server; its operator must name one.")
		}
		return &protection{resource: meta.Resource, issuers: meta.AuthorizationServers, scopes: scopes(meta.ScopesSupported)}, nil
	}
	if other != "" {
		return nil, unusable("The server's resource metadata is for %s, not for the connector's URL; set the connector's URL to that, if it is the right one.", other)
	}
	return &protection{resource: r.canonical(), issuers: []string{r.server.Scheme + "://" + r.server.Host}, legacy: true}, nil
}

// covers reports whether the resource is the server. One that is wider, such
// as its whole host, is believed only where it would itself be asked: else one
// tenant of a host could have tokens for all of them.
func (r reach) covers(resource, place string) bool {
	its, wider, ok := within(r.server, resource)
	return ok && (!wider || place == wellKnown(r.server, resourceWellKnown, its))
}

// within reports whether a server is of a resource, whose path is its, and
// whether the resource is the wider of the two.
func within(server *url.URL, resource string) (its string, wider, ok bool) {
	u, err := guard.CheckURL(resource)
	if err != nil || u.Scheme != server.Scheme || guard.Host(u) != guard.Host(server) || u.RawQuery != "" && u.RawQuery != server.RawQuery {
		return "", false, false
	}
	mine, its := strings.TrimSuffix(server.Path, "/"), strings.TrimSuffix(u.Path, "/")
	wider = mine != its
	return its, wider, !wider || strings.HasPrefix(path.Clean(mine), its+"/") // /a/../b is not of /a
}

// canonical is the server's URL as a resource is named.
func (r reach) canonical() string {
	u := url.URL{Scheme: r.server.Scheme, Host: r.server.Host, Path: r.server.Path}
	return u.String()
}

// wellKnown returns the URL of a well-known place of u's host, for a path.
func wellKnown(u *url.URL, place, path string) string {
	path = strings.Trim(path, "/")
	if path != "" {
		path = "/" + path
	}
	w := url.URL{Scheme: u.Scheme, Host: u.Host, Path: place + path}
	return w.String()
}

// choose returns the authorization server to use: the configured one, or the
// one that was used before if the server still names it, or the first.
func (p *protection) choose(s *action.OAuthSettings, before string) (string, error) {
	if s.Issuer != "" {
		return s.Issuer, nil
	}
	if before == "" {
		return p.issuers[0], nil
	}
	i := slices.IndexFunc(p.issuers, func(issuer string) bool {
		return sameIssuer(issuer, before) || p.legacy && hostOf(issuer) == hostOf(before)
	})
	if i < 0 {
		e := action.Errorf(action.ErrConflict, codeMoved,
			"The server names the authorization server %s now, and people signed in at %s before; if it has moved there, set it as the issuer of the connector's OAuth settings and sign in again.",
			sources.Printable(p.issuers[0], 200), sources.Printable(before, 200))
		e.Field = "/oauth/issuer"
		return "", e
	}
	return p.issuers[i], nil
}

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
