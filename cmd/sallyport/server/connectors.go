package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/dashboard"
	"sallyport/ingest/schedule"
	"sallyport/internal/guard"
	"sallyport/mcpserver"
	"sallyport/sources"
	"sallyport/sources/connector"
	"sallyport/sources/credential"
)

// openCatalog builds the catalog of actions of all organizations.
func (g *Gateway) openCatalog() (*sources.Catalog, error) {
	own, err := g.platform()
	if err != nil {
		return nil, err
	}
	return sources.New(sources.Config{
		Platform: own, Hidden: g.git.Actions(),
		Connectors: g.DB.ListConnectors, Open: g.openConnector, Hints: g.coord, Reserved: mcpserver.BuiltinTools(), ReservedPrompts: mcpserver.PromptNames(),
		Observe: g.observeTools,
		Modules: g.modules, Integrations: g.DB.Integrations, Session: g.sessions.snapshot, Connect: g.integrationConn, CredentialRefused: g.tokens.Refused,
		Call:   g.Options.Intervals.CallTimeout,
		Timing: g.Options.Intervals.Lists, Log: g.log,
	})
}

// observeTools records the tools that a connector lists. The first list may
// count as reviewed, which changes policy.
func (g *Gateway) observeTools(ctx context.Context, c action.Connector, tools map[string]action.ToolVersion) error {
	changed, err := g.DB.ObserveTools(ctx, c.Organization, c.ID, c.Revision, tools)
	if err == nil && changed {
		g.counts.lists.Inc()
		g.coord.Publish(action.Hint{Kind: action.HintPolicy, Organization: c.Organization})
	}
	return err
}

// openConnector returns the source of a connector. Each request reads the
// credential again, so that a new one takes effect at once.
func (g *Gateway) openConnector(c action.Connector) (sources.Source, error) {
	config := g.connectorConfig(c)
	switch {
	case c.OAuth != nil:
		g.useOAuthTokens(&config, c)
	case c.Secret != "":
		config.Secret = func(ctx context.Context) (value, host string, err error) {
			return g.secret(ctx, c.Organization, c.Secret)
		}
	}
	return connector.New(config)
}

func (g *Gateway) connectorConfig(c action.Connector) connector.Config {
	return connector.Config{
		Traceparent: g.tracing.traceparentFunc(),
		ID:          c.Source(), URL: c.URL, Header: c.Header, Prefix: c.Prefix, Headers: c.Headers, MayAsk: c.MayAsk, PerAgent: c.PerAgent, Protocol: c.PinnedProtocol,
		Guard: guard.Config{Allow: g.Options.AllowUpstream}, Version: command.Version(), Log: g.log,
	}
}

// secret decrypts a secret and returns it with the only host that may receive
// it.
func (g *Gateway) secret(ctx context.Context, organization, key string) (value, host string, err error) {
	row, sealed, err := g.DB.SecretValue(ctx, organization, key)
	if err != nil {
		return "", "", err
	}
	plain, err := g.vault.Open(secretRef(organization, key), sealed)
	if err != nil {
		return "", "", err
	}
	if now := time.Now(); row.LastUsedAt == nil || now.Sub(*row.LastUsedAt) > time.Minute {
		if err := g.DB.SecretUsed(ctx, organization, key, now); err != nil {
			g.log.WarnContext(ctx, "could not record the use of a secret", "key", key, "error", err)
		}
	}
	return string(plain), row.Host, nil
}

func (g *Gateway) sealSecret(organization, key string, value []byte) ([]byte, error) {
	return g.vault.Seal(secretRef(organization, key), value)
}

func secretRef(organization, key string) action.Ref {
	return action.Ref{Organization: organization, Table: "secrets", Row: key, Column: "sealed"}
}

// toolResolver maps the tool names that agents see to actions, denied ones
// included.
type toolResolver struct{ catalog *sources.Catalog }

// Resolve implements mcpserver.Resolver.
func (n toolResolver) Resolve(ctx context.Context, s *action.Session, tool string) (source, name string, err error) {
	a, err := n.catalog.Resolve(ctx, s.Organization, tool)
	if err != nil {
		return "", "", err
	}
	return a.Source, a.Name, nil
}

// ResolveResource implements mcpserver.Resolver.
func (n toolResolver) ResolveResource(ctx context.Context, s *action.Session, uri string) (source, name string, err error) {
	return n.catalog.ResolveResource(ctx, s.Organization, uri)
}

// ResolvePrompt implements mcpserver.Resolver.
func (n toolResolver) ResolvePrompt(ctx context.Context, s *action.Session, name string) (source, prompt string, err error) {
	return n.catalog.ResolvePrompt(ctx, s.Organization, name)
}

func (g *Gateway) dashboardConfig() dashboard.Config {
	return dashboard.Config{
		Gate: g.gate, Decide: g.policies.Decide, Hints: g.coord, Guard: g.guardConfig(), Snapshot: g.snapshot, AgentTools: g.mcp.Listed, Outages: g.catalog.Outages, RequestGrant: grantRequester{g}.RequestGrant,
		People: g.DB, Sessions: g.DB, Calls: g.DB, Policy: g.DB, Sources: g.DB, Inbound: g.DB, Models: g.DB, Workspaces: g.DB, Repositories: g,
		Withdrew: g.publishWithdrawn, Used: g.sessions.markUsed, SeenEvery: g.Options.Intervals.SeenEvery, TestNotify: g.notifier.Test,
		Connectors: connectors{prober{g}, g.oauth}, Presets: presets(), Connections: connections{g.tokens, g}, Providers: g.providers(),
		Files: g.files, Tokens: g.signer, Vault: g.vault, JSON: g.json,
		EventProviders: g.eventProviders(), Times: schedule.Times, RunLife: g.Options.RunLife.Duration,
		SealSecret: g.sealSecret, Rotate: g.rotate, VerifyAudit: g.verifyAudit,
		OIDC: g.Options.SignIn.oidc(g.guardConfig()), LoginIdle: g.Options.SignIn.LoginIdle, LoginLife: g.Options.SignIn.LoginLife,
		PublicURL: g.URL, Version: command.Version(), AllowedHosts: append(slices.Clone(g.Options.AllowHost), strings.TrimPrefix(g.loopbackURL, "http://")), Ready: g.ready, Now: g.DB.Now, Log: g.log,
	}
}

// prober reports the state of connectors and probes them.
type prober struct{ *Gateway }

// State implements dashboard.Connectors.
func (p prober) State(_ context.Context, c action.Connector) dashboard.ConnectorState {
	return connectorState(p.catalog.State(c))
}

// Probe implements dashboard.Connectors.
func (p prober) Probe(ctx context.Context, c action.Connector) (dashboard.ConnectorState, error) {
	state, err := p.catalog.Probe(ctx, c)
	return connectorState(state), err
}

// Try implements dashboard.Connectors. Its catalog is temporary, so that the
// secret is dropped with it.
func (p prober) Try(ctx context.Context, c action.Connector, secret string) (dashboard.ConnectorState, error) {
	catalog, err := sources.New(sources.Config{
		Connectors: func(context.Context, string) ([]action.Connector, error) { return nil, nil },
		Open:       func(c action.Connector) (sources.Source, error) { return p.openWithSecret(c, secret) },
		Timing:     p.Options.Intervals.Lists, Log: p.log,
	})
	if err != nil {
		return dashboard.ConnectorState{}, err
	}
	defer func() { _ = catalog.Close() }() // no longer in use
	state, err := catalog.Probe(ctx, c)
	return connectorState(state), err
}

// openWithSecret is openConnector with a secret for the connector's own host.
func (g *Gateway) openWithSecret(c action.Connector, secret string) (sources.Source, error) {
	u, err := guard.CheckURL(c.URL)
	if err != nil {
		return nil, err
	}
	config := g.connectorConfig(c)
	config.Secret = func(context.Context) (value, host string, err error) { return secret, u.Host, nil }
	return connector.New(config)
}

func connectorState(s sources.State) dashboard.ConnectorState {
	state := dashboard.ConnectorState{
		Tools: s.Actions, Warnings: s.Warnings, Protocol: s.Protocol, Server: s.Server, SharedState: s.SharedState,
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

// presets returns the known servers for the dashboard.
func presets() []api.Preset {
	known := connector.Presets()
	all := make([]api.Preset, 0, len(known))
	for _, p := range known {
		shown := api.Preset{
			Name: p.Name, Title: p.Title, URL: p.URL, Auth: authMethods(p.Auth), Header: p.Header, Prefix: p.Prefix, Registration: string(p.Registration),
			Headers: p.Headers, PerAgent: p.PerAgent, Variants: []api.PresetVariant{}, Hint: p.Hint, Unsure: p.Unsure,
			Modes: p.Modes, Known: p.Known, Servers: p.Servers,
		}
		for _, v := range p.Variants {
			shown.Variants = append(shown.Variants, api.PresetVariant{
				Name: v.Name, Title: v.Title, Region: v.Region, URL: v.URL, Headers: v.Headers, Auth: authMethods(v.Auth), Unsure: v.Unsure,
			})
		}
		all = append(all, shown)
	}
	return all
}

func authMethods(auth []connector.Auth) []string {
	var all []string
	for _, a := range auth {
		all = append(all, string(a))
	}
	return all
}

// openOAuth builds the store of connectors' OAuth tokens.
func (g *Gateway) openOAuth() (err error) {
	config := credential.Config{
		Store: g.DB, Vault: g.vault, Lock: blockingLocks{g.coord}.acquire, Guard: guard.Config{Allow: g.Options.AllowUpstream},
		RedirectURL: g.URL + "/oauth/callback", ClientSecret: g.secret, Now: g.DB.Now, Log: g.log,
	}
	if strings.HasPrefix(g.URL, "https://") { // without TLS, the document cannot be authenticated
		config.MetadataURL = g.URL + "/oauth/client.json"
	}
	g.oauth, err = credential.New(config)
	return err
}

// useOAuthTokens makes a connector send OAuth tokens instead of a secret.
func (g *Gateway) useOAuthTokens(config *connector.Config, c action.Connector) {
	config.Header, config.Prefix = "Authorization", "Bearer "
	config.Secret = func(ctx context.Context) (value, host string, err error) { return g.oauth.Token(ctx, c) }
	config.Refused = func(ctx context.Context, used string, status int, challenges []string) (again bool, err error) {
		return g.oauth.Refused(ctx, c, used, status, challenges)
	}
}

// blockingLocks waits for locks that others hold.
type blockingLocks struct{ locks }

const (
	// tokenLockTTL exceeds the duration of a renewal: two requests of ten
	// seconds each.
	tokenLockTTL      = 30 * time.Second
	lockRetryInterval = 50 * time.Millisecond
)

// acquire waits for a lock until ctx ends. Locks belong to an instance, so
// callers on the same instance must be serialized by other means.
func (p blockingLocks) acquire(ctx context.Context, name string) (unlock func(), err error) {
	for !p.Hold(ctx, name, tokenLockTTL) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockRetryInterval):
		}
	}
	return func() {
		releaseCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		p.Release(releaseCtx, name)
	}, nil
}

// connectors probes connectors and signs people in to their services.
type connectors struct {
	prober
	*credential.OAuth
}

// BeginSignIn implements dashboard.Connectors.
func (s connectors) BeginSignIn(ctx context.Context, c action.Connector, by string) (authorizeURL, issuer string, err error) {
	authorizeURL, issuer, err = s.OAuth.Begin(ctx, c, by)
	return authorizeURL, issuer, withRegistrationHint(err, c.Preset)
}

// withRegistrationHint extends an error about the OAuth client with the place to
// register one, if the connector's preset has it.
func withRegistrationHint(err error, preset string) error {
	var e *action.Error
	if !errors.As(err, &e) || e.Field != "/oauth/client_id" {
		return err
	}
	for _, p := range connector.Presets() {
		if p.Name == preset && (p.Registration == connector.RegisterStatic || p.Registration == connector.RegisterListed) {
			extended := *e
			extended.Message += " " + p.Hint
			return &extended
		}
	}
	return err
}

// Grant implements dashboard.Connectors.
func (s connectors) Grant(ctx context.Context, organization, connector string) (action.OAuthGrant, error) {
	return s.DB.OAuthGrant(ctx, organization, connector)
}

// Grants implements dashboard.Connectors.
func (s connectors) Grants(ctx context.Context, organization string) ([]action.OAuthGrant, error) {
	return s.DB.ListOAuthGrants(ctx, organization)
}

// FinishSignIn implements dashboard.Connectors. It probes the server at once,
// since earlier requests failed without the sign-in.
func (s connectors) FinishSignIn(ctx context.Context, organization, by, state, code, iss, problem string) (string, error) {
	id, err := s.OAuth.Finish(ctx, organization, by, state, code, iss, problem)
	if err != nil {
		return "", err
	}
	s.probe(ctx, organization, id)
	return id, nil
}

// probe probes a connector. The connector's state contains any error.
func (s connectors) probe(ctx context.Context, organization, id string) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	all, err := s.DB.ListConnectors(ctx, organization)
	for _, c := range all {
		if c.ID == id {
			_, err = s.Probe(ctx, c)
		}
	}
	if err != nil {
		s.log.Warn("could not probe a connector after a sign-in", "connector", id, "error", err)
	}
}
