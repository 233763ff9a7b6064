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

// maxLife is how long a token is believed to live at most.
const maxLife = 366 * 24 * time.Hour

// refusal is a token endpoint's no. Its text is foreign but for the code.
type refusal struct {
	status int
	code   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the token endpoint refused: %s (%d)", r.code, r.status)
}

// final reports whether asking again is of no use: what was presented is not
// good any more.
func (r *refusal) final() bool {
	switch r.code {
	case "invalid_grant", "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_target",
		"bad_refresh_token", "invalid_refresh_token", "token_revoked", "token_expired", "account_inactive": // as GitHub and Slack say invalid_grant
		return r.status < 500
	}
	return false
}

// client reports whether it is the gateway's client that is not taken, rather
// than what it presented.
func (r *refusal) client() bool {
	switch r.code {
	case "invalid_client", "unauthorized_client", "incorrect_client_credentials", "bad_client_secret", "invalid_client_id":
		return true
	}
	return false
}

// exchange asks the token endpoint for tokens and puts them into k, where they
// replace what was there. Errors that wrap a *[refusal] are the server's no.
func (r reach) exchange(ctx context.Context, organization string, k *kept, form url.Values) error {
	form.Set("resource", k.Resource)
	header := http.Header{}
	if err := r.prove(ctx, organization, &k.target, form, header); err != nil {
		return err
	}
	now := r.Now().UTC() // before it is sent: a token may not seem to live longer than it does
	a, err := r.post(ctx, k.Token, "token endpoint", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), header)
	if err != nil {
		return err
	}
	return k.take(a.status, a.body, now)
}

// prove adds to a form or a header who the client is.
func (r reach) prove(ctx context.Context, organization string, t *target, form url.Values, header http.Header) error {
	if t.Client.Method == methodNone {
		form.Set("client_id", t.Client.ID)
		return nil
	}
	secret, err := r.secret(ctx, organization, t)
	if err != nil {
		return err
	}
	if t.Client.Method == methodPost {
		form.Set("client_id", t.Client.ID)
		form.Set("client_secret", secret)
		return nil
	}
	req := http.Request{Header: header}
	req.SetBasicAuth(url.QueryEscape(t.Client.ID), url.QueryEscape(secret))
	return nil
}

// take reads a token endpoint's answer. kinds are types of token that are sent
// like bearer tokens.
func (k *issued) take(status int, body []byte, now time.Time, kinds ...string) error {
	var got struct {
		Access  string          `json:"access_token"`
		Type    string          `json:"token_type"`
		Refresh string          `json:"refresh_token"`
		Expires json.RawMessage `json:"expires_in"`
		Scope   scopeText       `json:"scope"`
		Error   string          `json:"error"`
	}
	err := json.Unmarshal(body, &got)
	switch {
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return action.Errorf(action.ErrUnavailable, sources.FaultFailed, "The authorization server failed (%d); try again later.", status)
	case status != http.StatusOK || got.Error != "": // some say 200 and mean no
		no := &refusal{status: status, code: errorCode(got.Error)}
		return action.Errorf(action.ErrUnavailable, sources.FaultAuth,
			"The authorization server refused to give a token: %s (%d); check the OAuth settings, or sign in again.", no.code, no.status).WithCause(no)
	case err != nil || got.Access == "" || len(got.Access) > maxAnswer/4 || strings.ContainsFunc(got.Access, notToken):
		return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "The authorization server's answer holds no token that can be used; its operator must mend that.")
	case got.Type != "" && !strings.EqualFold(got.Type, "Bearer") && !slices.Contains(kinds, got.Type):
		return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "The authorization server gave a token that is no bearer token, which the gateway cannot send; have it give bearer tokens.")
	}
	k.Access, k.IssuedAt, k.ExpiresAt = got.Access, now, time.Time{}
	if got.Refresh != "" { // none: the old one stays good
		k.Refresh = got.Refresh
	}
	if got.Scope != "" {
		k.Granted = scopes(strings.Fields(string(got.Scope)))
	}
	if life := seconds(got.Expires); life > 0 {
		k.ExpiresAt = now.Add(life)
	}
	return nil
}

// scopeText is a list of scopes as one text, which some services write as a list.
type scopeText string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scopeText) UnmarshalJSON(raw []byte) error {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		*s = scopeText(joined(list))
		return nil
	}
	return json.Unmarshal(raw, (*string)(s))
}

func notToken(r rune) bool { return r <= ' ' || r > '~' }

// seconds reads a number, which some send as a string. Zero: it is none, or
// not sane.
func seconds(raw json.RawMessage) time.Duration {
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err != nil || !(n >= 1) { // NaN too
		return 0
	}
	return time.Duration(min(n, maxLife.Seconds())) * time.Second
}
