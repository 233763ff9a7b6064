package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"sallyport/action"
)

// snapshot tells what a session may do, with the whole catalog. A session
// without an id stands for all of its group and task.
func (g *gateway) snapshot(ctx context.Context, s *action.Session) (action.Snapshot, error) {
	snap := action.Snapshot{GeneratedAt: g.db.Now().UTC(), Group: s.Group, Task: s.Task, Providers: []string{}}
	abilities, err := g.gate.Abilities(ctx, s)
	if err != nil {
		return snap, err
	}
	providers := map[string]*action.ProviderAbility{}
	connectors, err := g.db.ListConnectors(ctx, s.Organization)
	if err != nil {
		return snap, err
	}
	for _, c := range connectors {
		if c.Enabled {
			providers[c.Source()] = newProvider(c.Source(), c.Name, s)
		}
	}
	integrations, err := g.db.Integrations(ctx, s.Organization)
	if err != nil {
		return snap, err
	}
	for _, a := range abilities {
		if !here(integrations, a.Provider, s) || a.Own != nil && a.Decision.Mode == action.ModeDeny {
			continue
		}
		p := providers[a.Source]
		if p == nil {
			p = newProvider(a.Source, a.SourceName, s)
			providers[a.Source] = p
		}
		p.Actions = append(p.Actions, ability(a))
	}
	if err := g.ceilings(ctx, s, providers); err != nil {
		return snap, err
	}
	snap.Capabilities = make([]action.ProviderAbility, 0, len(providers))
	for _, p := range providers {
		snap.Capabilities = append(snap.Capabilities, *p)
	}
	slices.SortFunc(snap.Capabilities, func(a, b action.ProviderAbility) int { return strings.Compare(a.Name+a.Provider, b.Name+b.Provider) })
	for _, p := range snap.Capabilities {
		snap.Providers = append(snap.Providers, p.Name)
	}
	return snap, nil
}

// here reports whether there is an integration of the provider that the session
// may know of. What the organization does not use at all would only be in the
// way of what it does.
func here(all []action.Integration, provider string, s *action.Session) bool {
	return provider == "" || slices.ContainsFunc(all, func(in action.Integration) bool {
		return in.Provider == provider && (in.Owner() == "" || in.Owner() == s.CreatedBy)
	})
}

// newProvider begins with what a group has that was given nothing; without a
// group there is no ceiling.
func newProvider(id, name string, s *action.Session) *action.ProviderAbility {
	p := &action.ProviderAbility{Provider: id, Name: name, DeniedActions: []string{}, Actions: []action.ActionAbility{}}
	p.LevelName = p.Level.String()
	if s.Group == "" {
		p.Level, p.LevelName = action.LevelProduction, "no ceiling"
	}
	return p
}

func ability(a action.Available) action.ActionAbility {
	return action.ActionAbility{
		Action: a.Name, Tool: a.Tool, Risk: a.Risk, Level: a.Risk.Level(), Description: a.Description,
		Mode: a.Decision.Mode, ModeSource: a.Decision.Source, Denied: a.Decision.Mode == action.ModeDeny, Reason: a.Decision.Why(),
	}
}

// ceilings writes the group's capabilities beside what they come to.
func (g *gateway) ceilings(ctx context.Context, s *action.Session, providers map[string]*action.ProviderAbility) error {
	if s.Group == "" {
		return nil
	}
	list, err := g.db.ListCapabilities(ctx, s.Organization, s.Group)
	if err != nil {
		return err
	}
	for _, c := range list {
		p := providers[c.Provider]
		if p == nil || c.ExpiresAt != nil && !g.db.Now().Before(*c.ExpiresAt) {
			continue
		}
		p.Level, p.LevelName, p.Gate, p.Rate, p.ExpiresAt = c.Level, c.Level.String(), c.Gate, c.Rate, c.ExpiresAt
		p.AllowedActions, p.DeniedActions = c.AllowedActions, append(p.DeniedActions, c.DeniedActions...)
	}
	return nil
}

// requestFor is how long an agent's wish for a grant waits for a person.
const requestFor = 24 * time.Hour

// requests takes agents' wishes for grants. They come to nothing before a
// person makes a grant of them.
type requests struct{ *gateway }

// RequestGrant checks and writes down what the session wants.
func (r requests) RequestGrant(ctx context.Context, s *action.Session, t action.Terms, reason string) (action.GrantRequest, error) {
	hash, err := r.gate.Terms(ctx, s.Organization, &t, false)
	if e := action.Public(err); err != nil && e.Code == "tool_unreviewed" {
		// What the message says to a person is not for an agent to do.
		return action.GrantRequest{}, action.Errorf(action.ErrConflict, e.Code,
			"This tool is not as it was reviewed, so no grant can be asked for it; ask your user to have it reviewed. Until then each of its calls waits for an approval of its own.")
	}
	if err != nil {
		return action.GrantRequest{}, err
	}
	now := r.db.Now()
	request, made, err := r.db.RequestGrant(ctx, action.GrantRequest{
		Organization: s.Organization, Session: s.ID, Terms: t, ToolHash: hash, Reason: r.json.RedactText(reason, nil),
		CreatedAt: now, ExpiresAt: now.Add(requestFor),
	})
	if made {
		r.coord.Publish(action.Hint{Kind: action.HintPolicy, Organization: s.Organization})
	}
	return request, err
}
