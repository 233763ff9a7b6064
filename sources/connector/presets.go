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

// Preset is what is known of a public MCP server, so that nobody has to look
// it up. To add one, add it to presets.json.
type Preset struct {
	Name  string `json:"name"` // "custom" is the one for all others
	Title string `json:"title"`
	URL   string `json:"url"` // with its query; empty for "custom"

	Auth   []Auth `json:"auth"`             // what it takes; the first is the one to offer
	Header string `json:"header,omitempty"` // for a secret; empty: Authorization
	Prefix string `json:"prefix,omitempty"` // before a secret, with the space that belongs to it
	// Registration is how a client of its OAuth comes to be; empty without.
	Registration Registration      `json:"registration,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`   // sent along as they are
	PerAgent     bool              `json:"per_agent,omitempty"` // it keeps state of a session

	Variants []Variant `json:"variants,omitempty"`
	Hint     string    `json:"hint"` // where its credential comes from, for people
	// Unsure are those fields above that its own documentation was not seen to
	// say: people are told to look there.
	Unsure []string `json:"unsure,omitempty"`
}

// Auth is a way to authenticate to a server.
type Auth string

// The ways.
const (
	AuthNone   Auth = "none"
	AuthSecret Auth = "secret"
	AuthOAuth  Auth = "oauth"
)

// Registration is how an authorization server comes to know a client.
type Registration string

// The ways of registration.
const (
	RegisterDynamic Registration = "dynamic"      // by itself
	RegisterStatic  Registration = "static"       // a person does it, at the service
	RegisterListed  Registration = "allow_listed" // the service itself has to allow the client
)

// Variant is a preset with a difference: another region, or only what reads.
type Variant struct {
	Name    string            `json:"name"`
	Title   string            `json:"title"`
	Region  bool              `json:"region,omitempty"`
	URL     string            `json:"url,omitempty"`     // empty: the preset's
	Headers map[string]string `json:"headers,omitempty"` // beside the preset's
	Auth    []Auth            `json:"auth,omitempty"`    // empty: the preset's
	Unsure  bool              `json:"unsure,omitempty"`  // as [Preset.Unsure], of the whole
}

// Presets returns all presets by name, "custom" last. The caller may change
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
