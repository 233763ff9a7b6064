package store

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/redact"
)

const (
	maxScopes   = 50
	maxScope    = 200  // bytes
	maxClientID = 1024 // bytes; it may be a URL
	maxPreset   = 40   // characters
)

// checkExtent refuses what a connector cannot be, beside where it leads: what it
// may ask, how it signs in, and from what it was made.
func (r *connectorRow) checkExtent(ctx context.Context, tx bun.Tx) error {
	for i, kind := range r.MayAsk.v {
		field := fmt.Sprintf("/may_ask/%d", i)
		if !kind.Valid() {
			return invalid(field, "A server may ask for elicitation, url_elicitation, sampling or roots.")
		}
		if slices.Contains(r.MayAsk.v[:i], kind) {
			return invalid(field, "This kind of question is in the list already; name each once.")
		}
	}
	if preset := string(r.Preset); utf8.RuneCountInString(preset) > maxPreset || preset != "" && !plain(preset) {
		return invalid("/preset", fmt.Sprintf("The name of a preset has at most %d characters.", maxPreset))
	}
	if err := checkTimeout(r.Timeout); err != nil {
		return err
	}
	if r.OAuth.v == nil {
		return nil
	}
	if r.Secret != "" {
		return invalid("/oauth", "A connector has a secret or signs in with OAuth, not both; leave one of them out.")
	}
	if err := checkOAuth(r.OAuth.v); err != nil {
		return err
	}
	return checkClientSecret(ctx, tx, r)
}

func checkOAuth(o *action.OAuthSettings) error {
	switch {
	case !o.Kind.Valid():
		return invalid("/oauth/kind", "Tokens are had by authorization_code or by client_credentials.")
	case len(o.ClientID) > maxClientID || !action.PlainText(o.ClientID):
		return invalid("/oauth/client_id", fmt.Sprintf("The id of a client has at most %d printable ASCII characters.", maxClientID))
	case o.ClientSecret != "" && o.ClientID == "":
		return invalid("/oauth/client_id", "A client with a secret has an id; give the one that it was registered with.")
	case o.Issuer != "" && !issuer(o.Issuer):
		return invalid("/oauth/issuer", "An issuer is an https URL without user, query and fragment; http will do on this machine only.")
	case len(o.Scopes) > maxScopes:
		return invalid("/oauth/scopes", fmt.Sprintf("At most %d scopes are asked for; leave some out.", maxScopes))
	}
	for i, scope := range o.Scopes {
		field := fmt.Sprintf("/oauth/scopes/%d", i)
		if scope == "" || len(scope) > maxScope || !action.PlainText(scope) || strings.ContainsAny(scope, ` "\`) {
			return invalid(field, fmt.Sprintf("A scope has 1 to %d printable ASCII characters, without spaces, quotes and backslashes.", maxScope))
		}
		if slices.Contains(o.Scopes[:i], scope) {
			return invalid(field, "This scope is in the list already; name each once.")
		}
	}
	return nil
}

// issuer reports whether an authorization server may be asked there: what is
// said to it are credentials.
func issuer(text string) bool {
	u, err := url.Parse(text)
	shown := redact.JSON{}.RedactText(text, nil)
	if err != nil || !absolute(text) || strings.Contains(text, "?") || shown != text {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// checkClientSecret sees that the secret of the client is there. Which host it
// is for only the sign-in learns.
func checkClientSecret(ctx context.Context, tx bun.Tx, r *connectorRow) error {
	key := r.OAuth.v.ClientSecret
	if key == "" {
		return nil
	}
	found, err := exists(ctx, tx.NewSelect().Table("secrets").Where("organization_id = ?", r.Organization).Where("key = ?", key))
	if err != nil {
		return fmt.Errorf("reading secret %s: %w", key, err)
	}
	if !found {
		return invalid("/oauth/client_secret", fmt.Sprintf("There is no secret %q; set it first, for the host of the token endpoint.", key))
	}
	return nil
}
