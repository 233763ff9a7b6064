package dashboard

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"sallyport/action"
	"sallyport/internal/guard"
)

// OIDC configures sign-in with an OpenID provider. Its endpoints are discovered
// at the first sign-in, so that an unreachable provider does not affect the
// rest of the gateway.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string                 // empty for a public client
	Name         string                 // on the button; defaults to the issuer's host
	Scopes       []string               // besides openid; defaults to profile and email
	Organization string                 // of all users of this provider
	RoleClaim    string                 // a string or a list of strings, by a path with dots; may be empty
	RoleMap      map[string]action.Role // by value of that claim
	DefaultRole  action.Role            // without a match in the map; empty refuses the sign-in; never owner
	NameClaim    string                 // defaults to name, preferred_username, email or the subject
	Guard        guard.Config           // restricts the reachable addresses
}

const (
	flowLife         = 10 * time.Minute // of a sign-in at the provider
	discoveryTTL     = time.Hour        // of cached discovery documents
	discoveryBackoff = 5 * time.Second  // after a failed discovery
	clockSkew        = time.Minute      // tolerated between the provider's clock and ours
)

// check refuses a configuration that would admit the wrong people.
func (o *OIDC) check() error {
	if o == nil {
		return nil
	}
	_, err := checkIssuer("the issuer of OpenID Connect", o.Issuer)
	switch {
	case err != nil:
		return err
	case o.ClientID == "" || o.Organization == "":
		return errors.New("OpenID Connect needs a client id and an organization")
	case o.DefaultRole == action.RoleOwner:
		return errors.New("the default role of OpenID Connect cannot be owner: map a value of the role claim to it")
	case len(o.RoleMap) > 0 && o.RoleClaim == "":
		return errors.New("a role map of OpenID Connect needs a role claim")
	case len(o.RoleMap) == 0 && o.DefaultRole == "":
		return errors.New("OpenID Connect gives nobody a role: it needs a role claim with a map, or a default role")
	}
	for _, r := range slices.AppendSeq([]action.Role{cmp.Or(o.DefaultRole, action.RoleMember)}, maps.Values(o.RoleMap)) {
		if !r.Valid() {
			return fmt.Errorf("OpenID Connect gives the role %q; a role is owner, admin or member", r)
		}
	}
	return nil
}

// oidcProvider is the client of the OpenID provider.
type oidcProvider struct {
	OIDC
	client *http.Client
	now    func() time.Time

	mu        sync.Mutex
	known     *discoveryDocument
	fetchedAt time.Time // of the last discovery, successful or not
	lastError error
}

// discoveryDocument is the provider's discovery document.
type discoveryDocument struct {
	*oidc.Provider
	style oauth2.AuthStyle // of client authentication at the token endpoint
}

func newOIDCProvider(o *OIDC, now func() time.Time) (*oidcProvider, error) {
	if o == nil {
		return nil, nil
	}
	u, err := url.Parse(o.Issuer)
	if err != nil {
		return nil, err
	}
	p := &oidcProvider{OIDC: *o, now: now, client: newRestrictedClient(o.Guard, u)}
	p.Name = cmp.Or(p.Name, u.Host)
	if p.Scopes == nil {
		p.Scopes = []string{"profile", "email"}
	}
	return p, nil
}

// discover returns the discovery document. The cached one is used while it is
// refreshed, and when the provider does not answer.
func (p *oidcProvider) discover() (*discoveryDocument, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := p.now().Sub(p.fetchedAt)
	switch {
	case p.lastError != nil && age < discoveryBackoff && p.known == nil:
		return nil, p.lastError
	case p.known != nil && age < discoveryTTL:
		return p.known, nil
	case p.known != nil:
		p.fetchedAt = p.now()
		p.mu.Unlock()
		found, err := p.fetchDiscovery()
		p.mu.Lock()
		if err == nil {
			p.known = found
		}
		return p.known, nil
	}
	p.known, p.lastError = p.fetchDiscovery()
	p.fetchedAt = p.now()
	return p.known, p.lastError
}

// fetchDiscovery fetches and checks the discovery document.
func (p *oidcProvider) fetchDiscovery() (*discoveryDocument, error) {
	// The client outlives this request, because it fetches keys later.
	found, err := oidc.NewProvider(oidc.ClientContext(context.Background(), p.client), p.Issuer)
	if err != nil {
		return nil, err
	}
	// The library does not read this field.
	var more struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, err
	}
	if _, err := checkIssuer("the provider's authorization_endpoint", found.Endpoint().AuthURL); err != nil {
		return nil, err
	}
	// Trying one style after the other would consume the code.
	style := oauth2.AuthStyleInHeader
	if p.ClientSecret == "" || len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	return &discoveryDocument{found, style}, nil
}

// oauth returns the OAuth configuration of the client.
func (p *oidcProvider) oauth(found *discoveryDocument, callback string) *oauth2.Config {
	e := found.Endpoint()
	e.AuthStyle = found.style
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: e, RedirectURL: callback,
		Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...),
	}
}

// flow is a sign-in that is in progress at the provider. It is stored sealed in
// a cookie, so that only the browser that began it can complete it.
type flow struct {
	State     string    `json:"state"`
	Nonce     string    `json:"nonce"`
	Verifier  string    `json:"verifier"`
	Code      string    `json:"code"` // of the login link that completes it; single use
	Key       string    `json:"key"`
	Next      string    `json:"next,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

// identify exchanges the provider's code for an identity.
func (p *oidcProvider) identify(ctx context.Context, f flow, callback, code string) (action.Identity, error) {
	found, err := p.discover()
	if err != nil {
		return action.Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.oauth(found, callback).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		var answered *oauth2.RetrieveError
		if errors.As(err, &answered) && answered.Response != nil { // the body may repeat the request
			err = fmt.Errorf("the provider answered %d %.80q", answered.Response.StatusCode, answered.ErrorCode)
		}
		return action.Identity{}, fmt.Errorf("exchanging the code: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	// Only asymmetric algorithms: nobody can forge a token with public data.
	token, err := found.Verifier(&oidc.Config{
		ClientID: p.ClientID, SupportedSigningAlgs: []string{oidc.RS256, oidc.PS256, oidc.ES256, oidc.EdDSA}, Now: func() time.Time { return p.now().Add(-clockSkew) },
	}).Verify(ctx, raw)
	if err != nil {
		return action.Identity{}, err
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return action.Identity{}, err
	}
	_, hasParty := c["azp"]
	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(f.Nonce)) != 1:
		return action.Identity{}, errors.New("the nonce belongs to another sign-in")
	case hasParty && c.text("azp") != p.ClientID, !hasParty && len(token.Audience) != 1: // it may only list this client as an audience
		return action.Identity{}, errors.New("the token was issued to another client")
	}
	if err := checkSubject(token.Subject); err != nil {
		return action.Identity{}, err
	}
	var role action.Role // the highest that the map gives
	for _, v := range c.values(p.RoleClaim) {
		if r := p.RoleMap[v]; r != "" && (role == "" || lowerRole(r, role) == role) {
			role = r
		}
	}
	issuedAt := token.IssuedAt
	if now := p.now(); issuedAt.IsZero() || issuedAt.After(now) {
		issuedAt = now
	}
	return action.Identity{
		Organization: p.Organization, Issuer: p.Issuer, Subject: token.Subject, Name: c.name(p.NameClaim, token.Subject), Role: cmp.Or(role, p.DefaultRole),
		AssertedAt: issuedAt,
	}, nil
}

func flowRef(organization string) action.Ref {
	return action.Ref{Organization: organization, Table: "cookies", Row: "oidc", Column: "flow"}
}

const (
	maxPersonName = 120 // characters; the limit of local users too
	maxSubject    = 255 // bytes; the limit of OpenID Connect
)

// claims are the claims of a token.
type claims map[string]json.RawMessage

// text returns a string claim, or "".
func (c claims) text(name string) string {
	var text string
	if json.Unmarshal(c.at(name), &text) != nil {
		return ""
	}
	return text
}

// at returns a claim by its name, or by a path of names separated by dots, or
// nil. The name as a whole has precedence, because some names contain dots.
func (c claims) at(name string) json.RawMessage {
	if raw, ok := c[name]; ok {
		return raw
	}
	first, rest, nested := strings.Cut(name, ".")
	var inner claims
	if !nested || json.Unmarshal(c[first], &inner) != nil {
		return nil
	}
	return inner.at(rest)
}

// values returns a claim that is a string or a list of strings.
func (c claims) values(name string) []string {
	if text := c.text(name); text != "" {
		return []string{text}
	}
	var list []json.RawMessage
	_ = json.Unmarshal(c.at(name), &list) // no list: no values
	var out []string
	for _, raw := range list {
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			out = append(out, text)
		}
	}
	return out
}

// name returns a display name: the given claim, the usual name claims, or else
// the subject.
func (c claims) name(claim, subject string) string {
	for _, n := range []string{claim, "name", "preferred_username", "email"} {
		if n == "" {
			continue
		}
		if name := oneLine(c.text(n)); name != "" {
			return name
		}
	}
	return oneLine(subject)
}

// oneLine returns text as a name, without control characters and limited in
// length.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxPersonName {
		text = string(runes[:maxPersonName])
	}
	return strings.TrimSpace(text)
}

// checkSubject refuses a subject that does not identify a user.
func checkSubject(subject string) error {
	if subject == "" || len(subject) > maxSubject || oneLine(subject) == "" {
		return action.NewError("subject_missing")
	}
	return nil
}
