package action

import (
	"fmt"
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxHeaders = 10
	maxScopes  = 50
	maxScope   = 200 // bytes
	maxPreset  = 40  // characters

	// maxRisks is how many tools of a connector may have a risk of their own: as
	// many as are used of one.
	maxRisks = 2000
)

// Check refuses what a connector cannot be. Whether its names are taken, its
// secrets exist and its texts show a credential is for the rows to say.
func (c *Connector) Check() error {
	if strings.TrimSpace(c.Name) == "" || strings.ContainsAny(c.Name, "*/") {
		return invalidField("/name", "name must be plain text without * or /.")
	}
	return first(
		checkSlug(c.Slug), c.checkURL(), c.checkRisks(), CheckHeaders(c.Header, c.Prefix, c.Headers), c.checkQuestions(), checkTimeout(c.TimeoutSeconds),
		c.checkOAuth(),
	)
}

// ReservedSlug reports whether tools with the slug would look like the
// gateway's own.
func ReservedSlug(slug string) bool {
	return slices.Contains([]string{"invocation", "actions", "grant", "gateway", "platform", "sallyport"}, slug)
}

func checkSlug(slug string) error {
	switch {
	case slug == "":
		return nil
	case !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,14}[a-z0-9])?$`).MatchString(slug):
		return invalidField("/slug", "slug must be 1 to 16 lower-case letters, digits and dashes, such as github.")
	case ReservedSlug(slug):
		return invalidField("/slug", fmt.Sprintf("The slug %q is the gateway's own; choose another.", slug))
	}
	return nil
}

func (c *Connector) checkURL() error {
	switch {
	case c.URL == "":
		return &Error{Kind: ErrInvalid, Code: "missing_field", Field: "/url", Message: "The body lacks the field url, and no preset says it."}
	case !AbsoluteURL(c.URL):
		return invalidField("/url", "url must be an absolute http or https URL, such as https://mcp.example.com/mcp, without user and fragment; put a credential in a secret.")
	}
	return nil
}

// checkRisks is about what is thought of the tools.
func (c *Connector) checkRisks() error {
	switch {
	case c.DefaultRisk != "" && !c.DefaultRisk.Valid():
		return invalidField("/default_risk", "default_risk must be one of read, write, danger.")
	case c.Review != "" && !c.Review.Valid():
		return invalid("/review", "A rule of review is trust, strict or required.")
	case len(c.Risks) > maxRisks:
		return invalid("/tool_risks", fmt.Sprintf("At most %d tools have a risk of their own; leave some out.", maxRisks))
	}
	for _, tool := range slices.Sorted(maps.Keys(c.Risks)) {
		switch {
		case !c.Risks[tool].Valid():
			return invalidField(member("/tool_risks", tool), "The risk of a tool must be one of read, write, danger.")
		case tool != ActionRead && tool != ActionPrompt && !regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`).MatchString(tool):
			return invalid("/tool_risks", fmt.Sprintf("%q cannot be the name of a tool: letters, digits, _, . and -, at most 128 of them.", tool))
		}
	}
	return nil
}

// CheckHeaders refuses headers that HTTP or MCP need for themselves, and what is
// no header: the one that carries a secret, what stands before the secret, and
// those that are sent along as they are.
func CheckHeaders(carrier, prefix string, along map[string]string) error {
	switch {
	case carrier != "" && !headerName(carrier):
		return invalidField("/header", "header must be the name of an HTTP header, such as X-Api-Key.")
	case reservedHeader(carrier):
		return invalidField("/header", fmt.Sprintf("%s belongs to the protocol and cannot carry a secret.", textproto.CanonicalMIMEHeaderKey(carrier)))
	case !PlainText(prefix):
		return invalidField("/prefix", "prefix must be plain text, such as \"Bearer \".")
	case len(along) > maxHeaders:
		return invalidField("/headers", fmt.Sprintf("At most %d headers are sent along; leave some out.", maxHeaders))
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(along)) {
		at := member("/headers", name)
		switch {
		case !headerName(name) || reservedHeader(name):
			return invalidField(at, "This cannot be sent along: name an HTTP header that is not the protocol's, such as X-Read-Only.")
		case strings.EqualFold(name, "Authorization") || strings.EqualFold(name, carrier):
			return invalidField(at, "A header that carries a credential is not sent as it is; send the credential with secret_value.")
		case seen[strings.ToLower(name)]:
			return invalidField(at, "Two headers have this name, but for upper and lower case; keep one.")
		case !headerValue(along[name]):
			return invalidField(at, "The value of a header must be plain text of 1 to 1024 characters, with no space around it.")
		}
		seen[strings.ToLower(name)] = true
	}
	return nil
}

// checkQuestions is about what the server may ask, and from what the connector
// was made.
func (c *Connector) checkQuestions() error {
	for i, kind := range c.MayAsk {
		field := fmt.Sprintf("/may_ask/%d", i)
		if !kind.Valid() {
			return invalid(field, "A server may ask for elicitation, url_elicitation, sampling or roots.")
		}
		if slices.Contains(c.MayAsk[:i], kind) {
			return invalid(field, "This kind of question is in the list already; name each once.")
		}
	}
	if utf8.RuneCountInString(c.Preset) > maxPreset || !literal(c.Preset) {
		return invalid("/preset", fmt.Sprintf("The name of a preset has at most %d characters.", maxPreset))
	}
	return nil
}

func (c *Connector) checkOAuth() error {
	o := c.OAuth
	switch {
	case o == nil:
		return nil
	case c.Secret != "":
		return invalidField("/oauth", "A connector sends a secret or OAuth tokens, not both; set `secret` to \"\", or oauth.kind to none.")
	case !o.Kind.Valid():
		return invalidField("/oauth/kind", "kind must be one of authorization_code, client_credentials, none.")
	case o.Kind == OAuthClient && (o.ClientID == "" || o.ClientSecret == ""):
		return invalidField("/oauth/client_id", "For oauth.kind client_credentials, give client_id and client_secret of the client that you registered at the service.")
	case len(o.ClientID) > maxClientID || !PlainText(o.ClientID):
		return invalidField("/oauth/client_id", fmt.Sprintf("client_id must be plain text of at most %d characters.", maxClientID))
	case o.ClientSecret != "" && o.ClientID == "":
		return invalidField("/oauth/client_id", "A client with a secret has an id; give the client_id that it was registered with.")
	case len(o.Scopes) > maxScopes:
		return invalidField("/oauth/scopes", fmt.Sprintf("At most %d scopes are asked for; leave some out.", maxScopes))
	case o.Issuer != "" && !validIssuer(o.Issuer):
		return invalidField("/oauth/issuer", "issuer must be an https URL without query and fragment, such as https://auth.example.com.")
	}
	if err := CheckScopes("/oauth/scopes", o.Scopes); err != nil {
		return err
	}
	for i, scope := range o.Scopes {
		if slices.Contains(o.Scopes[:i], scope) {
			return invalidField(fmt.Sprintf("/oauth/scopes/%d", i), "This scope is in the list already; name each once.")
		}
	}
	return nil
}

// CheckScopes refuses scopes of OAuth that RFC 6749 does not know, or that are
// too long for a row.
func CheckScopes(field string, scopes []string) error {
	for i, scope := range scopes {
		if len(scope) > maxScope || !regexp.MustCompile(`^[!#-\[\]-~]+$`).MatchString(scope) {
			return invalidField(fmt.Sprintf("%s/%d", field, i), fmt.Sprintf("A scope is one word of at most %d plain characters, as the service names it.", maxScope))
		}
	}
	return nil
}

// validIssuer reports whether an authorization server may be asked there: it
// receives credentials.
func validIssuer(text string) bool {
	return AbsoluteURL(text) && !strings.Contains(text, "?") && !Exposed(text)
}
