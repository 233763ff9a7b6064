package dashboard

import (
	"context"
	"time"

	"sallyport/action"
)

// StatisticsView is what the charts are made of.
type StatisticsView struct {
	Window     string    `json:"window" enum:"1h,24h,7d,30d" example:"24h"`
	ComputedAt time.Time `json:"computed_at" doc:"When rows were last looked at: some seconds ago at most, or a little longer where that took long."`
	action.Statistics
	Sources []SourceStatistics `json:"sources" nullable:"false" doc:"Those with the most calls first, at most 50; then connectors without any."`
}

// SourceStatistics is how a source does.
type SourceStatistics struct {
	action.SourceCount
	Health string `json:"health,omitempty" enum:"ok,failing,broken,disabled,unknown" doc:"Of a connector, now: its tools can be listed; the last attempt failed; it failed so often that its calls fail at once; it is turned off; it was not asked yet. Absent: it is no connector that there is."`
	Error  string `json:"error,omitempty" doc:"Why its tools cannot be listed."`
}

func (s *Server) statisticsRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/statistics", tag: "invocations", summary: "Count calls by time, action, source and outcome",
		doc: "Of the calls that were made in the window, which begins and ends with whole buckets. Where there are very many, only the newest ones are counted: 50,000 of all, 10,000 of the held ones and as many of the denied ones; `capped` and `since` tell.",
	}, func(ctx context.Context, p *Principal, in *struct {
		Window string `query:"window" enum:"1h,24h,7d,30d" default:"24h" doc:"How far back."`
	},
	) (*body[StatisticsView], error) {
		v, err := s.viewStatistics(ctx, p.Organization, in.Window)
		return bodyOf(v), err
	})
}

// viewStatistics adds how connectors are now.
func (s *Server) viewStatistics(ctx context.Context, organization, name string) (StatisticsView, error) {
	window, err := findWindow(name)
	if err != nil {
		return StatisticsView{}, err
	}
	kept, err := s.figures.of(ctx, s, organization, window)
	if err != nil {
		return StatisticsView{}, err
	}
	all, err := s.Connectors.ListConnectors(ctx, organization)
	if err != nil {
		return StatisticsView{}, err
	}
	v := StatisticsView{Window: window.Name, ComputedAt: kept.at, Statistics: kept.Statistics, Sources: []SourceStatistics{}}
	health := map[string]SourceStatistics{}
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
func (s *Server) health(ctx context.Context, c action.Connector) SourceStatistics {
	v := SourceStatistics{SourceCount: action.SourceCount{Source: c.Source(), SourceName: c.Name}}
	state := s.Prober.State(ctx, c)
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
