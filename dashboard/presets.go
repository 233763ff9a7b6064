package dashboard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
)

// FromPreset says from which preset a connector is made. What is said beside
// it goes before what the preset says.
type FromPreset struct {
	Preset  string `json:"preset,omitempty" maxLength:"40" doc:"Gives url, header, prefix, headers and per_agent, where they are not said here." example:"linear"`
	Variant string `json:"variant,omitempty" maxLength:"40" doc:"Of the preset: a region, or what only reads." example:"read-only"`
}

// Preset is what is known of a public MCP server, so that nobody has to look
// it up.
type Preset struct {
	Name         string            `json:"name" doc:"Name it as preset when a connector is added." example:"linear"`
	Title        string            `json:"title" example:"Linear"`
	URL          string            `json:"url" doc:"Empty: yours to give." example:"https://mcp.linear.app/mcp"`
	Auth         []string          `json:"auth" nullable:"false" enum:"none,secret,oauth" doc:"What it takes; the first is the one to choose."`
	Header       string            `json:"header,omitempty" doc:"That carries a secret; absent: Authorization."`
	Prefix       string            `json:"prefix,omitempty" doc:"Before a secret." example:"Bearer "`
	Registration string            `json:"registration,omitempty" enum:"dynamic,static,allow_listed" doc:"How a client of its OAuth comes to be: by itself, by a person at the service, or by the service alone."`
	Headers      map[string]string `json:"headers,omitempty" nullable:"false" doc:"Sent along as they are."`
	PerAgent     bool              `json:"per_agent,omitempty" doc:"It keeps state of a session."`
	Variants     []PresetVariant   `json:"variants" nullable:"false"`
	Hint         string            `json:"hint" doc:"Where its credential comes from."`
	Unsure       []string          `json:"unsure,omitempty" nullable:"false" doc:"Fields that its own documentation was not seen to say: look there."`
}

// PresetVariant is a preset with a difference: another region, or only what
// reads.
type PresetVariant struct {
	Name    string            `json:"name" example:"read-only"`
	Title   string            `json:"title"`
	Region  bool              `json:"region,omitempty"`
	URL     string            `json:"url,omitempty" doc:"Absent: the preset's."`
	Headers map[string]string `json:"headers,omitempty" nullable:"false" doc:"Beside the preset's."`
	Auth    []string          `json:"auth,omitempty" nullable:"false" doc:"Absent: the preset's."`
	Unsure  bool              `json:"unsure,omitempty"`
}

func (s *Server) presetRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/connectors/presets", tag: "connectors", summary: "List known servers",
	}, func(context.Context, *Principal, *none) (*body[List[Preset]], error) {
		return listOf(s.Presets), nil
	})
}

// fill gives a connector what its preset says.
func (s *Server) fill(c *action.Connector, from FromPreset) error {
	if from.Preset == "" {
		if from.Variant != "" {
			return invalid("/variant", "A variant is one of a preset; name the preset too.")
		}
		return nil
	}
	i := slices.IndexFunc(s.Presets, func(p Preset) bool { return p.Name == from.Preset })
	if i < 0 {
		return invalid("/preset", fmt.Sprintf("There is no preset %q; GET /api/v1/connectors/presets lists them.", plain(from.Preset)))
	}
	p := s.Presets[i]
	v, err := p.variant(from.Variant)
	if err != nil {
		return err
	}
	c.Preset, c.URL, c.Header, c.Prefix, c.PerAgent = p.Name, or(v.URL, p.URL), p.Header, p.Prefix, p.PerAgent
	c.Headers = map[string]string{}
	maps.Copy(c.Headers, p.Headers)
	maps.Copy(c.Headers, v.Headers)
	return nil
}

// variant returns the one of the name; empty: one that changes nothing.
func (p *Preset) variant(name string) (PresetVariant, error) {
	if name == "" {
		return PresetVariant{}, nil
	}
	names := make([]string, len(p.Variants))
	for i, v := range p.Variants {
		if v.Name == name {
			return v, nil
		}
		names[i] = v.Name
	}
	has := "leave it out, it has none"
	if len(names) > 0 {
		has = "it has " + strings.Join(names, ", ")
	}
	return PresetVariant{}, invalid("/variant", fmt.Sprintf("The preset %s has no variant %q; %s.", p.Name, plain(name), has))
}
