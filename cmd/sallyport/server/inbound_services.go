package server

import (
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
	"sallyport/ingest/match"
	"sallyport/internal/redact"
	"sallyport/sources"
	"sallyport/sources/github"
	"sallyport/sources/gmail"
	"sallyport/sources/linear"
	"sallyport/sources/pagerduty"
	"sallyport/sources/posthog"
	"sallyport/sources/sentry"
	"sallyport/sources/slack"
	"sallyport/store"
)

// inboundServices finds the integrations that events belong to, and calls their
// services, each with the credential of an integration that the whole
// organization can see.
type inboundServices struct{ *Gateway }

// Poll implements [poll.Config.Integrations].
func (s inboundServices) Poll(ctx context.Context, organization, integration string, cursor json.RawMessage) (found event.PollResult, err error) {
	token, err := s.call(ctx, organization, integration, func(m *sources.Module, c *sources.Conn) (err error) {
		if m.Poll == nil {
			return action.NewError("not_polled", m.Title)
		}
		found, err = m.Poll(ctx, c, cursor)
		return err
	})
	for i := range found.Events {
		redactCredential(&found.Events[i], token)
	}
	return found, err
}

// Hydrate implements ingest.Integrations.
func (s inboundServices) Hydrate(ctx context.Context, organization, integration string, e *event.Event) (changed bool, err error) {
	token, err := s.call(ctx, organization, integration, func(m *sources.Module, c *sources.Conn) (err error) {
		if m.Hydrate == nil {
			return nil
		}
		changed, err = m.Hydrate(ctx, c, e)
		return err
	})
	redactCredential(e, token)
	return changed, err
}

// Recheck implements ingest.Integrations.
func (s inboundServices) Recheck(ctx context.Context, in action.Integration) error {
	return s.tokens.Recheck(ctx, in)
}

// call lets a module call the service of an integration, and retries once if
// the service rejected the credential and a new one is available. It returns
// the credential that it used.
func (s inboundServices) call(ctx context.Context, organization, integration string, do func(*sources.Module, *sources.Conn) error) (token string, err error) {
	in, err := s.DB.Integration(ctx, organization, integration, "")
	if err != nil {
		return "", err
	}
	m := s.module(in.Provider)
	if m == nil {
		return "", action.NewError("no_module", in.Provider)
	}
	token, err = s.callOnce(ctx, m, in, do)
	var refusal *sources.Refusal
	if errors.As(err, &refusal) && refusal.Credential {
		renewed, renewErr := s.tokens.Refused(ctx, in, token, refusal.Code)
		switch {
		case renewErr != nil:
			return token, renewErr
		case renewed:
			token, err = s.callOnce(ctx, m, in, do)
		}
	}
	return token, s.publicError(m, in, token, err)
}

func (s inboundServices) callOnce(ctx context.Context, m *sources.Module, in action.Integration, do func(*sources.Module, *sources.Conn) error) (token string, err error) {
	conn, err := s.integrationConn(ctx, in)
	if err != nil {
		return "", err
	}
	conn.Settings = in.Settings
	return conn.Token, do(m, conn)
}

// maxRefusalLength limits a service's error message, in characters.
const maxRefusalLength = 600

// publicError converts a service's refusal to a public error. Only the log gets
// the full text of the service.
func (s inboundServices) publicError(m *sources.Module, in action.Integration, token string, err error) error {
	var refusal *sources.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	clean := func(text string) string {
		return sources.Printable(string(redact.NewReplacer(token).Replace([]byte(text))), maxRefusalLength)
	}
	s.log.Info("a service refused a request for events", "provider", m.ID, "integration", in.ID, "why", clean(refusal.Error()))
	return action.NewError("service_refused", m.Title, clean(refusal.Message))
}

// redactCredential removes the credential of a request from an event, in case
// the service echoes it.
func redactCredential(e *event.Event, token string) {
	if token == "" {
		return
	}
	replacer := redact.NewReplacer(token)
	e.Context = replacer.Replace(e.Context)
	e.Title, e.URL = string(replacer.Replace([]byte(e.Title))), string(replacer.Replace([]byte(e.URL)))
}

// IntegrationsByAccount implements ingest.Integrations.
func (s inboundServices) IntegrationsByAccount(ctx context.Context, provider, account string) ([]action.Integration, error) {
	return s.DB.IntegrationsByAccount(ctx, provider, account)
}

// IntegrationsByBroker implements ingest.Integrations.
func (s inboundServices) IntegrationsByBroker(ctx context.Context, connection, key string) ([]action.Integration, error) {
	return s.tokens.Brokered(ctx, store.DefaultOrganization, connection, key)
}

// IntegrationStatus implements ingest.Integrations.
func (s inboundServices) IntegrationStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) error {
	return s.tokens.ApplyStatus(ctx, in, status, reason)
}

// ingestProviders returns the services whose events can start runs. Package
// ingest adds the custom senders.
func ingestProviders() []event.Provider {
	return []event.Provider{
		github.Triggers(), linear.Triggers(), sentry.Triggers(), slack.Triggers(), gmail.Triggers(), pagerduty.Triggers(), posthog.Triggers(),
	}
}

// eventProviders returns the event providers for the dashboard.
func (g *Gateway) eventProviders() []api.EventProvider {
	var all []api.EventProvider
	for _, p := range append(ingestProviders(), match.Custom()) {
		all = append(all, g.eventProvider(p))
	}
	return all
}

func (g *Gateway) eventProvider(p event.Provider) api.EventProvider {
	d := api.EventProvider{
		ID: p.ID, Title: p.Title, Webhook: p.Webhook != nil, Polling: p.SupportsPolling, Secret: p.Secret, Gives: p.IssuesSecret,
		Types: make([]api.EventType, 0, len(p.Types)),
		CheckConfig: func(typ string, config json.RawMessage) error {
			return sources.CheckConfig(p.Type(typ).Config, config)
		},
	}
	for _, t := range p.Types {
		d.Types = append(d.Types, api.EventType{ID: t.ID, Title: t.Title, Description: t.Description, Config: t.Config})
	}
	switch {
	case p.Webhook == nil:
		return d
	case p.ID == match.Custom().ID:
		d.Endpoint = "/webhooks/custom/{trigger}"
	default:
		d.Endpoint = "/webhooks/direct/" + p.ID + "/{trigger}"
	}
	if len(g.Options.WebhookSecrets.of[p.ID]) > 0 {
		d.URL = g.URL + "/webhooks/direct/" + p.ID
	}
	return d
}

// hydrates reports whether the gateway fetches details for the events of a
// service.
func (g *Gateway) hydrates(provider string) bool {
	m := g.module(provider)
	return m != nil && m.Hydrate != nil
}

// module returns the module with an ID, or nil.
func (g *Gateway) module(id string) *sources.Module {
	for _, m := range g.modules {
		if m.ID == id {
			return m
		}
	}
	return nil
}
