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

// How a client proves itself at the token endpoint.
const (
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodNone  = "none"
)

// maxClientID bounds the id that a registration may give.
const maxClientID = 2048

// client is who the gateway is to an authorization server.
type client struct {
	ID        string `json:"id"`
	Method    string `json:"method"`
	SecretKey string `json:"secret_key,omitempty"` // of the organization's secret

	// Of a client that was registered dynamically:
	Registered bool      `json:"registered,omitempty"`
	Secret     string    `json:"secret,omitempty"`
	Redirect   string    `json:"redirect,omitempty"`
	Until      time.Time `json:"until"` // the secret is good; zero: for ever
}

// identify says which client to be: the one of the settings, the one of our
// metadata document, the one registered before at the same server, or a new
// one.
func (r reach) identify(ctx context.Context, s *action.OAuthSettings, m *oauthex.AuthServerMeta, before *kept) (client, error) {
	switch {
	case s.ClientID != "":
		method, err := method(m.TokenEndpointAuthMethodsSupported, s.ClientSecret != "")
		return client{ID: s.ClientID, SecretKey: s.ClientSecret, Method: method}, err
	case s.Kind == action.OAuthClient:
		return client{}, wrongClient("Client credentials need the id of a client that is registered at %s; set it, and its secret.", m.Issuer)
	case r.MetadataURL != "" && m.ClientIDMetadataDocumentSupported:
		return client{ID: r.MetadataURL, Method: methodNone}, nil
	case before != nil && sameIssuer(before.Issuer, m.Issuer) && before.Client.serves(r.RedirectURL, r.Now()):
		return before.Client, nil
	case m.RegistrationEndpoint != "":
		return r.register(ctx, m)
	}
	return client{}, wrongClient("The authorization server %s registers no clients by itself; register one there by hand, with the redirect URL %s, and set its id here.", m.Issuer, r.RedirectURL)
}

func wrongClient(format string, args ...any) error {
	e := action.Errorf(action.ErrInvalid, codeClient, format, args...)
	e.Field = "/oauth/client_id"
	return e
}

// serves reports whether a registered client can be used again.
func (c *client) serves(redirect string, now time.Time) bool {
	return c.Registered && c.Redirect == redirect && (c.Until.IsZero() || now.Before(c.Until))
}

// method chooses how to prove oneself. What is not said is basic, by RFC 8414.
func method(supported []string, secret bool) (string, error) {
	switch {
	case !secret:
		return methodNone, nil
	case len(supported) == 0 || slices.Contains(supported, methodBasic):
		return methodBasic, nil
	case slices.Contains(supported, methodPost):
		return methodPost, nil
	case slices.Contains(supported, methodNone):
		return methodNone, nil
	}
	return "", wrongClient("The authorization server takes no client secret (only %s); use a client of another kind.", sources.Printable(supported[0], 60))
}

// register has the authorization server register the gateway (RFC 7591).
func (r reach) register(ctx context.Context, m *oauthex.AuthServerMeta) (client, error) {
	wanted := methodBasic
	if list := m.TokenEndpointAuthMethodsSupported; len(list) > 0 && !slices.Contains(list, methodBasic) {
		wanted = methodNone
		if slices.Contains(list, methodPost) {
			wanted = methodPost
		}
	}
	meta := r.document7591()
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
		return client{}, wrongClient("The authorization server %s did not register the gateway (%d, %s); register a client there by hand, with the redirect URL %s, and set its id here.",
			sources.Printable(m.Issuer, 200), a.status, errorCode(got.Error), r.RedirectURL)
	}
	c := client{ID: got.ClientID, Secret: got.ClientSecret, Method: got.Method, Registered: true, Redirect: r.RedirectURL}
	if seconds, err := got.Until.Int64(); err == nil && seconds > 0 {
		c.Until = time.Unix(seconds, 0).UTC()
	}
	if c.Method != methodBasic && c.Method != methodPost && c.Method != methodNone {
		c.Method, err = method(m.TokenEndpointAuthMethodsSupported, c.Secret != "")
	}
	return c, err
}

// document7591 is what the gateway says of itself, in the words of RFC 7591.
func (o *OAuth) document7591() map[string]any {
	kind := "web"
	if u, err := url.Parse(o.RedirectURL); err == nil && guard.Loopback(u) {
		kind = "native"
	}
	return map[string]any{
		"client_name": o.ClientName, "redirect_uris": []string{o.RedirectURL}, "application_type": kind,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	}
}

// ClientMetadata returns the document, in JSON, that is to be served at the
// MetadataURL: the URL is the gateway's client id where a server takes that.
// Nil: there is no MetadataURL.
func (o *OAuth) ClientMetadata() []byte {
	if o.MetadataURL == "" {
		return nil
	}
	meta := o.document7591()
	meta["client_id"], meta["token_endpoint_auth_method"] = o.MetadataURL, methodNone
	raw, _ := json.Marshal(meta) //nolint:errcheck // strings and lists of them
	return raw
}

// secret returns the client's secret, which goes to the token endpoint.
func (o *OAuth) secret(ctx context.Context, organization string, t *target) (string, error) {
	if t.Client.SecretKey == "" {
		return t.Client.Secret, nil
	}
	value, host, err := o.ClientSecret(ctx, organization, t.Client.SecretKey)
	if err != nil {
		e := wrongSecret("The client's secret %q cannot be read; set it again.", t.Client.SecretKey)
		e.Err = err
		return "", e
	}
	u, err := url.Parse(t.Token)
	if err != nil {
		return "", err
	}
	if bound := hostOf(u.Scheme + "://" + host); host == "" || bound != guard.Host(u) {
		return "", wrongSecret("The client's secret %q was set for the host %s and is not sent to the token endpoint at %s; set it again for that host.",
			t.Client.SecretKey, sources.Printable(host, 100), sources.Printable(u.Host, 100))
	}
	return value, nil
}

func wrongSecret(format string, args ...any) *action.Error {
	e := action.Errorf(action.ErrUnavailable, codeClient, format, args...)
	e.Field = "/oauth/client_secret"
	return e
}
