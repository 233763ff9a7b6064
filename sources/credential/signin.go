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

// maxBegin bounds all requests of a discovery together.
const maxBegin = 45 * time.Second

// Begin starts the sign-in of a person to the connector's service and returns
// the URL at which it goes on, and the authorization server whose it is. What
// comes back from there belongs to [OAuth.Finish]. Errors say what is wrong with the connector's settings
// (ErrInvalid), with its authorization server (ErrUnavailable), or that the
// server names another one than before (ErrConflict).
func (o *OAuth) Begin(ctx context.Context, c action.Connector, by string) (authorizeURL, issuer string, err error) {
	if c.OAuth == nil || c.OAuth.Kind != action.OAuthCode {
		e := action.Errorf(action.ErrInvalid, codeFlow, "Nobody signs in to this connector; set its OAuth kind to %s first.", action.OAuthCode)
		e.Field = "/oauth/kind"
		return "", "", e
	}
	r, err := o.reach(c.URL)
	if err != nil {
		return "", "", err
	}
	ctx, stop := context.WithTimeout(ctx, maxBegin)
	defer stop()
	_, before, err := o.readGrant(ctx, c.Organization, c.ID)
	if err != nil {
		return "", "", err
	}
	t, m, err := r.discover(ctx, &c, before)
	if err != nil {
		return "", "", err
	}
	state, verifier := secret(), secret()
	flow := action.OAuthFlow{
		StateHash: hash(state), Organization: c.Organization, Connector: c.ID, By: by, ExpiresAt: o.Now().UTC().Add(o.FlowLife),
	}
	b := begun{target: *t, Verifier: verifier, Iss: m.AuthorizationResponseIssParameterSupported}
	if flow.Sealed, err = seal(o.Vault, flowRef(flow.Organization, flow.StateHash), b); err != nil {
		return "", "", err
	}
	if err := o.Store.PutOAuthFlow(ctx, flow); err != nil {
		return "", "", fmt.Errorf("writing a sign-in: %w", err)
	}
	authorizeURL, err = o.authorizeURL(t, m.AuthorizationEndpoint, state, verifier)
	return authorizeURL, t.Issuer, err
}

// discover finds out where tokens of the connector are had, who the gateway
// is there, and what it asks for. before is what was had last, or nil.
func (r reach) discover(ctx context.Context, c *action.Connector, before *kept) (*target, *oauthex.AuthServerMeta, error) {
	ch, err := r.probe(ctx, c.Headers)
	if err != nil {
		return nil, nil, err
	}
	p, err := r.protection(ctx, ch)
	if err != nil {
		return nil, nil, err
	}
	if before != nil && before.Host != hostOf(c.URL) {
		before = nil // it was another server's
	}
	pinned := ""
	if before != nil {
		pinned = before.Issuer
	}
	issuer, err := p.choose(c.OAuth, pinned)
	if err != nil {
		return nil, nil, err
	}
	m, err := r.authority(ctx, issuer, c.OAuth.Kind, p.legacy)
	if err != nil {
		return nil, nil, err
	}
	who, err := r.identify(ctx, c.OAuth, m, before)
	if err != nil {
		return nil, nil, err
	}
	t := &target{
		Kind: c.OAuth.Kind, Host: hostOf(c.URL), Server: c.URL, Resource: p.resource, Issuer: m.Issuer, Token: m.TokenEndpoint, Revoke: m.RevocationEndpoint,
		Scopes: asked(c.OAuth, ch, p, m, before), Client: who,
	}
	return t, m, nil
}

// asked selects the scopes to ask for: those of the settings, of the server's
// challenge, or all that it knows; with them those that it found missing of
// what was granted, and the one that makes a sign-in last.
func asked(s *action.OAuthSettings, ch challenge, p *protection, m *oauthex.AuthServerMeta, before *kept) []string {
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
	if slices.Contains(m.ScopesSupported, offline) {
		list = slices.Concat([]string{offline}, list)
	}
	return scopes(list)
}

// offline is the scope for tokens that are renewed while nobody is there.
const offline = "offline_access"

func (o *OAuth) authorizeURL(t *target, endpoint, state, verifier string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", unusable("The authorization endpoint that the server names is no URL.")
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
	if slices.Contains(t.Scopes, offline) {
		q.Set("prompt", "consent") // OpenID Connect gives it only so
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// secret returns 256 random bits, in the characters that a state and a
// verifier may have.
func secret() string {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func hash(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:])
}

// Finish ends a sign-in with what the authorization server sent the person
// back with: state, code, iss, and problem, which is its parameter "error". It
// must be of the organization and by the person that began it. The sign-in is
// over then, in whichever way: another one needs another Begin. It returns the
// id of the connector wherever that is known.
func (o *OAuth) Finish(ctx context.Context, organization, by, state, code, iss, problem string) (connector string, err error) {
	b, connector, err := o.resume(ctx, organization, by, state)
	if err != nil {
		return connector, err
	}
	switch {
	case iss != b.Issuer && (iss != "" || b.Iss):
		return connector, unfinished("The answer is not of the authorization server that was asked. Somebody may have tampered with it; begin again.")
	case problem != "":
		return connector, unfinished("The authorization server did not let the gateway in: %s. Begin again, and allow what it asks for.", errorCode(problem))
	case code == "":
		return connector, unfinished("The authorization server's answer has no code in it; begin again.")
	}
	r, err := o.reach(b.Server)
	if err != nil {
		return connector, err
	}
	k := &kept{target: b.target, issued: issued{Granted: b.Scopes}}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {o.RedirectURL}, "code_verifier": {b.Verifier},
	}
	// The code is good once: from here on the person's leaving stops nothing.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), maxBegin)
	defer stop()
	if err := r.exchange(ctx, organization, k, form); err != nil {
		return connector, err
	}
	return connector, o.keep(ctx, organization, connector, by, k)
}

// codeNoFlow is of a state that no sign-in to a connector has.
const codeNoFlow = "no_such_sign_in"

func unfinished(format string, args ...any) error {
	return action.Errorf(action.ErrInvalid, codeFlow, format, args...)
}

// resume takes the flow of a state.
func (o *OAuth) resume(ctx context.Context, organization, by, state string) (b begun, connector string, err error) {
	now := o.Now()
	f, err := o.Store.TakeOAuthFlow(ctx, hash(state), now)
	if errors.Is(err, action.ErrNotFound) || err == nil && !now.Before(f.ExpiresAt) {
		return b, "", action.Errorf(action.ErrInvalid, codeNoFlow, "This sign-in is over, took too long, or was never begun; begin again on the connector's page.")
	}
	if err != nil {
		return b, "", err
	}
	if f.Organization != organization || f.By != by {
		return b, "", action.Errorf(action.ErrForbidden, codeFlow, "Another person began this sign-in, and only that person can end it; begin your own on the connector's page.")
	}
	return b, f.Connector, unseal(o.Vault, flowRef(organization, f.StateHash), f.Sealed, &b)
}

// keep writes what a person's sign-in gave, over whatever was there.
func (o *OAuth) keep(ctx context.Context, organization, connector, by string, k *kept) error {
	at := place{organization, connector}
	return o.alone(ctx, at, func() error {
		for attempt := 1; ; attempt++ {
			g, _, err := o.readGrant(ctx, organization, connector)
			if err != nil && len(g.Sealed) == 0 {
				return err
			}
			g.Organization, g.Connector, g.Status, g.By = organization, connector, action.OAuthConnected, by
			err = o.write(ctx, g, k)
			if err == nil || attempt == 3 || !errors.Is(err, action.ErrConflict) {
				o.forget(at)
				return err
			}
		}
	})
}
