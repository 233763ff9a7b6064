package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// Client authentication methods of the token endpoint.
const (
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authNone  = "none"
)

// maxClientID bounds the client ID in a registration response.
const maxClientID = 2048

// client is the gateway's identity at an authorization server.
type client struct {
	ID        string `json:"id"`
	Method    string `json:"method"`
	SecretKey string `json:"secret_key,omitempty"` // name of the organization's secret

	// For dynamically registered clients:
	Registered bool      `json:"registered,omitempty"`
	Secret     string    `json:"secret,omitempty"`
	Redirect   string    `json:"redirect,omitempty"`
	Until      time.Time `json:"until"` // expiry of the secret; zero: none
}

// chooseClient selects the client: the configured one, the client metadata
// document, a previous registration at the same server, or a new registration.
func (r oauthClient) chooseClient(ctx context.Context, s *action.OAuthSettings, m *oauthex.AuthServerMeta, before *grantSecrets) (client, error) {
	switch {
	case s.ClientID != "":
		method, err := authMethod(m.TokenEndpointAuthMethodsSupported, s.ClientSecret != "")
		return client{ID: s.ClientID, SecretKey: s.ClientSecret, Method: method}, err
	case s.Kind == action.OAuthClient:
		return client{}, clientError("Client credentials require a client that is registered at %s. Set its ID and secret.", m.Issuer)
	case r.MetadataURL != "" && m.ClientIDMetadataDocumentSupported:
		return client{ID: r.MetadataURL, Method: authNone}, nil
	case before != nil && sameIssuer(before.Issuer, m.Issuer) && before.Client.reusable(r.RedirectURL, r.Now()):
		return before.Client, nil
	case m.RegistrationEndpoint != "":
		return r.register(ctx, m)
	}
	return client{}, clientError("The authorization server %s does not support dynamic client registration. Register a client there with the redirect URL %s, and set its ID here.", m.Issuer, r.RedirectURL)
}

func clientError(format string, args ...any) error {
	e := action.Errorf(action.ErrInvalid, codeClient, format, args...)
	e.Field = "/oauth/client_id"
	return e
}

// reusable reports whether a registered client can be used again.
func (c *client) reusable(redirect string, now time.Time) bool {
	return c.Registered && c.Redirect == redirect && (c.Until.IsZero() || now.Before(c.Until))
}

// authMethod selects the authentication method. The default is basic (RFC
// 8414).
func authMethod(supported []string, secret bool) (string, error) {
	switch {
	case !secret:
		return authNone, nil
	case len(supported) == 0 || slices.Contains(supported, authBasic):
		return authBasic, nil
	case slices.Contains(supported, authPost):
		return authPost, nil
	case slices.Contains(supported, authNone):
		return authNone, nil
	}
	return "", clientError("The authorization server accepts no client secret (only %s). Use another type of client.", sources.Printable(supported[0], 60))
}

// register registers the gateway at the authorization server (RFC 7591).
func (r oauthClient) register(ctx context.Context, m *oauthex.AuthServerMeta) (client, error) {
	wanted := authBasic
	if list := m.TokenEndpointAuthMethodsSupported; len(list) > 0 && !slices.Contains(list, authBasic) {
		wanted = authNone
		if slices.Contains(list, authPost) {
			wanted = authPost
		}
	}
	meta := r.clientDocument()
	meta["token_endpoint_auth_method"] = wanted
	body, err := json.Marshal(meta)
	if err != nil {
		return client{}, err
	}
	a, err := r.post(ctx, m.RegistrationEndpoint, "registration endpoint", "application/json", bytes.NewReader(body), nil)
	if err != nil {
		return client{}, err
	}
	var got struct {
		ClientID     string      `json:"client_id"`
		ClientSecret string      `json:"client_secret"`
		Until        json.Number `json:"client_secret_expires_at"`
		Method       string      `json:"token_endpoint_auth_method"`
		Error        string      `json:"error"`
	}
	err = json.Unmarshal(a.body, &got)
	if err != nil || a.status != http.StatusCreated && a.status != http.StatusOK || got.ClientID == "" || len(got.ClientID) > maxClientID {
		return client{}, clientError("The authorization server %s did not register the gateway (%d, %s). Register a client there with the redirect URL %s, and set its ID here.",
			sources.Printable(m.Issuer, 200), a.status, errorCode(got.Error), r.RedirectURL)
	}
	c := client{ID: got.ClientID, Secret: got.ClientSecret, Method: got.Method, Registered: true, Redirect: r.RedirectURL}
	if seconds, err := got.Until.Int64(); err == nil && seconds > 0 {
		c.Until = time.Unix(seconds, 0).UTC()
	}
	if c.Method != authBasic && c.Method != authPost && c.Method != authNone {
		c.Method, err = authMethod(m.TokenEndpointAuthMethodsSupported, c.Secret != "")
	}
	return c, err
}

// clientDocument returns the gateway's client metadata (RFC 7591).
func (o *OAuth) clientDocument() map[string]any {
	kind := "web"
	if u, err := url.Parse(o.RedirectURL); err == nil && guard.Loopback(u) {
		kind = "native"
	}
	return map[string]any{
		"client_name": o.ClientName, "redirect_uris": []string{o.RedirectURL}, "application_type": kind,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	}
}

// ClientMetadata returns the JSON document to serve at the MetadataURL, which
// is the gateway's client ID at servers that support it. Nil: there is no
// MetadataURL.
func (o *OAuth) ClientMetadata() []byte {
	if o.MetadataURL == "" {
		return nil
	}
	meta := o.clientDocument()
	meta["client_id"], meta["token_endpoint_auth_method"] = o.MetadataURL, authNone
	raw, _ := json.Marshal(meta) //nolint:errcheck // strings and lists of them
	return raw
}

// clientSecret returns the client secret for the token endpoint.
func (o *OAuth) clientSecret(ctx context.Context, organization string, t *target) (string, error) {
	if t.Client.SecretKey == "" {
		return t.Client.Secret, nil
	}
	value, host, err := o.ClientSecret(ctx, organization, t.Client.SecretKey)
	if err != nil {
		e := secretError("The client's secret %q cannot be read. Set it again.", t.Client.SecretKey)
		e.Err = err
		return "", e
	}
	u, err := url.Parse(t.Token)
	if err != nil {
		return "", err
	}
	if bound := hostKey(u.Scheme + "://" + host); host == "" || bound != guard.Host(u) {
		return "", secretError("The client's secret %q was set for the host %s and is not sent to the token endpoint at %s. Set it again for that host.",
			t.Client.SecretKey, sources.Printable(host, 100), sources.Printable(u.Host, 100))
	}
	return value, nil
}

func secretError(format string, args ...any) *action.Error {
	e := action.Errorf(action.ErrUnavailable, codeClient, format, args...)
	e.Field = "/oauth/client_secret"
	return e
}
