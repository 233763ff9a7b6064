package dashboard

import (
	"context"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) statisticsRoutes() {
	handle(s, api.GetStatistics, func(ctx context.Context, p *Principal, in *api.GetStatisticsInput) (api.StatisticsView, error) {
		return s.viewStatistics(ctx, p.Organization, in.Window)
	})
}

// viewStatistics adds how connectors are now.
func (s *Server) viewStatistics(ctx context.Context, organization, name string) (api.StatisticsView, error) {
	window, err := findWindow(name)
	if err != nil {
		return api.StatisticsView{}, err
	}
	kept, err := s.figures.of(ctx, s, organization, window)
	if err != nil {
		return api.StatisticsView{}, err
	}
	all, err := s.Sources.ListConnectors(ctx, organization)
	if err != nil {
		return api.StatisticsView{}, err
	}
	v := api.StatisticsView{Window: window.Name, ComputedAt: kept.at, Statistics: kept.Statistics, Sources: []api.SourceStatistics{}}
	health := map[string]api.SourceStatistics{}
	for _, c := range all {
		health[c.Source()] = s.health(ctx, c)
	}
	for _, count := range kept.Statistics.Sources {
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

// health is what is known of a connector now, without calls.
func (s *Server) health(ctx context.Context, c action.Connector) api.SourceStatistics {
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
