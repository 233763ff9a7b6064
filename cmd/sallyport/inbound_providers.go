package main

import (
	"encoding/json"

	"sallyport/api"
	"sallyport/ingest/event"
	"sallyport/ingest/match"
	"sallyport/sources"
	"sallyport/sources/github"
	"sallyport/sources/gmail"
	"sallyport/sources/linear"
	"sallyport/sources/pagerduty"
	"sallyport/sources/posthog"
	"sallyport/sources/sentry"
	"sallyport/sources/slack"
)

// eventSources are the services whose events can start runs, beside one's own
// senders, which package ingest adds.
func eventSources() []event.Provider {
	return []event.Provider{
		github.Triggers(), linear.Triggers(), sentry.Triggers(), slack.Triggers(), gmail.Triggers(), pagerduty.Triggers(), posthog.Triggers(),
	}
}

// eventProviders are they, as the dashboard names them.
func (g *gateway) eventProviders() []api.EventProvider {
	var all []api.EventProvider
	for _, p := range append(eventSources(), match.Custom()) {
		all = append(all, g.eventProvider(p))
	}
	return all
}

func (g *gateway) eventProvider(p event.Provider) api.EventProvider {
	d := api.EventProvider{
		ID: p.ID, Title: p.Title, Webhook: p.Webhook != nil, Polling: p.Polls, Secret: p.Secret, Gives: p.GivesSecret,
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
	if len(g.options.WebhookSecrets.of[p.ID]) > 0 {
		d.URL = g.url + "/webhooks/direct/" + p.ID
	}
	return d
}

// hydrates reports whether a service is asked for more of its events.
func (g *gateway) hydrates(provider string) bool {
	m := g.module(provider)
	return m != nil && m.Hydrate != nil
}

// module returns the one of an id, or nil.
func (g *gateway) module(id string) *sources.Module {
	for _, m := range g.modules {
		if m.ID == id {
			return m
		}
	}
	return nil
}
