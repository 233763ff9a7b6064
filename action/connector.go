package action

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Connector is an organization's remote MCP server.
type Connector struct {
	ID           string `json:"id" bun:"id,pk"` // a UUID; the source id is "connector:" + ID
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Name         string `json:"name"`
	Slug         string `json:"slug"` // prefix of its tools; one connector may have none
	URL          string `json:"url"`
	Header       string `json:"header,omitempty" bun:",nullzero"`           // carries the secret; empty: Authorization
	Prefix       string `json:"prefix,omitempty" bun:",nullzero"`           // text before the secret, such as "Bearer "
	Secret       string `json:"secret,omitempty" bun:"secret_key,nullzero"` // key of an organization secret; empty: no credential
	// Headers are fixed headers. They are visible to members and hold no
	// secrets.
	Headers map[string]string `json:"headers,omitempty" bun:",nullzero"`
	// OAuth configures tokens, which are used instead of a secret. Nil: no
	// OAuth.
	OAuth       *OAuthSettings `json:"oauth,omitempty" bun:"oauth"`
	DefaultRisk Risk           `json:"default_risk,omitempty" bun:",nullzero"`
	// Risks are the risks of single tools, overriding the server's hints.
	Risks  map[string]Risk `json:"tool_risks,omitempty" bun:"tool_risks,nullzero"`
	Review ReviewRule      `json:"review"` // empty: trust
	// MayAsk are the kinds of question that the server may ask the caller of
	// a running call; empty: none.
	MayAsk []AskKind `json:"may_ask,omitempty" bun:",nullzero"`
	// PerAgent opens an upstream session per agent session, for servers with
	// state. Connectors with MayAsk always do.
	PerAgent bool `json:"per_agent"`
	// PinnedProtocol is the only version of MCP to speak with the server; empty:
	// as agreed with it.
	PinnedProtocol string `json:"protocol,omitempty" bun:"protocol,nullzero"`
	Preset         string `json:"preset,omitempty" bun:",nullzero"` // that it was created from
	// Profile is how the modes of its tools were last set as a whole; empty: they
	// were not.
	Profile Profile `json:"profile,omitempty" bun:",nullzero"`
	// PresetModes are the modes that its preset proposes, by tool or pattern.
	PresetModes map[string]Mode `json:"preset_modes,omitempty" bun:"preset_modes,nullzero"`
	// TimeoutSeconds of one call; zero: the Gate's. At most [MaxTimeout].
	TimeoutSeconds int       `json:"timeout_seconds,omitempty"`
	Enabled        bool      `json:"enabled"`
	Revision       int64     `json:"revision"` // counts changes that alter what a call does
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// Source returns the connector's source id.
func (c *Connector) Source() string { return "connector:" + c.ID }

// KeepsTokens reports whether the tokens of old are valid for c: same kind,
// issuer and client, and same host.
func (c *Connector) KeepsTokens(old *Connector) bool {
	o, was := c.OAuth, old.OAuth
	return o != nil && was != nil && o.Kind == was.Kind && o.Issuer == was.Issuer && o.ClientID == was.ClientID && origin(c.URL) == origin(old.URL)
}

// origin returns the scheme and host of a URL.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// Secret describes an organization's secret. Its value is stored encrypted;
// the API can write it but not read it.
type Secret struct {
	Organization string    `json:"organization_id" bun:"organization_id,pk"`
	Key          string    `json:"key" bun:",pk"`
	Host         string    `json:"host"` // the only host, with port if any, that may receive it
	UpdatedBy    string    `json:"updated_by"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
	// LastUsedAt is when it was last used, with a precision of a minute; nil:
	// never.
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// SealedSecret is a secret with its encrypted value, written together with
// the connector that uses it.
type SealedSecret struct {
	Secret
	Sealed []byte
}

const (
	maxHeaders = 10
	maxScopes  = 50
	maxScope   = 200 // bytes
	maxPreset  = 40  // characters

	// maxRisks is how many tools of a connector can have their own risk: as
	// many as a connector can have.
	maxRisks = 2000
)

// Check validates the connector, except for what depends on stored rows:
// unique names, existing secrets, and texts that contain credentials.
func (c *Connector) Check() error {
	if strings.TrimSpace(c.Name) == "" || strings.ContainsAny(c.Name, "*/") {
		return invalidField("/name", "name must be plain text without * or /.")
	}
	return firstError(
		checkSlug(c.Slug), c.checkURL(), c.checkRisks(), CheckHeaders(c.Header, c.Prefix, c.Headers), c.checkQuestions(), checkTimeout(c.TimeoutSeconds),
		c.checkOAuth(),
	)
}

// ReservedSlug reports whether tool names with the slug would look like the
// gateway's own.
func ReservedSlug(slug string) bool {
	return slices.Contains([]string{"invocation", "actions", "grant", "gateway", Platform, "sallyport"}, slug)
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
		return &Error{Kind: ErrInvalid, Code: "missing_field", Field: "/url", Message: "The field url is missing, and no preset provides it."}
	case !AbsoluteURL(c.URL):
		return invalidField("/url", "url must be an absolute http or https URL, such as https://mcp.example.com/mcp, without user and fragment; put a credential in a secret.")
	}
	return nil
}

// checkRisks validates risks and the review rule.
func (c *Connector) checkRisks() error {
	switch {
	case c.DefaultRisk != "" && !c.DefaultRisk.Valid():
		return invalidField("/default_risk", "default_risk must be one of read, write, danger.")
	case c.Review != "" && !c.Review.Valid():
		return invalid("/review", "review must be trust, strict or required.")
	case len(c.Risks) > maxRisks:
		return invalid("/tool_risks", fmt.Sprintf("At most %d tools can have their own risk. Leave some out.", maxRisks))
	}
	for _, tool := range slices.Sorted(maps.Keys(c.Risks)) {
		switch {
		case !c.Risks[tool].Valid():
			return invalidField(pointerTo("/tool_risks", tool), "The risk of a tool must be one of read, write, danger.")
		case tool != ActionRead && tool != ActionPrompt && !regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`).MatchString(tool):
			return invalid("/tool_risks", fmt.Sprintf("%q cannot be the name of a tool: letters, digits, _, . and -, at most 128 of them.", tool))
		}
	}
	return nil
}

// CheckHeaders validates the header that carries the secret, its prefix and
// the fixed headers. Headers of HTTP and MCP themselves are refused.
func CheckHeaders(carrier, prefix string, along map[string]string) error {
	switch {
	case carrier != "" && !headerName(carrier):
		return invalidField("/header", "header must be the name of an HTTP header, such as X-Api-Key.")
	case reservedHeader(carrier):
		return invalidField("/header", fmt.Sprintf("%s belongs to the protocol and cannot carry a secret.", textproto.CanonicalMIMEHeaderKey(carrier)))
	case !PlainText(prefix):
		return invalidField("/prefix", "prefix must be plain text, such as \"Bearer \".")
	case len(along) > maxHeaders:
		return invalidField("/headers", fmt.Sprintf("A connector can send at most %d fixed headers. Leave some out.", maxHeaders))
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(along)) {
		at, value := pointerTo("/headers", name), along[name]
		switch {
		case !headerName(name) || reservedHeader(name):
			return invalidField(at, "This header cannot be set. Use an HTTP header that the protocol does not use, such as X-Read-Only.")
		case strings.EqualFold(name, "Authorization") || strings.EqualFold(name, carrier):
			return invalidField(at, "A fixed header cannot carry a credential. Send the credential with secret_value.")
		case seen[strings.ToLower(name)]:
			return invalidField(at, "Two headers have the same name except for case. Keep one.")
		case value == "" || len(value) > maxHeaderValue || value != strings.TrimSpace(value) || !PlainText(value):
			return invalidField(at, "The value of a header must be plain text of 1 to 1024 characters, with no space around it.")
		}
		seen[strings.ToLower(name)] = true
	}
	return nil
}

// Protocols returns the versions of MCP that a connector can be pinned to, the
// oldest first. From the last one on there are no sessions.
func Protocols() []string { return []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} }

// checkQuestions validates MayAsk, the protocol, the profile and the preset.
func (c *Connector) checkQuestions() error {
	if c.PinnedProtocol != "" && !slices.Contains(Protocols(), c.PinnedProtocol) {
		return invalid("/protocol", "A connector can be pinned to the protocol versions "+strings.Join(Protocols(), ", ")+".")
	}
	for i, kind := range c.MayAsk {
		field := fmt.Sprintf("/may_ask/%d", i)
		if !kind.Valid() {
			return invalid(field, "A server may ask for elicitation, url_elicitation, sampling or roots.")
		}
		if slices.Contains(c.MayAsk[:i], kind) {
			return invalid(field, "This kind of question is listed twice. List it once.")
		}
	}
	if c.Profile != "" && !c.Profile.Valid() {
		return invalid("/profile", "A profile is ask, strict, read-only or trust-hints.")
	}
	if utf8.RuneCountInString(c.Preset) > maxPreset || !isLiteral(c.Preset) {
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
		return invalidField("/oauth/client_id", "client_secret needs the client_id that the client was registered with.")
	case len(o.Scopes) > maxScopes:
		return invalidField("/oauth/scopes", fmt.Sprintf("At most %d scopes can be requested. Leave some out.", maxScopes))
	case o.Issuer != "" && (!AbsoluteURL(o.Issuer) || strings.Contains(o.Issuer, "?") || Unencrypted(o.Issuer)): // it receives credentials
		return invalidField("/oauth/issuer", "issuer must be an https URL without query and fragment, such as https://auth.example.com.")
	}
	if err := CheckScopes("/oauth/scopes", o.Scopes); err != nil {
		return err
	}
	for i, scope := range o.Scopes {
		if slices.Contains(o.Scopes[:i], scope) {
			return invalidField(fmt.Sprintf("/oauth/scopes/%d", i), "This scope is listed twice. List it once.")
		}
	}
	return nil
}

// CheckScopes refuses OAuth scopes that are invalid under RFC 6749 or too
// long.
func CheckScopes(field string, scopes []string) error {
	for i, scope := range scopes {
		if len(scope) > maxScope || !regexp.MustCompile(`^[!#-\[\]-~]+$`).MatchString(scope) {
			return invalidField(fmt.Sprintf("%s/%d", field, i), fmt.Sprintf("A scope is one word of at most %d plain characters, as the service names it.", maxScope))
		}
	}
	return nil
}

// Limits of fixed headers, in bytes.
const (
	maxHeaderName  = 100
	maxHeaderValue = 1024
)

// headerName reports whether name is a valid HTTP header name of at most 100
// bytes.
func headerName(name string) bool {
	return name != "" && len(name) <= maxHeaderName && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// PlainText reports whether text has only printable ASCII and spaces, as
// header values must. Empty text is plain.
func PlainText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// reservedHeader reports whether connectors must not set the header: HTTP,
// MCP or the gateway use it, or net/http takes it as permission to retry.
func reservedHeader(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	switch name {
	case "Host", "Connection", "Transfer-Encoding", "Content-Length", "Content-Type", "Content-Encoding",
		"Accept", "Accept-Encoding", "Trailer", "Te", "Upgrade", "Keep-Alive", "Expect", "Last-Event-Id",
		"Cookie", "Origin", "User-Agent", "Idempotency-Key", "X-Idempotency-Key":
		return true
	}
	return strings.HasPrefix(name, "Mcp-") || strings.HasPrefix(name, "Proxy-")
}

// ReviewRule is which tools of a connector a person must review.
type ReviewRule string

// The rules, mildest first. Every call of an unreviewed or changed tool needs
// at least an approval.
const (
	// ReviewTrust accepts the first list as reviewed. Changed texts are shown
	// but are no drift.
	ReviewTrust ReviewRule = "trust"
	// ReviewStrict accepts the first list as reviewed, and treats changed
	// texts as drift.
	ReviewStrict ReviewRule = "strict"
	// ReviewRequired denies calls of tools that are not reviewed, or whose
	// behaviour or texts changed.
	ReviewRequired ReviewRule = "required"
)

// Valid reports whether r is one of the three rules.
func (r ReviewRule) Valid() bool {
	return r == ReviewTrust || r == ReviewStrict || r == ReviewRequired
}

// CountsText reports whether a changed text is drift.
func (r ReviewRule) CountsText() bool { return r == ReviewStrict || r == ReviewRequired }

// ToolHashes are the hashes of a tool's definition.
type ToolHashes struct {
	Behaviour string `json:"behaviour_hash"` // name, schemas without texts, annotations
	Text      string `json:"text_hash"`      // everything else
}

// ToolVersion is a tool as a connector listed it.
type ToolVersion struct {
	ToolHashes
	Risk       Risk            `json:"risk"`       // effective risk
	Definition json.RawMessage `json:"definition"` // untrusted; the bytes of the list
}

// ReviewState is the review state of a tool.
type ReviewState string

// The states.
const (
	ToolNew      ReviewState = "new"      // never reviewed
	ToolReviewed ReviewState = "reviewed" // unchanged since the review
	ToolChanged  ReviewState = "changed"  // behaviour or text changed since the review
	ToolRemoved  ReviewState = "removed"  // no longer listed
)

// ToolReview is the review of a connector's tool.
type ToolReview struct {
	Organization string       `json:"-"`
	Connector    string       `json:"connector_id"`
	Tool         string       `json:"tool"` // the name at its server
	State        ReviewState  `json:"state"`
	Reviewed     *ToolVersion `json:"reviewed,omitempty"`    // nil: never, or not since a reset
	Current      *ToolVersion `json:"current,omitempty"`     // nil: it is not listed
	ReviewedBy   string       `json:"reviewed_by,omitempty"` // a user, or "first list" if no person reviewed it
	ReviewedAt   *time.Time   `json:"reviewed_at,omitempty"`
	SeenAt       time.Time    `json:"seen_at"` // first listed in this version
}
