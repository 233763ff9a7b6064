package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/dashboard/render"
)

// Prefixes that make the name of a source unambiguous.
const (
	ModulePrefix    = "module:"
	ConnectorPrefix = "connector:"
)

// platformName is the display name of the source of the gateway's own tools.
const platformName = "Sallyport"

// Source resolves a name of a source to its ID.
func (s *Reader) Source(ctx context.Context, organization, name string) (id string, all []action.Connector, err error) {
	if all, err = s.Sources.ListConnectors(ctx, organization); err != nil {
		return "", nil, err
	}
	id, err = s.sourceID(ctx, organization, name, all)
	return id, all, err
}

// sourceID returns the ID of a source. A name that a module and a connector share
// means the connector until the organization connects the module; from then on it
// is ambiguous.
func (s *Reader) sourceID(ctx context.Context, organization, name string, all []action.Connector) (string, error) {
	if id, named := strings.CutPrefix(name, ModulePrefix); named && s.Provider(id) != nil {
		return id, nil
	}
	if name == action.Platform {
		return name, nil // reserved: no connector has this slug
	}
	module, c := s.Provider(name), FindConnector(all, name)
	switch {
	case module == nil && c == nil && strings.EqualFold(name, platformName):
		return action.Platform, nil
	case module == nil && c == nil:
		return name, s.errNoSource(name, all)
	case module == nil:
		return c.Source(), nil
	case c == nil:
		return name, nil
	}
	used, err := s.Sources.ListIntegrations(ctx, organization, "")
	if err != nil {
		return name, err
	}
	if !slices.ContainsFunc(used, func(in action.Integration) bool { return in.Provider == name }) {
		return c.Source(), nil
	}
	return name, action.Errorf(action.ErrInvalid, "ambiguous_source",
		"Both a connector and an integration are called %q; name %s for the connector, %s%s for the integration.", name, c.Source(), ModulePrefix, name).WithField("/key")
}

// sourceNames returns the names of all sources, sorted.
func (s *Reader) sourceNames(all []action.Connector) (names []string) {
	for _, c := range all {
		names = append(names, render.Plain(cmp.Or(c.Slug, c.Name)))
	}
	for _, p := range s.Providers {
		names = append(names, p.ID)
	}
	names = append(names, action.Platform)
	slices.Sort(names)
	return slices.Compact(names)
}

// errNoSource lists the existing sources.
func (s *Reader) errNoSource(name string, all []action.Connector) error {
	names := s.sourceNames(all)
	there := "there is none yet"
	if len(names) > 0 {
		there = "there is " + strings.Join(names[:min(len(names), 30)], ", ")
	}
	return action.Errorf(action.ErrNotFound, "no_such_source",
		"No source is called %q: %s. Use a connector's slug, name or id, or a module's id.", name, there).WithField("/key")
}

// nameConflicts returns a warning for each module with the name of the connector.
func (s *Reader) nameConflicts(c *action.Connector) (warnings []string) {
	for _, p := range s.Providers {
		if c.Slug == p.ID || strings.EqualFold(c.Name, p.ID) {
			warnings = append(warnings, fmt.Sprintf("The gateway has a module that is called %s, too: in policy, name this connector %s, and the module %s%s.", p.ID, c.Source(), ModulePrefix, p.ID))
		}
	}
	return warnings
}
