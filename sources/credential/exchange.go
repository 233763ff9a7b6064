package credential

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

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
	if life := parseSeconds(got.Expires); life > 0 {
		k.ExpiresAt = now.Add(life)
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

// parseSeconds parses a number, which some services send as a string. Zero: not
// valid.
func parseSeconds(raw json.RawMessage) time.Duration {
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err != nil || !(n >= 1) { // NaN too
		return 0
	}
	return time.Duration(min(n, maxLife.Seconds())) * time.Second
}
