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

// target is where tokens are had and what they are for: what one sign-in is
// about, from its beginning on.
type target struct {
	Kind     action.OAuthKind `json:"kind"`
	Host     string           `json:"host"` // of the MCP server, as [guard.Host] has it
	Server   string           `json:"server"`
	Resource string           `json:"resource"`
	Issuer   string           `json:"issuer"`
	Token    string           `json:"token_endpoint"`
	Revoke   string           `json:"revocation_endpoint,omitempty"`
	Scopes   []string         `json:"scopes,omitempty"` // as asked for
	Client   client           `json:"client"`
}

// issued is what a token endpoint gave.
type issued struct {
	Access    string    `json:"access,omitempty"` // empty: dead
	Refresh   string    `json:"refresh,omitempty"`
	Granted   []string  `json:"granted,omitempty"` // scopes, as the server said or else as asked for
	IssuedAt  time.Time `json:"issued_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: nobody said
}

// held is a grant's row, and what is sealed in it. Without one, both are zero.
type held struct {
	grant action.OAuthGrant
	kept  *kept
}

// kept is what is sealed of a grant.
type kept struct {
	target
	issued
	// Wanted are scopes that the server found missing.
	Wanted []string `json:"wanted,omitempty"`
}

// begun is what is sealed of a flow.
type begun struct {
	target
	Verifier string `json:"verifier"`
	Iss      bool   `json:"iss"` // the server says that it names itself in its answers
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

func (o *OAuth) held(ctx context.Context, at place) (h held, err error) {
	h.grant, h.kept, err = o.readGrant(ctx, at.organization, at.id)
	return h, err
}

// readGrant returns the connector's grant as its row has it now. Without one,
// both are zero.
func (o *OAuth) readGrant(ctx context.Context, organization, connector string) (action.OAuthGrant, *kept, error) {
	g, err := o.Store.OAuthGrant(ctx, organization, connector)
	if errors.Is(err, action.ErrNotFound) {
		return action.OAuthGrant{}, nil, nil
	}
	if err != nil {
		return g, nil, fmt.Errorf("reading the tokens of connector %s: %w", connector, err)
	}
	k := &kept{}
	if err := unseal(o.Vault, grantRef(organization, connector), g.Sealed, k); err != nil {
		return g, nil, fmt.Errorf("opening the tokens of connector %s: %w", connector, err)
	}
	return g, k, nil
}

// write puts the grant over the one that was read.
func (o *OAuth) write(ctx context.Context, g action.OAuthGrant, k *kept) (err error) {
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

// due reports whether the token ought to be renewed. One that lives shortly is
// not renewed before half its life is over.
func (k *issued) due(now time.Time, before time.Duration) bool {
	if k.ExpiresAt.IsZero() {
		return false
	}
	return !now.Before(k.ExpiresAt.Add(-min(before, k.ExpiresAt.Sub(k.IssuedAt)/2)))
}

// alive reports whether the token can be sent.
func (k *issued) alive(now time.Time) bool {
	return k.Access != "" && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// fits reports whether what was had is for the connector as it is now.
func (k *kept) fits(c *action.Connector) bool {
	s := c.OAuth
	return k != nil && k.Kind == s.Kind && k.Host == hostOf(c.URL) && k.reaches(c.URL) &&
		(s.Issuer == "" || sameIssuer(s.Issuer, k.Issuer)) &&
		(s.ClientID == "" || s.ClientID == k.Client.ID) &&
		(s.Kind == action.OAuthCode || slices.Equal(s.Scopes, k.Scopes) || len(s.Scopes) == 0)
}

// reaches reports whether the tokens are for a server at that URL: another path
// of the host may be another tenant's. A resource that is wider than the server
// was proved to be so when somebody signed in, and no other is.
func (k *kept) reaches(server string) bool {
	if server == k.Server {
		return true
	}
	now, err := url.Parse(server)
	before, errBefore := url.Parse(k.Server)
	if err != nil || errBefore != nil {
		return false
	}
	_, wider, ok := within(now, k.Resource)
	_, wide, _ := within(before, k.Resource)
	return ok && (!wider || wide)
}

// hostOf returns the host of a URL in the form of [guard.Host]; empty: it is
// none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return guard.Host(u)
}

// sameIssuer compares issuers. A slash at the end is no difference: some
// software writes one by itself. What an authorization server says of itself
// in its answer is compared more strictly.
func sameIssuer(a, b string) bool {
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// Disconnect gives the connector's tokens back where the authorization server
// takes them (RFC 7009), and removes them in any case. by is the person who
// wants it.
func (o *OAuth) Disconnect(ctx context.Context, c action.Connector, by string) error {
	at := place{c.Organization, c.ID}
	return o.alone(ctx, at, func() error {
		_, k, err := o.readGrant(ctx, c.Organization, c.ID)
		if err != nil {
			o.Log.Warn("tokens are removed that cannot be given back", "connector", c.ID, "error", err)
		}
		if k != nil {
			o.revoke(ctx, &c, k)
		}
		defer o.forget(at)
		return o.Store.DeleteOAuthGrant(ctx, c.Organization, c.ID, by)
	})
}

// revoke tells the authorization server that the tokens are not needed. The
// refresh token goes first: most servers end what came of it, too. The client's
// secret is bound to the host of the token endpoint.
func (o *OAuth) revoke(ctx context.Context, c *action.Connector, k *kept) {
	r, err := o.reach(k.Server)
	if err != nil || k.Revoke == "" || hostOf(k.Revoke) != hostOf(k.Token) {
		return
	}
	for _, token := range []struct{ value, kind string }{{k.Refresh, "refresh_token"}, {k.Access, "access_token"}} {
		if token.value == "" {
			continue
		}
		form, header := url.Values{"token": {token.value}, "token_type_hint": {token.kind}}, http.Header{}
		err := r.prove(ctx, c.Organization, &k.target, form, header)
		if err == nil {
			_, err = r.post(ctx, k.Revoke, "revocation endpoint", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), header)
		}
		if err != nil {
			o.Log.Warn("a token could not be given back", "connector", c.ID, "error", err)
			return
		}
	}
}
