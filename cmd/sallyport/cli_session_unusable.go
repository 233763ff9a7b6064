package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"sallyport/action"
)

// unusable says of which services the session is connected to it can do nothing,
// and why, as policy says it. What cannot be read goes unsaid: the session is
// minted, which alone was asked for.
func (c *client) unusable(ctx context.Context, std *stdio, session string) {
	var s sessionRow
	if _, err := c.read(ctx, "/api/v1/sessions/"+url.PathEscape(session), nil, &s); err != nil || len(s.Connections) == 0 {
		return
	}
	var all list[integrationRow]
	var providers list[providerRow]
	if _, err := c.read(ctx, integrationsPath, nil, &all); err != nil {
		return
	}
	if _, err := c.read(ctx, integrationsPath+"/providers", nil, &providers); err != nil {
		return
	}
	for _, p := range providers.Items {
		if len(p.Actions) == 0 || !s.connected(p.ID, all.Items) {
			continue
		}
		var why explanation
		query := url.Values{"session": {session}, "action": {"module:" + p.ID + ":" + p.Actions[0].Name}}
		if _, err := c.read(ctx, "/api/v1/policy/explain", query, &why); err == nil && why.Mode == action.ModeDeny && why.Source == action.LayerCeiling {
			said(fmt.Sprintf("note: this session cannot use %s: %s", p.ID, why.Reason))(std.Err)
		}
	}
}

// connected reports whether the session is bound to an integration of the
// provider.
func (s *sessionRow) connected(provider string, all []integrationRow) bool {
	every := slices.Equal(s.Connections, []string{action.AllConnections})
	return slices.ContainsFunc(all, func(in integrationRow) bool {
		return in.Provider == provider && in.User == "" && (slices.Contains(s.Connections, in.ID) || every && in.Visibility == action.VisibleOrganization)
	})
}
