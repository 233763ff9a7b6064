package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/guard"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/cloudlogs"
	"sallyport/sources/credential"
	"sallyport/sources/github"
	"sallyport/sources/gmail"
	"sallyport/sources/linear"
	"sallyport/sources/sentry"
	"sallyport/sources/slack"
	"sallyport/store"
)

// logsID is the id of the module for log files.
const logsID = "cloudlogs"

// openIntegrations builds the modules, and what has their credentials.
func (g *gateway) openIntegrations(context.Context) (err error) {
	g.modules = services()
	if len(g.options.Logs) > 0 {
		logs, err := cloudlogs.New(cloudlogs.Config{
			Services: g.options.Logs, MaxRange: g.options.LogsRange, MaxEntries: g.options.LogsEntries, Now: g.db.Now, Log: g.log,
		})
		if err != nil {
			return fmt.Errorf("--logs: %w", err)
		}
		g.modules = append(g.modules, logs)
	}
	g.outbound = outbound.New(outbound.Config{
		Guard: g.guard(), UserAgent: "sallyport/" + version(), Traceparent: g.tracing.traceparent(), Log: g.log,
	})
	g.tokens, err = credential.NewTokens(credential.TokensConfig{
		Store: g.db, Vault: g.vault, Lock: patient{g.coord}.lock, Modules: g.modules, HTTP: g.outbound,
		RedirectURL: g.url + "/oauth/callback", Changed: g.integrationChanged, Now: g.db.Now, Log: g.log,
	})
	return err
}

// services are the modules that need nothing of the operator.
func services() []*sources.Module {
	return []*sources.Module{linear.Module(), sentry.Module(), slack.Module(), github.Module(), gmail.Module()}
}

// integrationChanged has everybody decide and list anew.
func (g *gateway) integrationChanged(organization string) {
	for _, kind := range []action.HintKind{action.HintPolicy, action.HintCatalog} {
		g.coord.Publish(action.Hint{Kind: kind, Organization: organization})
	}
}

// connections are the tokens, but for what only the operator gives away.
type connections struct {
	*credential.Tokens
	*gateway
}

// Connect implements dashboard.Connections.
func (c connections) Connect(ctx context.Context, w action.Wanted) (action.Integration, error) {
	if err := c.offered(w.Provider, w.Organization); err != nil {
		return action.Integration{}, err
	}
	return c.Tokens.Connect(ctx, w)
}

// Unusable implements dashboard.Connections.
func (c connections) Unusable(ctx context.Context, in action.Integration) string {
	if err := c.offered(in.Provider, in.Organization); err != nil {
		return action.Public(err).Message
	}
	_, err := c.Tokens.Conn(ctx, in)
	var e *action.Error
	if errors.As(err, &e) && slices.Contains([]string{sources.FaultReconnect, sources.FaultCredential, sources.FaultConfig}, e.Code) {
		return e.Message
	}
	return ""
}

// speak returns what a module needs to speak for an integration.
func (g *gateway) speak(ctx context.Context, in action.Integration) (*sources.Conn, error) {
	if err := g.offered(in.Provider, in.Organization); err != nil {
		return nil, err
	}
	return g.tokens.Conn(ctx, in)
}

// offered refuses what the operator does not offer to the organization, now.
func (g *gateway) offered(provider, organization string) error {
	if provider != logsID || g.readsLogs(organization) {
		return nil
	}
	return action.NewError("logs_not_offered", organization)
}

// readsLogs reports whether the organization may connect to the logs: those of
// the machine are the operator's, whose organization is the first.
func (g *gateway) readsLogs(organization string) bool {
	if len(g.options.LogsFor) == 0 {
		return organization == store.DefaultOrganization
	}
	return slices.Contains(g.options.LogsFor, organization)
}

// providers are the modules, as the dashboard names them.
func (g *gateway) providers() []api.Provider {
	all := make([]api.Provider, 0, len(g.modules))
	for _, m := range g.modules {
		p := api.Provider{
			ID: m.ID, Title: m.Title, About: m.About, Guide: m.Guide, BaseURL: m.BaseURL, Settings: m.Settings,
			Needs: []api.ProviderNeed{}, Actions: []api.ProviderAction{}, Metadata: m.Metadata != nil, Many: m.Choose != nil,
			CheckSettings: m.CheckSettings,
		}
		for _, n := range m.Needs {
			p.Needs = append(p.Needs, api.ProviderNeed{
				Kind: n.Kind, Users: n.Users, App: n.Kind == action.KindOAuth2 || n.Kind == action.KindApp, Scopes: n.Scopes, Hint: n.Hint,
			})
		}
		for _, a := range m.Actions {
			p.Actions = append(p.Actions, api.ProviderAction{
				Name: a.Name, Title: a.Title, Description: a.Description, Risk: a.Risk, Level: a.Risk.Level(), Idempotent: a.Idempotent, Input: a.Input,
			})
		}
		all = append(all, p)
	}
	return all
}

// guard says what may be reached outside.
func (g *gateway) guard() guard.Config { return guard.Config{Allow: g.options.AllowUpstream} }
