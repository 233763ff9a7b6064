package dashboard

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

func upstreamApply(u *api.Upstream, c *action.Connector) {
	set(&c.URL, u.URL)
	set(&c.Header, u.Header)
	set(&c.Prefix, u.Prefix)
	set(&c.Secret, u.Secret)
	set(&c.Headers, u.Headers)
	set(&c.PerAgent, u.PerAgent)
	set(&c.TimeoutSeconds, u.Timeout)
	set(&c.DefaultRisk, u.DefaultRisk)
	set(&c.Risks, u.Risks)
	set(&c.Review, u.Review)
	if u.MayAsk != nil {
		c.MayAsk = slices.DeleteFunc(action.AskKinds(), func(k action.AskKind) bool { return !slices.Contains(*u.MayAsk, k) })
	}
	if u.OAuth != nil {
		c.OAuth = newOAuthSettings(u.OAuth)
	}
	credential := c.Secret != "" || u.SecretValue != ""
	if credential && u.Prefix == nil && c.Prefix == "" && (c.Header == "" || strings.EqualFold(c.Header, "Authorization")) {
		c.Prefix = "Bearer "
	}
}

func newOAuthSettings(o *api.NewOAuth) *action.OAuthSettings {
	if o.Kind == "none" {
		return nil
	}
	return &action.OAuthSettings{
		Kind: action.OAuthKind(o.Kind), ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes, Issuer: o.Issuer,
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// checkUpstream refuses what could not work or must not be, as far as the
// connector itself shows it.
func checkUpstream(c *action.Connector) error {
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		return &action.Error{Kind: action.ErrInvalid, Code: "missing_field", Field: "/url", Message: "The body lacks the field url, and no preset says it."}
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return invalid("/url", "Give url as an absolute http or https URL, such as https://mcp.example.com/mcp, without user and fragment; put a credential in a secret.")
	case c.DefaultRisk != "" && !c.DefaultRisk.Valid():
		return invalid("/default_risk", "default_risk must be one of read, write, danger.")
	}
	for tool, risk := range c.Risks {
		if !risk.Valid() {
			return invalid("/tool_risks/"+segment(tool), "The risk of a tool must be one of read, write, danger.")
		}
	}
	if err := checkHeader(c); err != nil {
		return err
	}
	if err := checkHeaders(c); err != nil {
		return err
	}
	return checkOAuth(c)
}

// checkHeader refuses headers that carry the protocol itself.
func checkHeader(c *action.Connector) error {
	if c.Header != "" && !action.HeaderName(c.Header) {
		return invalid("/header", "header must be the name of an HTTP header, such as X-Api-Key.")
	}
	if action.ReservedHeader(c.Header) {
		return invalid("/header", fmt.Sprintf("%s belongs to the protocol and cannot carry a secret.", http.CanonicalHeaderKey(c.Header)))
	}
	if !action.PlainText(c.Prefix) {
		return invalid("/prefix", "prefix must be plain text, such as \"Bearer \".")
	}
	return nil
}

// checkHeaders does so with those that are sent along.
func checkHeaders(c *action.Connector) error {
	if len(c.Headers) > 10 {
		return invalid("/headers", "At most 10 headers are sent along; leave some out.")
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		at, value := "/headers/"+segment(name), c.Headers[name]
		switch {
		case !action.HeaderName(name) || action.ReservedHeader(name):
			return invalid(at, "This cannot be sent along: name an HTTP header that is not the protocol's, such as X-Read-Only.")
		case strings.EqualFold(name, "Authorization") || strings.EqualFold(name, c.Header):
			return invalid(at, "A header that carries a credential is not sent along as it is; give the credential as secret_value.")
		case seen[strings.ToLower(name)]:
			return invalid(at, "Two headers have this name, but for upper and lower case; keep one.")
		case !action.HeaderValue(value):
			return invalid(at, "The value of a header must be plain text of 1 to 1024 characters, with no space around it.")
		}
		seen[strings.ToLower(name)] = true
	}
	return nil
}

// validScope is RFC 6749's, and no longer than a row takes.
func validScope(scope string) bool {
	return regexp.MustCompile(`^[!#-\[\]-~]{1,200}$`).MatchString(scope)
}

func checkOAuth(c *action.Connector) error {
	o := c.OAuth
	switch {
	case o == nil:
		return nil
	case c.Secret != "":
		return invalid("/oauth", "A connector sends a secret or tokens of OAuth, not both; send secret as \"\", or oauth with kind none.")
	case !o.Kind.Valid():
		return invalid("/oauth/kind", "kind must be one of authorization_code, client_credentials, none.")
	case o.Kind == action.OAuthClient && (o.ClientID == "" || o.ClientSecret == ""):
		return invalid("/oauth/client_id", "For client_credentials, give client_id and client_secret of the client that you registered at the service.")
	case len(o.ClientID) > 1024 || !action.PlainText(o.ClientID):
		return invalid("/oauth/client_id", "client_id must be plain text of at most 1024 characters.")
	case o.ClientSecret != "" && o.ClientID == "":
		return invalid("/oauth/client_id", "A client with a secret has an id; give the client_id that it was registered with.")
	case len(o.Scopes) > 50:
		return invalid("/oauth/scopes", "At most 50 scopes are asked for; leave some out.")
	case o.Issuer != "" && !validIssuer(o.Issuer):
		return invalid("/oauth/issuer", "issuer must be an https URL without query and fragment, such as https://auth.example.com.")
	}
	for i, scope := range o.Scopes {
		if !validScope(scope) {
			return invalid(fmt.Sprintf("/oauth/scopes/%d", i), "A scope is one word of at most 200 plain characters, as the service names it.")
		}
		if slices.Contains(o.Scopes[:i], scope) {
			return invalid(fmt.Sprintf("/oauth/scopes/%d", i), "This scope is in the list already; name each once.")
		}
	}
	return nil
}

func validIssuer(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && u.User == nil && !strings.Contains(text, "?") && u.Fragment == "" &&
		(u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()))
}
