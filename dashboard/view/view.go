// Package view reads what both the JSON API and the web page show: rows as the
// API's types, with the names of what they refer to.
package view

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
)

// Reader reads rows of the server's organizations. It is safe for concurrent
// use.
type Reader struct{ *dashboard.Server }

// NewReader returns a reader of the server's rows.
func NewReader(server *dashboard.Server) *Reader {
	return &Reader{server}
}

// ListOf returns a complete list.
func ListOf[T any](items []T) api.List[T] {
	return api.List[T]{Items: dashboard.NonNil(items), Total: len(items)}
}

// PageOf converts a page of rows, item by item.
func PageOf[T, U any](p action.Page[T], show func(T) U) api.List[U] {
	out := api.List[U]{Items: make([]U, len(p.Items)), NextCursor: p.Next, Total: p.Total, TotalCapped: p.Capped}
	for i, item := range p.Items {
		out.Items[i] = show(item)
	}
	return out
}

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
	if name == action.Platform || name == action.Git {
		return name, nil // reserved: no connector has these slugs
	}
	module, c := s.Provider(name), FindConnector(all, name)
	switch {
	case module == nil && c == nil && strings.EqualFold(name, platformName):
		return action.Platform, nil
	case module == nil && c == nil:
		names := s.sourceNames(all)
		return name, action.Errorf(action.ErrNotFound, "no_such_source",
			"There is no source %q; sources are %s. Use the slug, name or ID of a connector, or the ID of a module.", name, strings.Join(names[:min(len(names), 30)], ", ")).WithField("/key")
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
		"Both a connector and an integration are called %q. Use %s for the connector, or %s%s for the integration.", name, c.Source(), ModulePrefix, name).WithField("/key")
}

// sourceNames returns the names of all sources, sorted.
func (s *Reader) sourceNames(all []action.Connector) (names []string) {
	for _, c := range all {
		names = append(names, render.Plain(cmp.Or(c.Slug, c.Name)))
	}
	for _, p := range s.Providers {
		names = append(names, p.ID)
	}
	names = append(names, action.Platform, action.Git)
	slices.Sort(names)
	return slices.Compact(names)
}

// ViewStatistics returns the statistics of a window with the health of connectors.
func (s *Reader) ViewStatistics(ctx context.Context, organization, name string) (api.StatisticsView, error) {
	window, err := dashboard.FindWindow(name)
	if err != nil {
		return api.StatisticsView{}, err
	}
	counted, at, err := s.CachedStatistics(ctx, organization, window)
	if err != nil {
		return api.StatisticsView{}, err
	}
	all, err := s.Sources.ListConnectors(ctx, organization)
	if err != nil {
		return api.StatisticsView{}, err
	}
	v := api.StatisticsView{Window: window.Name, ComputedAt: at, Statistics: counted, Sources: []api.SourceStatistics{}}
	health := map[string]api.SourceStatistics{}
	for _, c := range all {
		health[c.Source()] = s.health(ctx, c)
	}
	for _, count := range counted.Sources {
		source := health[count.Source]
		source.SourceCount = count
		v.Sources = append(v.Sources, source)
		delete(health, count.Source)
	}
	for _, c := range all {
		if source, ok := health[c.Source()]; ok {
			v.Sources = append(v.Sources, source)
		}
	}
	return v, nil
}

// health returns the current state of a connector without its calls.
func (s *Reader) health(ctx context.Context, c action.Connector) api.SourceStatistics {
	v := api.SourceStatistics{SourceCount: action.SourceCount{Source: c.Source(), SourceName: c.Name}}
	state := s.Connectors.State(ctx, c)
	v.Error = state.Error
	switch {
	case !c.Enabled:
		v.Health, v.Error = "disabled", ""
	case state.CircuitOpen:
		v.Health = "broken"
	case state.Error != "":
		v.Health = "failing"
	case state.FetchedAt.IsZero():
		v.Health = "unknown"
	default:
		v.Health = "ok"
	}
	return v
}
