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

// Limits on the scopes that a server can ask for.
const (
	maxScopes = 64
	maxScope  = 256 // characters of one scope
)

// challenge is the content of WWW-Authenticate.
type challenge struct {
	metadata string // URL of the resource metadata
	problem  string // error code
	scopes   []string
}

// readChallenge parses the headers and skips malformed ones.
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

// scopes returns the valid scopes of the lists, deduplicated, in order and
// limited in number.
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

// resourceInfo describes how a server is protected.
type resourceInfo struct {
	resource string
	issuers  []string
	scopes   []string
	// legacy: there is no metadata, so that the server's own origin is the
	// authorization server, as in MCP version 2025-03-26.
	legacy bool
}

const resourceWellKnown = "/.well-known/oauth-protected-resource"

// probe requests the challenge of the server, without a credential. The request
// has no effect and creates no session.
func (r oauthClient) probe(ctx context.Context, plain map[string]string) (challenge, error) {
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
		return challenge{}, nil // such as a large page: continue with the well-known URLs
	case err != nil || a.status != http.StatusUnauthorized:
		return challenge{}, err
	}
	return readChallenge(a.header.Values("WWW-Authenticate")), nil
}

// resourceMetadata fetches the server's resource metadata: from the URL in the
// challenge, from the well-known URL for its path, or from that for its root.
func (r oauthClient) resourceMetadata(ctx context.Context, ch challenge) (*resourceInfo, error) {
	const what = "resource metadata"
	places := []string{ch.metadata, wellKnown(r.server, resourceWellKnown, r.server.Path), wellKnown(r.server, resourceWellKnown, "")}
	var other string
	for i, place := range places {
		if place == "" || slices.Contains(places[:i], place) {
			continue
		}
		var meta oauthex.ProtectedResourceMetadata
		found, err := r.getDocument(ctx, place, what, &meta)
		// A wider resource, such as the whole host, is accepted only from its own
		// well-known URL: otherwise one tenant of a host could obtain tokens for all.
		its, wider, covers := resourceCovers(r.server, meta.Resource)
		covers = covers && (!wider || place == wellKnown(r.server, resourceWellKnown, its))
		switch {
		case err != nil:
			return nil, err
		case !found:
			continue
		case !covers:
			other = cmp.Or(other, "“"+sources.Printable(meta.Resource, 200)+"”")
			continue
		case len(meta.AuthorizationServers) == 0:
			return nil, discoveryError("The server's resource metadata names no authorization server. Its operator must add one.")
		}
		return &resourceInfo{resource: meta.Resource, issuers: meta.AuthorizationServers, scopes: scopes(meta.ScopesSupported)}, nil
	}
	if other != "" {
		return nil, discoveryError("The server's resource metadata is for %s, not for the connector's URL. If that URL is correct, set it as the connector's URL.", other)
	}
	own := url.URL{Scheme: r.server.Scheme, Host: r.server.Host, Path: r.server.Path}
	return &resourceInfo{resource: own.String(), issuers: []string{r.server.Scheme + "://" + r.server.Host}, legacy: true}, nil
}

// resourceCovers reports whether a resource, whose path is its, includes a
// server, and whether it is wider than the server.
func resourceCovers(server *url.URL, resource string) (its string, wider, ok bool) {
	u, err := guard.CheckURL(resource)
	if err != nil || u.Scheme != server.Scheme || guard.Host(u) != guard.Host(server) || u.RawQuery != "" && u.RawQuery != server.RawQuery {
		return "", false, false
	}
	mine, its := strings.TrimSuffix(server.Path, "/"), strings.TrimSuffix(u.Path, "/")
	wider = mine != its
	return its, wider, !wider || strings.HasPrefix(path.Clean(mine), its+"/") // /a/../b is not below /a
}

// wellKnown returns a well-known URL on u's host, for a path.
func wellKnown(u *url.URL, place, path string) string {
	path = strings.Trim(path, "/")
	if path != "" {
		path = "/" + path
	}
	w := url.URL{Scheme: u.Scheme, Host: u.Host, Path: place + path}
	return w.String()
}

// chooseIssuer returns the authorization server to use: the configured one, the
// previous one if the server still names it, or the first.
func (p *resourceInfo) chooseIssuer(s *action.OAuthSettings, before string) (string, error) {
	if s.Issuer != "" {
		return s.Issuer, nil
	}
	if before == "" {
		return p.issuers[0], nil
	}
	i := slices.IndexFunc(p.issuers, func(issuer string) bool {
		return sameIssuer(issuer, before) || p.legacy && hostKey(issuer) == hostKey(before)
	})
	if i < 0 {
		e := action.Errorf(action.ErrConflict, codeMoved,
			"The server now names the authorization server %s, but people signed in at %s before. If it has moved there, set it as the issuer of the connector's OAuth settings and sign in again.",
			sources.Printable(p.issuers[0], 200), sources.Printable(before, 200))
		e.Field = "/oauth/issuer"
		return "", e
	}
	return p.issuers[i], nil
}

// serverMetadata fetches the metadata of an authorization server and validates
// the parts in use.
func (r oauthClient) serverMetadata(ctx context.Context, issuer string, kind action.OAuthKind, legacy bool) (*oauthex.AuthServerMeta, error) {
	const what = "authorization server"
	u, err := r.checkEndpoint(issuer, what)
	if err != nil {
		return nil, err
	}
	for _, place := range metadataURLs(u) {
		var meta oauthex.AuthServerMeta
		found, err := r.getDocument(ctx, place, what+"'s metadata", &meta)
		if err != nil {
			return nil, err
		}
		if found {
			return r.checkMetadata(&meta, issuer, kind, legacy)
		}
	}
	if !legacy {
		return nil, discoveryError("The authorization server %s has no metadata at any well-known URL. Check the issuer.", sources.Printable(issuer, 200))
	}
	base := strings.TrimSuffix(issuer, "/")
	return &oauthex.AuthServerMeta{
		Issuer: issuer, AuthorizationEndpoint: base + "/authorize", TokenEndpoint: base + "/token", RegistrationEndpoint: base + "/register",
	}, nil
}

// metadataURLs returns the URLs of an issuer's metadata, by RFC 8414 and by
// OpenID Connect.
func metadataURLs(u *url.URL) []string {
	places := []string{
		wellKnown(u, "/.well-known/oauth-authorization-server", u.Path),
		wellKnown(u, "/.well-known/openid-configuration", u.Path),
	}
	if path := strings.TrimSuffix(u.Path, "/"); path != "" {
		places = append(places, wellKnown(u, path+"/.well-known/openid-configuration", ""))
	}
	return places
}

// checkMetadata validates metadata. Some servers that are their own
// authorization server give it a path of its own.
func (r oauthClient) checkMetadata(m *oauthex.AuthServerMeta, issuer string, kind action.OAuthKind, legacy bool) (*oauthex.AuthServerMeta, error) {
	shown := sources.Printable(issuer, 200)
	if !sameIssuer(m.Issuer, issuer) && !(legacy && hostKey(m.Issuer) == hostKey(issuer)) {
		return nil, discoveryError("The authorization server %s identifies itself as %s. Its operator must fix its metadata.", shown, sources.Printable(m.Issuer, 200))
	}
	if _, err := r.checkEndpoint(m.TokenEndpoint, "token endpoint"); err != nil {
		return nil, err
	}
	if kind == action.OAuthClient {
		return m, nil
	}
	if _, err := r.checkEndpoint(m.AuthorizationEndpoint, "authorization endpoint"); err != nil {
		return nil, err
	}
	if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		return nil, discoveryError("The authorization server %s does not support PKCE with S256, which a safe sign-in requires. Its operator must enable it.", shown)
	}
	return m, nil
}
