package connector

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
)

//go:embed presets.json
var presets []byte

// Preset describes a public MCP server. To add one, edit presets.json.
type Preset struct {
	Name  string `json:"name"` // "custom" is the one for all others
	Title string `json:"title"`
	URL   string `json:"url"` // with its query; empty for "custom"

	Auth   []Auth `json:"auth"`             // supported, the preferred one first
	Header string `json:"header,omitempty"` // for a secret; empty: Authorization
	Prefix string `json:"prefix,omitempty"` // precedes a secret, including its space
	// Registration is how the gateway gets an OAuth client there; empty: no
	// OAuth.
	Registration Registration      `json:"registration,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`   // sent unchanged
	PerAgent     bool              `json:"per_agent,omitempty"` // the server keeps session state

	// Modes are those that people would choose for its tools, by name or pattern,
	// where the hints of the server are missing or careless.
	Modes map[string]action.Mode `json:"modes,omitempty"`
	// Known are names of tools by which its server is recognized at any URL. Three
	// must be listed, or all if there are fewer.
	Known []string `json:"known,omitempty"`
	// Servers are names that its servers give themselves (serverInfo.name), by which
	// they are recognized where fewer of those tools are listed.
	Servers []string `json:"servers,omitempty"`

	Variants []Variant `json:"variants,omitempty"`
	Hint     string    `json:"hint"` // where to get its credential, for people
	// Unsure are the fields above that its documentation does not confirm:
	// people are told to check it.
	Unsure []string `json:"unsure,omitempty"`
}

// Auth is a way to authenticate to a server.
type Auth string

// Authentication methods.
const (
	AuthNone   Auth = "none"
	AuthSecret Auth = "secret"
	AuthOAuth  Auth = "oauth"
)

// Registration is how an authorization server gets to know a client.
type Registration string

// Registration methods.
const (
	RegisterDynamic Registration = "dynamic"      // automatic
	RegisterStatic  Registration = "static"       // by a person, at the service
	RegisterListed  Registration = "allow_listed" // the service must allow the client
)

// Variant is a variation of a preset, such as another region or a read-only
// one.
type Variant struct {
	Name    string            `json:"name"`
	Title   string            `json:"title"`
	Region  bool              `json:"region,omitempty"`
	URL     string            `json:"url,omitempty"`     // empty: the preset's
	Headers map[string]string `json:"headers,omitempty"` // in addition to the preset's
	Auth    []Auth            `json:"auth,omitempty"`    // empty: the preset's
	Unsure  bool              `json:"unsure,omitempty"`  // as [Preset.Unsure], of the whole
}

// Presets returns all presets by name, "custom" last. The caller can modify
// them.
func Presets() []Preset {
	var all []Preset
	if err := json.Unmarshal(presets, &all); err != nil {
		panic("connector: presets.json: " + err.Error()) // a test reads it too
	}
	return all
}

// Apply returns a connector with the fields that the preset fills, with the
// named variant or, for "", none: Preset, URL, Header, Prefix, Headers and
// PerAgent.
func (p Preset) Apply(variant string) (action.Connector, error) {
	c := action.Connector{Preset: p.Name, URL: p.URL, Header: p.Header, Prefix: p.Prefix, Headers: maps.Clone(p.Headers), PerAgent: p.PerAgent}
	if variant == "" {
		return c, nil
	}
	at := slices.IndexFunc(p.Variants, func(v Variant) bool { return v.Name == variant })
	if at < 0 {
		return action.Connector{}, p.noVariant(variant)
	}
	v := p.Variants[at]
	if v.URL != "" {
		c.URL = v.URL
	}
	if c.Headers == nil {
		c.Headers = v.Headers
	} else {
		maps.Copy(c.Headers, v.Headers)
	}
	return c, nil
}

func (p Preset) noVariant(variant string) error {
	has := "leave it out, it has none"
	if len(p.Variants) > 0 {
		var names []string
		for _, v := range p.Variants {
			names = append(names, v.Name)
		}
		has = "it has " + strings.Join(names, ", ")
	}
	err := action.NewError("unknown_variant", p.Name, variant, has)
	err.Field = "/variant"
	return err
}
