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
