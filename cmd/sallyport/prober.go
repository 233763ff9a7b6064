package main

import (
	"context"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/internal/guard"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// prober tells people what connectors are like.
type prober struct{ *gateway }

// State implements dashboard.Connectors.
func (p prober) State(_ context.Context, c action.Connector) dashboard.ConnectorState {
	return shown(p.catalog.State(c))
}

// Probe implements dashboard.Connectors.
func (p prober) Probe(ctx context.Context, c action.Connector) (dashboard.ConnectorState, error) {
	state, err := p.catalog.Probe(ctx, c)
	return shown(state), err
}

// Try implements dashboard.Connectors. It has a catalog of its own, which ends
// with it, and the secret with that.
func (p prober) Try(ctx context.Context, c action.Connector, secret string) (dashboard.ConnectorState, error) {
	catalog, err := sources.New(sources.Config{
		Connectors: func(context.Context, string) ([]action.Connector, error) { return nil, nil },
		Open:       func(c action.Connector) (sources.Source, error) { return p.openWith(c, secret) },
		Timeout:    p.options.Intervals.ListTimeout, Log: p.log,
	})
	if err != nil {
		return dashboard.ConnectorState{}, err
	}
	defer func() { _ = catalog.Close() }() // it is asked for no more
	state, err := catalog.Probe(ctx, c)
	return shown(state), err
}

// openWith is openConnector with a secret for the connector's own host.
func (g *gateway) openWith(c action.Connector, secret string) (sources.Source, error) {
	u, err := guard.CheckURL(c.URL)
	if err != nil {
		return nil, err
	}
	config := g.connectorConfig(c)
	config.Secret = func(context.Context) (value, host string, err error) { return secret, u.Host, nil }
	return connector.New(config)
}

func shown(s sources.State) dashboard.ConnectorState {
	state := dashboard.ConnectorState{
		Tools: s.Actions, Warnings: s.Warnings, Protocol: s.Protocol,
		Resources: s.Resources, Templates: s.Templates, Prompts: s.Prompts, CircuitOpen: s.CircuitOpen,
	}
	if s.Error != nil {
		state.Error, state.Diagnosis = s.Error.Message, &api.Diagnosis{Code: s.Error.Code, Message: s.Error.Message}
	}
	if s.FetchedAt != nil {
		state.FetchedAt = *s.FetchedAt
	}
	if s.RetryAt != nil {
		state.RetryAt = *s.RetryAt
	}
	for _, step := range s.Steps {
		state.Steps = append(state.Steps, dashboard.Step(step))
	}
	return state
}

// presets are the known servers, as the dashboard names them.
func presets() []api.Preset {
	known := connector.Presets()
	all := make([]api.Preset, 0, len(known))
	for _, p := range known {
		shown := api.Preset{
			Name: p.Name, Title: p.Title, URL: p.URL, Auth: ways(p.Auth), Header: p.Header, Prefix: p.Prefix, Registration: string(p.Registration),
			Headers: p.Headers, PerAgent: p.PerAgent, Variants: []api.PresetVariant{}, Hint: p.Hint, Unsure: p.Unsure,
		}
		for _, v := range p.Variants {
			shown.Variants = append(shown.Variants, api.PresetVariant{
				Name: v.Name, Title: v.Title, Region: v.Region, URL: v.URL, Headers: v.Headers, Auth: ways(v.Auth), Unsure: v.Unsure,
			})
		}
		all = append(all, shown)
	}
	return all
}

func ways(auth []connector.Auth) []string {
	var all []string
	for _, a := range auth {
		all = append(all, string(a))
	}
	return all
}
