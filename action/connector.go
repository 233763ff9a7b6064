package action

import (
	"net/url"
	"strings"
	"time"
)

// Connector is an organization's remote MCP server.
type Connector struct {
	ID           string `json:"id" bun:"id,pk"` // a UUID; the source id is "connector:" + ID
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Name         string `json:"name"`
	Slug         string `json:"slug"` // prefix of its tools; one connector may have none
	URL          string `json:"url"`
	Header       string `json:"header,omitempty" bun:",nullzero"`           // for the secret; empty: Authorization
	Prefix       string `json:"prefix,omitempty" bun:",nullzero"`           // before the secret, such as "Bearer "
	Secret       string `json:"secret,omitempty" bun:"secret_key,nullzero"` // key of an organization secret; empty: no credential
	// Headers are sent along as they are, and shown: they hold no secret.
	Headers map[string]string `json:"headers,omitempty" bun:",nullzero"`
	// OAuth says how tokens are had that are sent instead of a secret. Nil:
	// they are not.
	OAuth       *OAuthSettings `json:"oauth,omitempty" bun:"oauth"`
	DefaultRisk Risk           `json:"default_risk,omitempty" bun:",nullzero"`
	// Risks are those of single tools, which go before what the server says.
	Risks  map[string]Risk `json:"tool_risks,omitempty" bun:"tool_risks,nullzero"`
	Review ReviewRule      `json:"review"` // empty: trust
	// MayAsk are the kinds of question that the server may put to the caller of
	// a call that runs; empty: none.
	MayAsk []AskKind `json:"may_ask,omitempty" bun:",nullzero"`
	// PerAgent gives each agent's session a session of its own at the server,
	// as servers need that keep state. One that may ask has that in any case.
	PerAgent bool   `json:"per_agent"`
	Preset   string `json:"preset,omitempty" bun:",nullzero"` // from which it was made
	// TimeoutSeconds of one call; zero: the Gate's. At most [MaxTimeout].
	TimeoutSeconds int       `json:"timeout_seconds,omitempty"`
	Enabled        bool      `json:"enabled"`
	Revision       int64     `json:"revision"` // counts changes that alter what a call does
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// Source returns the connector's source id.
func (c *Connector) Source() string { return "connector:" + c.ID }

// KeepsTokens reports whether tokens that were had for old are for c, too: the
// same kind and client at the same authorization server, for the same host.
func (c *Connector) KeepsTokens(old *Connector) bool {
	o, was := c.OAuth, old.OAuth
	return o != nil && was != nil && o.Kind == was.Kind && o.Issuer == was.Issuer && o.ClientID == was.ClientID && origin(c.URL) == origin(old.URL)
}

// origin is the scheme and host of a URL.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// Secret is what people may know of an organization's secret. Its value is
// sealed, written over the API and never read over it.
type Secret struct {
	Organization string    `json:"organization_id"`
	Key          string    `json:"key"`
	Host         string    `json:"host"` // the one host, with port if any, that may receive it
	UpdatedBy    string    `json:"updated_by"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
	// LastUsedAt is when it was last read to be sent, to within a minute; nil:
	// never.
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// SealedSecret is a secret with its sealed value, written together with the
// connector that sends it.
type SealedSecret struct {
	Secret
	Sealed []byte
}
