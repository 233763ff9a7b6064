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

// logsID is the id of the module for log files.
const logsID = "cloudlogs"

// openIntegrations builds the modules, and what has their credentials.
func (g *Gateway) openIntegrations(context.Context) (err error) {
	g.modules = services()
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
		Guard: g.guard(), UserAgent: "sallyport/" + command.Version(), Traceparent: g.tracing.traceparent(), Log: g.log,
	})
	g.tokens, err = credential.NewTokens(credential.TokensConfig{
		Store: g.DB, Vault: g.vault, Lock: patient{g.coord}.lock, Modules: g.modules, HTTP: g.outbound,
		RedirectURL: g.URL + "/oauth/callback", Changed: g.integrationChanged, Now: g.DB.Now, Log: g.log,
	})
	return err
}

// services are the modules that need nothing of the operator.
func services() []*sources.Module {
	return []*sources.Module{linear.Module(), sentry.Module(), slack.Module(), github.Module(), gmail.Module()}
}

// integrationChanged has everybody decide and list anew.
func (g *Gateway) integrationChanged(organization string) {
	for _, kind := range []action.HintKind{action.HintPolicy, action.HintCatalog} {
		g.coord.Publish(action.Hint{Kind: kind, Organization: organization})
	}
}

// connections are the tokens, but for what only the operator gives away.
type connections struct {
	*credential.Tokens
	*Gateway
}

// Connect implements dashboard.Connections.
func (c connections) Connect(ctx context.Context, w action.ConnectRequest) (action.Integration, error) {
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
func (g *Gateway) speak(ctx context.Context, in action.Integration) (*sources.Conn, error) {
	if err := g.offered(in.Provider, in.Organization); err != nil {
		return nil, err
	}
	return g.tokens.Conn(ctx, in)
}

// offered refuses what the operator does not offer to the organization, now.
func (g *Gateway) offered(provider, organization string) error {
	if provider != logsID || g.readsLogs(organization) {
		return nil
	}
	return action.NewError("logs_not_offered", organization)
}

// readsLogs reports whether the organization may connect to the logs: those of
// the machine are the operator's, whose organization is the first.
func (g *Gateway) readsLogs(organization string) bool {
	if len(g.Options.LogsFor) == 0 {
		return organization == store.DefaultOrganization
	}
	return slices.Contains(g.Options.LogsFor, organization)
}

// providers are the modules, as the dashboard names them.
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

// guard says what may be reached outside.
func (g *Gateway) guard() guard.Config { return guard.Config{Allow: g.Options.AllowUpstream} }

// noticesKept is how long people see what was told of calls that ended.
const noticesKept = 7 * 24 * time.Hour

// notices tell approvers elsewhere of held calls.
type notices struct {
	*notify.Sender
	sender runSender
}

func (g *Gateway) openNotices() error {
	n := &notices{sender: newRunSender(g.guard())}
	var err error
	n.Sender, err = notify.New(notify.Config{
		Rows: g.DB, Vault: g.vault, JSON: g.json, Do: n.sender.Do, Slack: slackCalls{g}.Call, Worker: g.instance, PublicURL: g.URL, NewID: newID,
		UserAgent: "sallyport/" + command.Version(), Every: g.Options.Intervals.NotifyEvery, Now: g.DB.Now, Log: g.log,
	})
	g.notices = n
	return err
}

// tellApprovers does so until ctx ends.
func (g *Gateway) tellApprovers(ctx context.Context) error {
	defer g.coord.Subscribe(g.notices.Hint)()
	return g.notices.Run(ctx)
}

// slackCalls are methods of Slack's API with the token of an integration.
type slackCalls struct{ *Gateway }

// Call implements notify.Slack.
func (s slackCalls) Call(ctx context.Context, organization, integration, method string, body []byte) ([]byte, error) {
	in, err := s.DB.Integration(ctx, organization, integration, "")
	if err != nil {
		return nil, err
	}
	if in.Provider != "slack" || in.Status != action.IntegrationActive {
		return nil, action.NewError("integration_unusable")
	}
	conn, err := s.speak(ctx, in)
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

// platform is what the gateway itself does for agents.
func (g *Gateway) platform() (*sources.Platform, error) {
	return platform.Source(platform.Config{
		Rows: g.DB, JSON: g.json, Hash: g.vault.Hash, Completed: g.completed, Asked: g.askedForVariables, PublicURL: g.URL, Stays: g.Options.Intervals.CompletionStays,
	})
}

// askedForVariables tells inboxes.
func (g *Gateway) askedForVariables(organization, session string) {
	g.coord.Publish(action.Hint{Kind: action.HintPolicy, Organization: organization, Session: session})
}

// completed tells everybody that an agent ended its run.
func (g *Gateway) completed(organization, session string, c *action.CompletionResult) {
	g.coord.Publish(action.Hint{Kind: action.HintRun, Organization: organization, Run: c.Run, Status: c.Status})
	g.coord.Publish(action.Hint{Kind: action.HintSession, Organization: organization, Session: session})
	g.withdrew(c.Withdrawn)
	g.log.Info("run completed by its agent", "run", c.Run, "status", c.Status, "withdrew", len(c.Withdrawn))
}
