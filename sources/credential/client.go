package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	case before != nil && sameIssuer(before.Issuer, m.Issuer) && before.Client.Registered && before.Client.Redirect == r.RedirectURL && (before.Client.Until.IsZero() || r.Now().Before(before.Client.Until)):
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

// maxLife is the longest accepted lifetime of a token.
const maxLife = 366 * 24 * time.Hour

// tokenError is an error response of a token endpoint. Except for the code, its
// text is untrusted.
type tokenError struct {
	status int
	code   string
}

func (r *tokenError) Error() string {
	return fmt.Sprintf("the token endpoint returned an error: %s (%d)", r.code, r.status)
}

// permanent reports whether retrying is useless: the grant is no longer valid.
func (r *tokenError) permanent() bool {
	switch r.code {
	case "invalid_grant", "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_target",
		"bad_refresh_token", "invalid_refresh_token", "token_revoked", "token_expired", "account_inactive": // invalid_grant at GitHub and Slack
		return r.status < 500
	}
	return false
}

// clientRejected reports whether the server rejected the gateway's client
// rather than the grant.
func (r *tokenError) clientRejected() bool {
	switch r.code {
	case "invalid_client", "unauthorized_client", "incorrect_client_credentials", "bad_client_secret", "invalid_client_id":
		return true
	}
	return false
}

// exchange requests tokens and stores them in k. An error response of the
// server is wrapped as *[tokenError].
func (r oauthClient) exchange(ctx context.Context, organization string, k *grantSecrets, form url.Values) error {
	form.Set("resource", k.Resource)
	header := http.Header{}
	if err := r.authenticate(ctx, organization, &k.target, form, header); err != nil {
		return err
	}
	now := r.Now().UTC() // before sending, so that the lifetime is not overestimated
	a, err := r.post(ctx, k.Token, "token endpoint", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), header)
	if err != nil {
		return err
	}
	return k.parse(a.status, a.body, now)
}

// authenticate adds client authentication to the form or header.
func (r oauthClient) authenticate(ctx context.Context, organization string, t *target, form url.Values, header http.Header) error {
	if t.Client.Method == authNone {
		form.Set("client_id", t.Client.ID)
		return nil
	}
	secret, err := r.clientSecret(ctx, organization, t)
	if err != nil {
		return err
	}
	if t.Client.Method == authPost {
		form.Set("client_id", t.Client.ID)
		form.Set("client_secret", secret)
		return nil
	}
	req := http.Request{Header: header}
	req.SetBasicAuth(url.QueryEscape(t.Client.ID), url.QueryEscape(secret))
	return nil
}

// parse parses a token response. kinds are token types that are used like
// bearer tokens.
func (k *tokenSet) parse(status int, body []byte, now time.Time, kinds ...string) error {
	var got struct {
		Access  string          `json:"access_token"`
		Type    string          `json:"token_type"`
		Refresh string          `json:"refresh_token"`
		Expires json.RawMessage `json:"expires_in"`
		Scope   scopeParam      `json:"scope"`
		Error   string          `json:"error"`
	}
	err := json.Unmarshal(body, &got)
	switch {
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return action.Errorf(action.ErrUnavailable, sources.FaultFailed, "The authorization server failed (%d). Retry later.", status)
	case status != http.StatusOK || got.Error != "": // some report errors with status 200
		no := &tokenError{status: status, code: errorCode(got.Error)}
		return action.Errorf(action.ErrUnavailable, sources.FaultAuth,
			"The authorization server refused to issue a token: %s (%d). Check the OAuth settings, or sign in again.", no.code, no.status).WithCause(no)
	case err != nil || got.Access == "" || len(got.Access) > maxAnswer/4 || strings.ContainsFunc(got.Access, invalidTokenChar):
		return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "The authorization server's response has no valid token. Its operator must fix that.")
	case got.Type != "" && !strings.EqualFold(got.Type, "Bearer") && !slices.Contains(kinds, got.Type):
		return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "The authorization server issued a token that is not a bearer token. The gateway supports only bearer tokens.")
	}
	k.Access, k.IssuedAt, k.ExpiresAt = got.Access, now, time.Time{}
	if got.Refresh != "" { // none: the old one stays valid
		k.Refresh = got.Refresh
	}
	if got.Scope != "" {
		k.Granted = scopes(strings.Fields(string(got.Scope)))
	}
	// Some services send the number as a string.
	if n, err := strconv.ParseFloat(strings.Trim(string(got.Expires), `" `), 64); err == nil && n >= 1 {
		k.ExpiresAt = now.Add(time.Duration(min(n, maxLife.Seconds())) * time.Second)
	}
	return nil
}

// scopeParam is a space-separated list of scopes, which some services send as
// an array.
type scopeParam string

// UnmarshalJSON implements [json.Unmarshaler].
func (s *scopeParam) UnmarshalJSON(raw []byte) error {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		*s = scopeParam(joinScopes(list))
		return nil
	}
	return json.Unmarshal(raw, (*string)(s))
}

func invalidTokenChar(r rune) bool { return r <= ' ' || r > '~' }
