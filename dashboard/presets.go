package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) presetRoutes() {
	handle(s, api.ListPresets, func(context.Context, *Principal, *api.None) (api.List[api.Preset], error) {
		return listOf(s.Presets), nil
	})
}

// fill gives a connector what its preset says.
func (s *Server) fill(c *action.Connector, from api.FromPreset) error {
	if from.Preset == "" {
		if from.Variant != "" {
			return invalid("/variant", "A variant is one of a preset; name the preset too.")
		}
		return nil
	}
	i := slices.IndexFunc(s.Presets, func(p api.Preset) bool { return p.Name == from.Preset })
	if i < 0 {
		return invalid("/preset", fmt.Sprintf("There is no preset %q; GET /api/v1/connectors/presets lists them.", plain(from.Preset)))
	}
	p := s.Presets[i]
	v, err := presetVariant(&p, from.Variant)
	if err != nil {
		return err
	}
	c.Preset, c.URL, c.Header, c.Prefix, c.PerAgent = p.Name, cmp.Or(v.URL, p.URL), p.Header, p.Prefix, p.PerAgent
	c.Headers = map[string]string{}
	maps.Copy(c.Headers, p.Headers)
	maps.Copy(c.Headers, v.Headers)
	return nil
}

// presetVariant returns the one of the name; empty: one that changes nothing.
func presetVariant(p *api.Preset, name string) (api.PresetVariant, error) {
	if name == "" {
		return api.PresetVariant{}, nil
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
	return api.PresetVariant{}, invalid("/variant", fmt.Sprintf("The preset %s has no variant %q; %s.", p.Name, plain(name), has))
}
