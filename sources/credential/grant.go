package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
)

// target is the authorization server and the resource of one sign-in.
type target struct {
	Kind     action.OAuthKind `json:"kind"`
	Host     string           `json:"host"` // of the MCP server, as in [guard.Host]
	Server   string           `json:"server"`
	Resource string           `json:"resource"`
	Issuer   string           `json:"issuer"`
	Token    string           `json:"token_endpoint"`
	Revoke   string           `json:"revocation_endpoint,omitempty"`
	Scopes   []string         `json:"scopes,omitempty"` // as requested
	Client   client           `json:"client"`
}

// tokenSet is a token response.
type tokenSet struct {
	Access    string    `json:"access,omitempty"` // empty: expired
	Refresh   string    `json:"refresh,omitempty"`
	Granted   []string  `json:"granted,omitempty"` // scopes, as returned or else as requested
	IssuedAt  time.Time `json:"issued_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: unknown
}

// grantRow is the row of a grant and its unsealed content. Without a grant,
// both are zero.
type grantRow struct {
	grant   action.OAuthGrant
	secrets *grantSecrets
}

// grantSecrets is the sealed part of a grant.
type grantSecrets struct {
	target
	tokenSet
	// Wanted are scopes that the server reported as missing.
	Wanted []string `json:"wanted,omitempty"`
}

// flowSecrets is the sealed part of a flow.
type flowSecrets struct {
	target
	Verifier    string `json:"verifier"`
	IssRequired bool   `json:"iss"` // the server includes its issuer in its answers
}

func seal(vault action.Vault, ref action.Ref, v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("sealing %s: %w", ref.Table, err)
	}
	return vault.Seal(ref, plain)
}

func unseal(vault action.Vault, ref action.Ref, sealed []byte, v any) error {
	plain, err := vault.Open(ref, sealed)
	if err != nil {
		return err
	}
	if json.Unmarshal(plain, v) != nil {
		return fmt.Errorf("%s of row %q cannot be read", ref.Table, ref.Row) // the cause would quote it
	}
	return nil
}

func grantRef(organization, connector string) action.Ref {
	return action.Ref{Organization: organization, Table: "oauth_grants", Row: connector, Column: "sealed"}
}

func flowRef(organization, hash string) action.Ref {
	return action.Ref{Organization: organization, Table: "oauth_flows", Row: hash, Column: "sealed"}
}

func (o *OAuth) loadGrant(ctx context.Context, key rowKey) (h grantRow, err error) {
	h.grant, h.secrets, err = o.readGrant(ctx, key.organization, key.id)
	return h, err
}

// readGrant returns the connector's current grant. Without one, both are zero.
func (o *OAuth) readGrant(ctx context.Context, organization, connector string) (action.OAuthGrant, *grantSecrets, error) {
	g, err := o.Store.OAuthGrant(ctx, organization, connector)
	if errors.Is(err, action.ErrNotFound) {
		return action.OAuthGrant{}, nil, nil
	}
	if err != nil {
		return g, nil, fmt.Errorf("reading the tokens of connector %s: %w", connector, err)
	}
	k := &grantSecrets{}
	if err := unseal(o.Vault, grantRef(organization, connector), g.Sealed, k); err != nil {
		return g, nil, fmt.Errorf("opening the tokens of connector %s: %w", connector, err)
	}
	return g, k, nil
}

// writeGrant overwrites the grant that was read.
func (o *OAuth) writeGrant(ctx context.Context, g action.OAuthGrant, k *grantSecrets) (err error) {
	g.Issuer, g.ClientID, g.UpdatedAt = k.Issuer, k.Client.ID, o.Now().UTC()
	g.Scope, g.ExpiresAt = strings.Join(k.Granted, " "), nil
	if !k.ExpiresAt.IsZero() {
		g.ExpiresAt = &k.ExpiresAt
	}
	if g.Status == action.OAuthConnected {
		g.Reason = ""
	}
	if g.Sealed, err = seal(o.Vault, grantRef(g.Organization, g.Connector), k); err != nil {
		return err
	}
	if err := o.Store.PutOAuthGrant(ctx, g); err != nil {
		return fmt.Errorf("writing the tokens of connector %s: %w", g.Connector, err)
	}
	return nil
}

// needsRenewal reports whether the token should be renewed. A short-lived token
// is not renewed before half its lifetime.
func (k *tokenSet) needsRenewal(now time.Time, before time.Duration) bool {
	if k.ExpiresAt.IsZero() {
		return false
	}
	return !now.Before(k.ExpiresAt.Add(-min(before, k.ExpiresAt.Sub(k.IssuedAt)/2)))
}

// valid reports whether the token can be sent.
func (k *tokenSet) valid(now time.Time) bool {
	return k.Access != "" && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// matches reports whether the grant is valid for the connector's current
// settings.
func (k *grantSecrets) matches(c *action.Connector) bool {
	s := c.OAuth
	return k != nil && k.Kind == s.Kind && k.Host == hostKey(c.URL) && k.coversServer(c.URL) &&
		(s.Issuer == "" || sameIssuer(s.Issuer, k.Issuer)) &&
		(s.ClientID == "" || s.ClientID == k.Client.ID) &&
		(s.Kind == action.OAuthCode || slices.Equal(s.Scopes, k.Scopes) || len(s.Scopes) == 0)
}

// coversServer reports whether the tokens are for the server at that URL:
// another path of the host can belong to another tenant. A resource that is
// wider than the server was verified at sign-in; no other wider one is
// accepted.
func (k *grantSecrets) coversServer(server string) bool {
	if server == k.Server {
		return true
	}
	now, err := url.Parse(server)
	before, errBefore := url.Parse(k.Server)
	if err != nil || errBefore != nil {
		return false
	}
	_, wider, ok := resourceCovers(now, k.Resource)
	_, wide, _ := resourceCovers(before, k.Resource)
	return ok && (!wider || wide)
}

// hostKey returns the host of a URL as [guard.Host] does; empty: not a URL.
func hostKey(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return guard.Host(u)
}

// sameIssuer compares issuers and ignores a trailing slash, which some software
// adds. The issuer in an authorization response is compared strictly.
func sameIssuer(a, b string) bool {
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// Disconnect revokes the connector's tokens if the authorization server
// supports it (RFC 7009), and deletes them in any case. by is the person who
// requested it.
func (o *OAuth) Disconnect(ctx context.Context, c action.Connector, by string) error {
	key := rowKey{c.Organization, c.ID}
	return o.exclusive(ctx, key, func() error {
		_, k, err := o.readGrant(ctx, c.Organization, c.ID)
		if err != nil {
			o.Log.Warn("could not revoke tokens before deleting them", "connector", c.ID, "error", err)
		}
		if k != nil {
			o.revoke(ctx, &c, k)
		}
		defer o.evict(key)
		return o.Store.DeleteOAuthGrant(ctx, c.Organization, c.ID, by)
	})
}

// revoke revokes the tokens. The refresh token goes first: most servers then
// revoke its access tokens, too. The client secret is bound to the host of the
// token endpoint.
func (o *OAuth) revoke(ctx context.Context, c *action.Connector, k *grantSecrets) {
	r, err := o.clientFor(k.Server)
	if err != nil || k.Revoke == "" || hostKey(k.Revoke) != hostKey(k.Token) {
		return
	}
	for _, token := range []struct{ value, kind string }{{k.Refresh, "refresh_token"}, {k.Access, "access_token"}} {
		if token.value == "" {
			continue
		}
		form, header := url.Values{"token": {token.value}, "token_type_hint": {token.kind}}, http.Header{}
		err := r.authenticate(ctx, c.Organization, &k.target, form, header)
		if err == nil {
			_, err = r.post(ctx, k.Revoke, "revocation endpoint", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), header)
		}
		if err != nil {
			o.Log.Warn("a token could not be revoked", "connector", c.ID, "error", err)
			return
		}
	}
}
