package view

import (
	"context"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
)

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
