package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/mcpserver"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// openCatalog returns the catalog of every organization's actions.
func (g *gateway) openCatalog() (*sources.Catalog, error) {
	return sources.New(g.catalogConfig(g.db.ListConnectors))
}

func (g *gateway) catalogConfig(connectors func(context.Context, string) ([]action.Connector, error)) sources.Config {
	return sources.Config{
		Connectors: connectors, Open: g.openConnector, Hints: g.hints, Reserved: mcpserver.OwnTools(),
		TTL: g.options.Intervals.ListFor, Timeout: g.options.Intervals.ListTimeout, Log: g.log,
	}
}

// openConnector returns the source of a connector. Its secret is read anew for
// each request, so that a changed one is used at once.
func (g *gateway) openConnector(c action.Connector) (sources.Source, error) {
	config := connector.Config{
		Connector: c, Allow: g.options.AllowUpstream, Log: g.log,
		Version: version(),
	}
	if c.Secret != "" {
		config.Secret = func(ctx context.Context) (value, host string, err error) {
			return g.secret(ctx, c.Organization, c.Secret)
		}
	}
	return connector.New(config)
}

// secret opens a secret and tells the one host that may receive it.
func (g *gateway) secret(ctx context.Context, organization, key string) (value, host string, err error) {
	row, sealed, err := g.db.SecretValue(ctx, organization, key)
	if err != nil {
		return "", "", err
	}
	plain, err := g.vault.Open(secretRef(organization, key), sealed)
	return string(plain), row.Host, err
}

func (g *gateway) sealSecret(organization, key string, value []byte) ([]byte, error) {
	return g.vault.Seal(secretRef(organization, key), value)
}

func secretRef(organization, key string) action.Ref {
	return action.Ref{Organization: organization, Table: "secrets", Row: key, Column: "sealed"}
}

// toolNames finds the action behind a tool name, denied ones too.
type toolNames struct{ catalog *sources.Catalog }

// Resolve implements mcpserver.Resolver.
func (n toolNames) Resolve(ctx context.Context, s *action.Session, tool string) (source, name string, err error) {
	actions, _, err := n.catalog.List(ctx, s.Organization)
	if err != nil {
		return "", "", err
	}
	for _, a := range actions {
		if a.Tool == tool {
			return a.Source, a.Name, nil
		}
	}
	return "", "", action.Errorf(action.ErrNotFound, "unknown_tool", "There is no such tool.")
}

// prober tells people what connectors are like.
type prober struct{ *gateway }

// State implements dashboard.Prober.
func (p prober) State(ctx context.Context, c action.Connector) dashboard.ConnectorState {
	states, err := p.catalog.States(ctx, c.Organization)
	if err != nil {
		return dashboard.ConnectorState{Error: action.Public(err).Message}
	}
	for _, s := range states {
		if s.Source == c.Source() {
			return p.shown(ctx, p.catalog, c, s)
		}
	}
	return dashboard.ConnectorState{}
}

// Probe implements dashboard.Prober. A connector that is not saved is asked
// through a catalog of its own.
func (p prober) Probe(ctx context.Context, c action.Connector) (dashboard.ConnectorState, error) {
	catalog := p.catalog
	if _, err := p.db.Connector(ctx, c.Organization, c.ID); errors.Is(err, action.ErrNotFound) || !c.Enabled {
		c.Enabled = true
		own, err := sources.New(p.catalogConfig(func(context.Context, string) ([]action.Connector, error) {
			return []action.Connector{c}, nil
		}))
		if err != nil {
			return dashboard.ConnectorState{}, err
		}
		defer func() { _ = own.Close() }()
		catalog = own
	}
	state, err := catalog.Refresh(ctx, c.Organization, c.Source())
	if err != nil {
		return dashboard.ConnectorState{}, err
	}
	return p.shown(ctx, catalog, c, state), nil
}

func (p prober) shown(ctx context.Context, catalog *sources.Catalog, c action.Connector, s sources.State) dashboard.ConnectorState {
	state := dashboard.ConnectorState{Warnings: s.Warnings}
	if s.Error != nil {
		state.Error = s.Error.Message
	}
	if s.FetchedAt != nil {
		state.FetchedAt = *s.FetchedAt
	}
	if actions, _, err := catalog.List(ctx, c.Organization); err == nil {
		for _, a := range actions {
			if a.Source == c.Source() {
				state.Tools = append(state.Tools, a)
			}
		}
	}
	return state
}

// reservedSlugs are prefixes that no connector may have: they would make its
// tools look like the gateway's own.
func reservedSlugs() []string {
	slugs := []string{"sallyport", "gateway", "platform"}
	for _, tool := range mcpserver.OwnTools() {
		slug, _, _ := strings.Cut(tool, "_")
		slugs = append(slugs, slug)
	}
	return slugs
}

func (g *gateway) dashboardConfig() dashboard.Config {
	return dashboard.Config{
		Gate: g.gate, Catalog: g.catalog, Decider: g.policies, Hints: g.hints,
		Sessions: sessionRows{g.db}, Secrets: g.db, Connectors: g.db, Prober: prober{g}, Overrides: overrideRows{g.db},
		Invocations: invocationRows{g.db}, Users: g.db, APIKeys: g.db, Logins: loginRows{g.db}, Tokens: g.signer,
		SealSecret: g.sealSecret, Hash: g.vault.Hash,
		PublicURL: g.url, AllowedHosts: g.options.AllowHost, Ready: g.ready, Now: time.Now, Log: g.log,
	}
}
