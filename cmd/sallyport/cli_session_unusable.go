package main

import (
	"context"
	"fmt"
	"slices"

	"sallyport/action"
	"sallyport/api"
)

// unusable says of which services the session is connected to it can do nothing,
// and why, as policy says it. What cannot be read goes unsaid: the session is
// minted, which alone was asked for.
func (c *client) unusable(ctx context.Context, std *stdio, session string) {
	s, _, err := fetch(ctx, c, api.GetSession, api.ByID{ID: session})
	if err != nil || len(s.Connections) == 0 {
		return
	}
	all, _, err := fetch(ctx, c, api.ListIntegrations, api.None{})
	if err != nil {
		return
	}
	providers, _, _ := fetch(ctx, c, api.ListProviders, api.None{})
	for _, p := range providers.Items {
		if len(p.Actions) == 0 || !connected(s, p.ID, all.Items) {
			continue
		}
		asked := api.Asked{Session: session, Action: "module:" + p.ID + ":" + p.Actions[0].Name}
		if why, _, err := fetch(ctx, c, api.ExplainPolicy, asked); err == nil && why.Mode == action.ModeDeny && why.Source == action.LayerCeiling {
			said(fmt.Sprintf("note: this session cannot use %s: %s", p.ID, why.Reason))(std.Err)
		}
	}
}

// connected reports whether the session is bound to an integration of the
// provider.
func connected(s *api.SessionView, provider string, all []api.IntegrationView) bool {
	every := slices.Equal(s.Connections, []string{action.AllConnections})
	return slices.ContainsFunc(all, func(in api.IntegrationView) bool {
		return in.Provider == provider && in.User == "" && (slices.Contains(s.Connections, in.ID) || every && in.Visibility == action.VisibleOrganization)
	})
}
