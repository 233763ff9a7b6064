package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/dashboard/notify"
	"sallyport/internal/guard"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/cloudlogs"
	"sallyport/sources/credential"
	"sallyport/sources/github"
	"sallyport/sources/gmail"
	"sallyport/sources/linear"
	"sallyport/sources/platform"
	"sallyport/sources/sentry"
	"sallyport/sources/slack"
	"sallyport/store"
)

// logsID is the ID of the module for log files.
const logsID = "cloudlogs"

// openIntegrations builds the modules and the store of their credentials.
func (g *Gateway) openIntegrations(context.Context) (err error) {
	g.modules = builtinModules()
	if len(g.Options.Logs) > 0 {
		logs, err := cloudlogs.New(cloudlogs.Config{
			Services: g.Options.Logs, MaxRange: g.Options.LogsRange, MaxEntries: g.Options.LogsEntries, Now: g.DB.Now, Log: g.log,
		})
		if err != nil {
			return fmt.Errorf("--logs: %w", err)
		}
		g.modules = append(g.modules, logs)
	}
	g.outbound = outbound.New(outbound.Config{
		Guard: g.guardConfig(), UserAgent: "sallyport/" + command.Version(), Traceparent: g.tracing.traceparentFunc(), Log: g.log,
	})
	g.tokens, err = credential.NewTokens(credential.TokensConfig{
		Store: g.DB, Vault: g.vault, Lock: blockingLocks{g.coord}.acquire, Modules: g.modules, HTTP: g.outbound,
		RedirectURL: g.URL + "/oauth/callback", Changed: g.integrationChanged, Now: g.DB.Now, Log: g.log,
	})
	return err
}

// builtinModules returns the modules that need no configuration by the
// operator.
func builtinModules() []*sources.Module {
	return []*sources.Module{linear.Module(), sentry.Module(), slack.Module(), github.Module(), gmail.Module()}
}

// integrationChanged makes all instances reload policy and the catalog.
func (g *Gateway) integrationChanged(organization string) {
	for _, kind := range []action.HintKind{action.HintPolicy, action.HintCatalog} {
		g.coord.Publish(action.Hint{Kind: kind, Organization: organization})
	}
}

// connections restricts [credential.Tokens] to the services that the operator
// offers.
type connections struct {
	*credential.Tokens
	*Gateway
}

// Connect implements dashboard.Connections.
func (c connections) Connect(ctx context.Context, w action.ConnectRequest) (action.Integration, error) {
	if err := c.checkOffered(w.Provider, w.Organization); err != nil {
		return action.Integration{}, err
	}
	return c.Tokens.Connect(ctx, w)
}

// Unusable implements dashboard.Connections.
func (c connections) Unusable(ctx context.Context, in action.Integration) string {
	if err := c.checkOffered(in.Provider, in.Organization); err != nil {
		return action.Public(err).Message
	}
	_, err := c.Tokens.Conn(ctx, in)
	var e *action.Error
	if errors.As(err, &e) && slices.Contains([]string{sources.FaultReconnect, sources.FaultCredential, sources.FaultConfig}, e.Code) {
		return e.Message
	}
	return ""
}

// integrationConn returns the connection of a module for an integration.
func (g *Gateway) integrationConn(ctx context.Context, in action.Integration) (*sources.Conn, error) {
	if err := g.checkOffered(in.Provider, in.Organization); err != nil {
		return nil, err
	}
	return g.tokens.Conn(ctx, in)
}

// checkOffered returns an error if the operator does not offer the provider to
// the organization.
func (g *Gateway) checkOffered(provider, organization string) error {
	if provider != logsID || g.mayUseLogs(organization) {
		return nil
	}
	return action.NewError("logs_not_offered", organization)
}

// mayUseLogs reports whether the organization can connect to the logs. By
// default only the operator's organization can.
func (g *Gateway) mayUseLogs(organization string) bool {
	if len(g.Options.LogsFor) == 0 {
		return organization == store.DefaultOrganization
	}
	return slices.Contains(g.Options.LogsFor, organization)
}

// providers returns the modules for the dashboard.
func (g *Gateway) providers() []api.Provider {
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

// guardConfig returns the rules for outbound addresses.
func (g *Gateway) guardConfig() guard.Config { return guard.Config{Allow: g.Options.AllowUpstream} }

// noticeRetention is how long people see the notifications of ended calls.
const noticeRetention = 7 * 24 * time.Hour

// notifier notifies approvers of pending approvals in other services.
type notifier struct {
	*notify.Sender
	sender runSender
}

func (g *Gateway) openNotifier() error {
	n := &notifier{sender: newRunSender(g.guardConfig())}
	var err error
	n.Sender, err = notify.New(notify.Config{
		Rows: g.DB, Vault: g.vault, JSON: g.json, Do: n.sender.Do, Slack: slackAPI{g}.Call, Worker: g.instance, PublicURL: g.URL, NewID: newID,
		UserAgent: "sallyport/" + command.Version(), Interval: g.Options.Intervals.NotifyEvery, Now: g.DB.Now, Log: g.log,
	})
	g.notifier = n
	return err
}

// runNotifier sends notifications until ctx ends.
func (g *Gateway) runNotifier(ctx context.Context) error {
	defer g.coord.Subscribe(g.notifier.Hint)()
	return g.notifier.Run(ctx)
}

// slackAPI calls Slack's API with the token of an integration.
type slackAPI struct{ *Gateway }

// Call implements notify.Slack.
func (s slackAPI) Call(ctx context.Context, organization, integration, method string, body []byte) ([]byte, error) {
	in, err := s.DB.Integration(ctx, organization, integration, "")
	if err != nil {
		return nil, err
	}
	if in.Provider != "slack" || in.Status != action.IntegrationActive {
		return nil, action.NewError("integration_unusable")
	}
	conn, err := s.integrationConn(ctx, in)
	if err != nil {
		return nil, err
	}
	resp, err := conn.HTTP.Do(ctx, &outbound.Request{
		Method: http.MethodPost, Path: outbound.Path(method), Body: body,
		Header: http.Header{"Authorization": {"Bearer " + conn.Token}, "Accept": {"application/json"}, "Content-Type": {"application/json; charset=utf-8"}},
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// platform returns the source of the gateway's own actions.
func (g *Gateway) platform() (*sources.Platform, error) {
	return platform.Source(platform.Config{
		Rows: g.DB, JSON: g.json, Hash: g.vault.Hash, Completed: g.publishCompletion, Asked: g.publishVariableRequest, PublicURL: g.URL, ReplayFor: g.Options.Intervals.CompletionStays,
	})
}

// publishVariableRequest notifies inboxes of a request for variables.
func (g *Gateway) publishVariableRequest(organization, session string) {
	g.coord.Publish(action.Hint{Kind: action.HintPolicy, Organization: organization, Session: session})
}

// publishCompletion notifies subscribers that an agent completed its run.
func (g *Gateway) publishCompletion(organization, session string, c *action.CompletionResult) {
	g.coord.Publish(action.Hint{Kind: action.HintRun, Organization: organization, Run: c.Run, Status: c.Status})
	g.coord.Publish(action.Hint{Kind: action.HintSession, Organization: organization, Session: session})
	g.publishWithdrawn(c.Withdrawn)
	g.log.Info("run completed by its agent", "run", c.Run, "status", c.Status, "withdrew", len(c.Withdrawn))
}
