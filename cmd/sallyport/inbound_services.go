package main

import (
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/sources"
	"sallyport/store"
)

// inboundServices find whose events they are, and speak to services for what comes
// in, each with the credential of an integration that everybody of the organization
// may see.
type inboundServices struct{ *gateway }

// Poll implements ingest.Integrations.
func (s inboundServices) Poll(ctx context.Context, organization, integration string, cursor json.RawMessage) (found event.Polled, err error) {
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
	in, err := s.db.Integration(ctx, organization, integration, "")
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
	return s.db.IntegrationsByAccount(ctx, provider, account)
}

// IntegrationsByBroker implements ingest.Integrations.
func (s inboundServices) IntegrationsByBroker(ctx context.Context, connection, key string) ([]action.Integration, error) {
	return s.tokens.Brokered(ctx, store.DefaultOrganization, connection, key)
}

// IntegrationStatus implements ingest.Integrations.
func (s inboundServices) IntegrationStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) error {
	return s.tokens.Told(ctx, in, status, reason)
}
