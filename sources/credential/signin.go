package credential

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"sallyport/action"
)

// flowTimeout bounds all requests of a discovery together.
const flowTimeout = 45 * time.Second

// Begin starts a person's sign-in to the connector's service and returns the
// URL at which it continues, and the issuer. Pass the answer to [OAuth.Finish].
// Errors report a problem of the connector's settings (ErrInvalid), of the
// authorization server (ErrUnavailable), or that the server names another
// authorization server than before (ErrConflict).
func (o *OAuth) Begin(ctx context.Context, c action.Connector, by string) (authorizeURL, issuer string, err error) {
	if c.OAuth == nil || c.OAuth.Kind != action.OAuthCode {
		e := action.Errorf(action.ErrInvalid, codeFlow, "This connector has no sign-in. Set its OAuth kind to %s first.", action.OAuthCode)
		e.Field = "/oauth/kind"
		return "", "", e
	}
	r, err := o.clientFor(c.URL)
	if err != nil {
		return "", "", err
	}
	ctx, stop := context.WithTimeout(ctx, flowTimeout)
	defer stop()
	_, before, err := o.readGrant(ctx, c.Organization, c.ID)
	if err != nil {
		return "", "", err
	}
	t, m, err := r.discover(ctx, &c, before)
	if err != nil {
		return "", "", err
	}
	state, verifier := randomToken(), randomToken()
	flow := action.OAuthFlow{
		StateHash: hashState(state), Organization: c.Organization, Connector: c.ID, By: by, ExpiresAt: o.Now().UTC().Add(o.FlowLife),
	}
	b := flowSecrets{target: *t, Verifier: verifier, IssRequired: m.AuthorizationResponseIssParameterSupported}
	if flow.Sealed, err = seal(o.Vault, flowRef(flow.Organization, flow.StateHash), b); err != nil {
		return "", "", err
	}
	if err := o.Store.PutOAuthFlow(ctx, flow); err != nil {
		return "", "", fmt.Errorf("writing a sign-in: %w", err)
	}
	authorizeURL, err = o.authorizeURL(t, m.AuthorizationEndpoint, state, verifier)
	return authorizeURL, t.Issuer, err
}

// discover determines the authorization server of the connector, the gateway's
// client there, and the scopes. before is the previous grant, or nil.
func (r oauthClient) discover(ctx context.Context, c *action.Connector, before *grantSecrets) (*target, *oauthex.AuthServerMeta, error) {
	ch, err := r.probe(ctx, c.Headers)
	if err != nil {
		return nil, nil, err
	}
	p, err := r.resourceMetadata(ctx, ch)
	if err != nil {
		return nil, nil, err
	}
	if before != nil && before.Host != hostKey(c.URL) {
		before = nil // for another server
	}
	pinned := ""
	if before != nil {
		pinned = before.Issuer
	}
	issuer, err := p.chooseIssuer(c.OAuth, pinned)
	if err != nil {
		return nil, nil, err
	}
	m, err := r.serverMetadata(ctx, issuer, c.OAuth.Kind, p.legacy)
	if err != nil {
		return nil, nil, err
	}
	who, err := r.chooseClient(ctx, c.OAuth, m, before)
	if err != nil {
		return nil, nil, err
	}
	t := &target{
		Kind: c.OAuth.Kind, Host: hostKey(c.URL), Server: c.URL, Resource: p.resource, Issuer: m.Issuer, Token: m.TokenEndpoint, Revoke: m.RevocationEndpoint,
		Scopes: requestedScopes(c.OAuth, ch, p, m, before), Client: who,
	}
	return t, m, nil
}

// requestedScopes selects the scopes to request: those of the settings, of the
// server's challenge, or all supported ones; in addition those that the server
// reported as missing, the ones already granted, and the scope for refresh
// tokens.
func requestedScopes(s *action.OAuthSettings, ch challenge, p *resourceInfo, m *oauthex.AuthServerMeta, before *grantSecrets) []string {
	list := s.Scopes
	if len(list) == 0 {
		list = ch.scopes
	}
	if len(list) == 0 {
		list = p.scopes
	}
	if s.Kind == action.OAuthClient {
		return scopes(list)
	}
	if before != nil && len(before.Wanted) > 0 && sameIssuer(before.Issuer, m.Issuer) {
		list = slices.Concat(before.Wanted, before.Granted, list)
	}
	if slices.Contains(m.ScopesSupported, scopeOffline) {
		list = slices.Concat([]string{scopeOffline}, list)
	}
	return scopes(list)
}

// scopeOffline is the scope for refresh tokens.
const scopeOffline = "offline_access"

func (o *OAuth) authorizeURL(t *target, endpoint, state, verifier string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", discoveryError("The authorization endpoint that the server names is not a valid URL.")
	}
	challenge := sha256.Sum256([]byte(verifier))
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": t.Client.ID, "redirect_uri": o.RedirectURL, "state": state, "resource": t.Resource,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if len(t.Scopes) > 0 {
		q.Set("scope", strings.Join(t.Scopes, " "))
	}
	if slices.Contains(t.Scopes, scopeOffline) {
		q.Set("prompt", "consent") // OpenID Connect requires it for this scope
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// randomToken returns 256 random bits, in characters that are valid in a state
// and a verifier.
func randomToken() string {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func hashState(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:])
}

// Finish completes a sign-in with the parameters of the authorization response:
// state, code, iss, and problem, which is the parameter "error". The
// organization and the person must be those that began it. Afterwards the flow
// is over, successful or not: retrying requires another Begin. It returns the
// ID of the connector if that is known.
func (o *OAuth) Finish(ctx context.Context, organization, by, state, code, iss, problem string) (connector string, err error) {
	b, connector, err := o.takeFlow(ctx, organization, by, state)
	if err != nil {
		return connector, err
	}
	switch {
	case iss != b.Issuer && (iss != "" || b.IssRequired):
		return connector, flowError("The response is not from the expected authorization server, and may have been tampered with. Start again.")
	case problem != "":
		return connector, flowError("The authorization server denied access: %s. Start again, and grant the requested access.", errorCode(problem))
	case code == "":
		return connector, flowError("The authorization server's response has no code. Start again.")
	}
	r, err := o.clientFor(b.Server)
	if err != nil {
		return connector, err
	}
	k := &grantSecrets{target: b.target, tokenSet: tokenSet{Granted: b.Scopes}}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {o.RedirectURL}, "code_verifier": {b.Verifier},
	}
	// The code is valid once: from here on, closing the browser cancels nothing.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), flowTimeout)
	defer stop()
	if err := r.exchange(ctx, organization, k, form); err != nil {
		return connector, err
	}
	return connector, o.saveGrant(ctx, organization, connector, by, k)
}

// codeNoFlow is the code for an unknown state.
const codeNoFlow = "no_such_sign_in"

func flowError(format string, args ...any) error {
	return action.Errorf(action.ErrInvalid, codeFlow, format, args...)
}

// takeFlow takes the flow of a state.
func (o *OAuth) takeFlow(ctx context.Context, organization, by, state string) (b flowSecrets, connector string, err error) {
	now := o.Now()
	f, err := o.Store.TakeOAuthFlow(ctx, hashState(state), now)
	if errors.Is(err, action.ErrNotFound) || err == nil && !now.Before(f.ExpiresAt) {
		return b, "", action.Errorf(action.ErrInvalid, codeNoFlow, "This sign-in does not exist, has expired or is already complete. Start again on the connector's page.")
	}
	if err != nil {
		return b, "", err
	}
	if f.Organization != organization || f.By != by {
		return b, "", action.Errorf(action.ErrForbidden, codeFlow, "Another person started this sign-in, and only that person can complete it. Start your own on the connector's page.")
	}
	return b, f.Connector, unseal(o.Vault, flowRef(organization, f.StateHash), f.Sealed, &b)
}

// saveGrant stores the result of a sign-in and replaces any previous grant.
func (o *OAuth) saveGrant(ctx context.Context, organization, connector, by string, k *grantSecrets) error {
	key := rowKey{organization, connector}
	return o.exclusive(ctx, key, func() error {
		for attempt := 1; ; attempt++ {
			g, _, err := o.readGrant(ctx, organization, connector)
			if err != nil && len(g.Sealed) == 0 {
				return err
			}
			g.Organization, g.Connector, g.Status, g.By = organization, connector, action.OAuthConnected, by
			err = o.writeGrant(ctx, g, k)
			if err == nil || attempt == 3 || !errors.Is(err, action.ErrConflict) {
				o.evict(key)
				return err
			}
		}
	})
}
