package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/schedule"
	"sallyport/internal/guard"
	"sallyport/mcpserver"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// openCatalog returns the catalog of every organization's actions.
func (g *gateway) openCatalog() (*sources.Catalog, error) {
	own, err := g.platform()
	if err != nil {
		return nil, err
	}
	return sources.New(sources.Config{
		Platform:   own,
		Connectors: g.db.ListConnectors, Open: g.openConnector, Hints: g.coord, Reserved: mcpserver.BuiltinTools(), ReservedPrompts: mcpserver.PromptNames(),
		Observe: g.observe,
		Modules: g.modules, Integrations: g.db.Integrations, Session: g.sessions.snapshot, Connect: g.speak, CredentialRefused: g.tokens.Refused,
		Call: g.options.Intervals.CallTimeout,
		TTL:  g.options.Intervals.ListFor, Timeout: g.options.Intervals.ListTimeout, Log: g.log,
	})
}

// observe writes down what a connector lists. The first list may be taken as
// reviewed, which changes policy.
func (g *gateway) observe(ctx context.Context, c action.Connector, tools map[string]action.ToolVersion) error {
	changed, err := g.db.ObserveTools(ctx, c.Organization, c.ID, c.Revision, tools)
	if err == nil && changed {
		g.counts.lists.Inc()
		g.coord.Publish(action.Hint{Kind: action.HintPolicy, Organization: c.Organization})
	}
	return err
}

// openConnector returns the source of a connector. Its credential is read anew
// for each request, so that a changed one is used at once.
func (g *gateway) openConnector(c action.Connector) (sources.Source, error) {
	config := g.connectorConfig(c)
	switch {
	case c.OAuth != nil:
		g.withTokens(&config, c)
	case c.Secret != "":
		config.Secret = func(ctx context.Context) (value, host string, err error) {
			return g.secret(ctx, c.Organization, c.Secret)
		}
	}
	return connector.New(config)
}

func (g *gateway) connectorConfig(c action.Connector) connector.Config {
	return connector.Config{
		Traceparent: g.tracing.traceparent(),
		ID:          c.Source(), URL: c.URL, Header: c.Header, Prefix: c.Prefix, Headers: c.Headers, MayAsk: c.MayAsk, PerAgent: c.PerAgent,
		Guard: guard.Config{Allow: g.options.AllowUpstream}, Version: version(), Log: g.log,
	}
}

// secret opens a secret and tells the one host that may receive it.
func (g *gateway) secret(ctx context.Context, organization, key string) (value, host string, err error) {
	row, sealed, err := g.db.SecretValue(ctx, organization, key)
	if err != nil {
		return "", "", err
	}
	plain, err := g.vault.Open(secretRef(organization, key), sealed)
	if err != nil {
		return "", "", err
	}
	if now := time.Now(); row.LastUsedAt == nil || now.Sub(*row.LastUsedAt) > time.Minute {
		if err := g.db.SecretUsed(ctx, organization, key, now); err != nil {
			g.log.WarnContext(ctx, "noting that a secret was used", "key", key, "error", err)
		}
	}
	return string(plain), row.Host, nil
}

func (g *gateway) sealSecret(organization, key string, value []byte) ([]byte, error) {
	return g.vault.Seal(secretRef(organization, key), value)
}

func secretRef(organization, key string) action.Ref {
	return action.Ref{Organization: organization, Table: "secrets", Row: key, Column: "sealed"}
}

// toolNames finds what is behind the names that agents see, denied or not.
type toolNames struct{ catalog *sources.Catalog }

// Resolve implements mcpserver.Resolver.
func (n toolNames) Resolve(ctx context.Context, s *action.Session, tool string) (source, name string, err error) {
	a, err := n.catalog.Resolve(ctx, s.Organization, tool)
	if err != nil {
		return "", "", err
	}
	return a.Source, a.Name, nil
}

// ResolveResource implements mcpserver.Resolver.
func (n toolNames) ResolveResource(ctx context.Context, s *action.Session, uri string) (source, name string, err error) {
	return n.catalog.ResolveResource(ctx, s.Organization, uri)
}

// ResolvePrompt implements mcpserver.Resolver.
func (n toolNames) ResolvePrompt(ctx context.Context, s *action.Session, name string) (source, prompt string, err error) {
	return n.catalog.ResolvePrompt(ctx, s.Organization, name)
}

func (g *gateway) dashboardConfig() dashboard.Config {
	return dashboard.Config{
		Gate: g.gate, Decide: g.policies.Decide, Hints: g.coord, Guard: g.guard(), Snapshot: g.snapshot, AgentTools: g.mcp.Listed, RequestGrant: requests{g}.RequestGrant,
		People: g.db, Sessions: g.db, Calls: g.db, Policy: g.db, Sources: g.db, Inbound: g.db,
		Withdrew: g.withdrew, Used: g.sessions.use, SeenEvery: g.options.Intervals.SeenEvery, TestNotify: g.notices.Test,
		Connectors: connectors{prober{g}, g.oauth}, Presets: presets(), Connections: connections{g.tokens, g}, Providers: g.providers(),
		Files: g.files, Tokens: g.signer, Vault: g.vault, JSON: g.json,
		EventProviders: g.eventProviders(), Times: schedule.Times, RunLife: g.options.RunLife.Duration,
		SealSecret: g.sealSecret, Rotate: g.rotate, VerifyAudit: g.verifyAudit,
		OIDC: g.options.SignIn.oidc(g.guard()), LoginIdle: g.options.SignIn.LoginIdle, LoginLife: g.options.SignIn.LoginLife,
		PublicURL: g.url, Version: version(), AllowedHosts: append(slices.Clone(g.options.AllowHost), strings.TrimPrefix(g.local, "http://")), Ready: g.ready, Now: g.db.Now, Log: g.log,
	}
}
