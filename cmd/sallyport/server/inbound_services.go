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

// inboundServices find whose events they are, and speak to services for what comes
// in, each with the credential of an integration that everybody of the organization
// may see.
type inboundServices struct{ *Gateway }

// Poll implements ingest.Integrations.
func (s inboundServices) Poll(ctx context.Context, organization, integration string, cursor json.RawMessage) (found event.PollResult, err error) {
	token, err := s.ask(ctx, organization, integration, func(m *sources.Module, c *sources.Conn) (err error) {
		if m.Poll == nil {
			return action.NewError("not_polled", m.Title)
		}
		found, err = m.Poll(ctx, c, cursor)
		return err
	})
	for i := range found.Events {
		withoutCredential(&found.Events[i], token)
	}
	return found, err
}

// Hydrate implements ingest.Integrations.
func (s inboundServices) Hydrate(ctx context.Context, organization, integration string, e *event.Event) (changed bool, err error) {
	token, err := s.ask(ctx, organization, integration, func(m *sources.Module, c *sources.Conn) (err error) {
		if m.Hydrate == nil {
			return nil
		}
		changed, err = m.Hydrate(ctx, c, e)
		return err
	})
	withoutCredential(e, token)
	return changed, err
}

// Recheck implements ingest.Integrations.
func (s inboundServices) Recheck(ctx context.Context, in action.Integration) error {
	return s.tokens.Recheck(ctx, in)
}

// ask lets a module speak for an integration, and again where the service did
// not take the credential and there is another one by now. It returns the
// credential that was used.
func (s inboundServices) ask(ctx context.Context, organization, integration string, do func(*sources.Module, *sources.Conn) error) (token string, err error) {
	in, err := s.DB.Integration(ctx, organization, integration, "")
	if err != nil {
		return "", err
	}
	m := s.module(in.Provider)
	if m == nil {
		return "", action.NewError("no_module", in.Provider)
	}
	token, err = s.attempt(ctx, m, in, do)
	var no *sources.Refusal
	if errors.As(err, &no) && no.Credential {
		again, lost := s.tokens.Refused(ctx, in, token, no.Code)
		switch {
		case lost != nil:
			return token, lost
		case again:
			token, err = s.attempt(ctx, m, in, do)
		}
	}
	return token, s.forPeople(m, in, token, err)
}

func (s inboundServices) attempt(ctx context.Context, m *sources.Module, in action.Integration, do func(*sources.Module, *sources.Conn) error) (token string, err error) {
	conn, err := s.speak(ctx, in)
	if err != nil {
		return "", err
	}
	conn.Settings = in.Settings
	return conn.Token, do(m, conn)
}

// longestSaid is how much of a refusal is told, in characters.
const longestSaid = 600

// forPeople is a service's no in the words of the gateway. What the service
// itself says is for the log alone.
func (s inboundServices) forPeople(m *sources.Module, in action.Integration, token string, err error) error {
	var no *sources.Refusal
	if !errors.As(err, &no) {
		return err
	}
	clean := func(text string) string {
		return sources.Printable(string(redact.NewReplacer(token).Replace([]byte(text))), longestSaid)
	}
	s.log.Info("a service refused to tell of events", "provider", m.ID, "integration", in.ID, "why", clean(no.Error()))
	return action.NewError("service_refused", m.Title, clean(no.Message))
}

// withoutCredential takes out of an event the credential that it was asked for
// with, in case the service repeats it.
func withoutCredential(e *event.Event, token string) {
	if token == "" {
		return
	}
	clean := redact.NewReplacer(token)
	e.Context = clean.Replace(e.Context)
	e.Title, e.URL = string(clean.Replace([]byte(e.Title))), string(clean.Replace([]byte(e.URL)))
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

// eventSources are the services whose events can start runs, beside one's own
// senders, which package ingest adds.
func eventSources() []event.Provider {
	return []event.Provider{
		github.Triggers(), linear.Triggers(), sentry.Triggers(), slack.Triggers(), gmail.Triggers(), pagerduty.Triggers(), posthog.Triggers(),
	}
}

// eventProviders are they, as the dashboard names them.
func (g *Gateway) eventProviders() []api.EventProvider {
	var all []api.EventProvider
	for _, p := range append(eventSources(), match.Custom()) {
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

// hydrates reports whether a service is asked for more of its events.
func (g *Gateway) hydrates(provider string) bool {
	m := g.module(provider)
	return m != nil && m.Hydrate != nil
}

// module returns the one of an id, or nil.
func (g *Gateway) module(id string) *sources.Module {
	for _, m := range g.modules {
		if m.ID == id {
			return m
		}
	}
	return nil
}
