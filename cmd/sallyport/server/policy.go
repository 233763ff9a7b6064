package server

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sallyport/action"
	"sallyport/policy"
)

// snapshotAge is the maximum age of a policy or session snapshot for callers
// that do not need the current one.
const snapshotAge = time.Second

// policies decides for the Gate: it applies package policy to snapshots of the
// stored rules. A snapshot is reloaded when the stored version differs; grants
// are read for each call that needs one.
type policies struct {
	load    func(ctx context.Context, organization string) (action.Rules, error)
	version func(ctx context.Context, organization string) (int64, error)
	grants  func(ctx context.Context, organization, session, source, act string, now time.Time) ([]action.Grant, error)
	now     func() time.Time // for the age of snapshots
	clock   func() time.Time // the database's clock, for expiry

	loads     singleflight.Group
	mu        sync.Mutex
	snapshots map[string]policySnapshot
}

type policySnapshot struct {
	policy *policy.Policy
	readAt time.Time // when it last matched the stored version
}

// Decide is [gate.Config.Decide].
func (p *policies) Decide(ctx context.Context, s *action.Session, a *action.Action, params json.RawMessage, current bool) (action.Decision, error) {
	rules, err := p.rules(ctx, s.Organization, current)
	if err != nil {
		return action.Decision{}, err
	}
	now := p.clock()
	d := rules.Decide(now, s, a)
	if params == nil || d.Mode != action.ModeRequireApproval {
		return d, nil
	}
	grants, err := p.grants(ctx, s.Organization, s.ID, a.Source, a.Name, now)
	if err != nil {
		return action.Decision{}, err
	}
	return rules.WithGrants(now, d, s, a, params, grants), nil
}

// View is [gate.Config.View].
func (p *policies) View(ctx context.Context, s *action.Session) (view, version string, err error) {
	rules, err := p.rules(ctx, s.Organization, false)
	if err != nil {
		return "", "", err
	}
	now := p.clock()
	return rules.View(now, s), rules.Stamp(now), nil
}

func (p *policies) rules(ctx context.Context, organization string, current bool) (*policy.Policy, error) {
	if current {
		return p.read(ctx, organization)
	}
	if snap, ok := p.snapshot(organization); ok && p.now().Sub(snap.readAt) < snapshotAge {
		return snap.policy, nil
	}
	got, err, _ := p.loads.Do(organization, func() (any, error) { return p.read(context.WithoutCancel(ctx), organization) })
	if err != nil {
		return nil, err
	}
	return got.(*policy.Policy), nil
}

func (p *policies) snapshot(organization string) (policySnapshot, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	snap, ok := p.snapshots[organization]
	return snap, ok
}

// read returns the stored rules. Its age counts from before the query.
func (p *policies) read(ctx context.Context, organization string) (*policy.Policy, error) {
	read := p.now()
	version, err := p.version(ctx, organization)
	if err != nil {
		return nil, err
	}
	if snap, ok := p.snapshot(organization); ok && snap.policy.Version() == version {
		p.store(organization, policySnapshot{policy: snap.policy, readAt: read})
		return snap.policy, nil
	}
	stored, err := p.load(ctx, organization)
	if err != nil {
		return nil, err
	}
	rules := policy.New(stored)
	p.store(organization, policySnapshot{policy: rules, readAt: read})
	return rules, nil
}

// store stores a snapshot unless a newer one is present.
func (p *policies) store(organization string, snap policySnapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.snapshots == nil {
		p.snapshots = make(map[string]policySnapshot)
	}
	old, ok := p.snapshots[organization]
	if !ok || old.policy.Version() < snap.policy.Version() || old.policy == snap.policy && old.readAt.Before(snap.readAt) {
		p.snapshots[organization] = snap
	}
}

// invalidate makes the next caller check a snapshot's version, because policy
// changed.
func (p *policies) invalidate(organization string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if snap, ok := p.snapshots[organization]; ok {
		snap.readAt = time.Time{}
		p.snapshots[organization] = snap
	}
}

// snapshot returns what a session may do, for the whole catalog. A session
// without an ID stands for its group and task.
func (g *Gateway) snapshot(ctx context.Context, s *action.Session) (action.Snapshot, error) {
	snap := action.Snapshot{GeneratedAt: g.DB.Now().UTC(), Group: s.Group, Task: s.Task, Providers: []string{}}
	abilities, err := g.gate.Abilities(ctx, s)
	if err != nil {
		return snap, err
	}
	providers := map[string]*action.ProviderAbility{}
	connectors, err := g.DB.ListConnectors(ctx, s.Organization)
	if err != nil {
		return snap, err
	}
	for _, c := range connectors {
		if c.Enabled {
			providers[c.Source()] = newProviderAbility(c.Source(), c.Name, s)
		}
	}
	integrations, err := g.DB.Integrations(ctx, s.Organization)
	if err != nil {
		return snap, err
	}
	for _, a := range abilities {
		if !providerVisible(integrations, a.Provider, s) || a.Platform != nil && a.Decision.Mode == action.ModeDeny {
			continue
		}
		p := providers[a.Source]
		if p == nil {
			p = newProviderAbility(a.Source, a.SourceName, s)
			providers[a.Source] = p
		}
		p.Actions = append(p.Actions, actionAbility(a))
	}
	if err := g.applyCapabilities(ctx, s, providers); err != nil {
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

// providerVisible reports whether the session can see an integration of the
// provider. Providers that the organization does not use are left out.
func providerVisible(all []action.Integration, provider string, s *action.Session) bool {
	return provider == "" || slices.ContainsFunc(all, func(in action.Integration) bool {
		return in.Provider == provider && (in.Owner() == "" || in.Owner() == s.CreatedBy)
	})
}

// newProviderAbility starts with the access of a group without capabilities.
// Without a group there is no ceiling.
func newProviderAbility(id, name string, s *action.Session) *action.ProviderAbility {
	p := &action.ProviderAbility{Provider: id, Name: name, DeniedActions: []string{}, Actions: []action.ActionAbility{}}
	p.LevelName = p.Level.String()
	if s.Group == "" {
		p.Level, p.LevelName = action.LevelProduction, "no ceiling"
	}
	return p
}

func actionAbility(a action.Available) action.ActionAbility {
	return action.ActionAbility{
		Action: a.Name, Tool: a.Tool, Risk: a.Risk, Level: a.Risk.Level(), Description: a.Description,
		Mode: a.Decision.Mode, ModeSource: a.Decision.Source, Denied: a.Decision.Mode == action.ModeDeny, Reason: a.Decision.Why(),
	}
}

// applyCapabilities adds the group's capabilities to its providers.
func (g *Gateway) applyCapabilities(ctx context.Context, s *action.Session, providers map[string]*action.ProviderAbility) error {
	if s.Group == "" {
		return nil
	}
	list, err := g.DB.ListCapabilities(ctx, s.Organization, s.Group)
	if err != nil {
		return err
	}
	for _, c := range list {
		p := providers[c.Provider]
		if p == nil || c.ExpiresAt != nil && !g.DB.Now().Before(*c.ExpiresAt) {
			continue
		}
		p.Level, p.LevelName, p.Gate, p.Rate, p.ExpiresAt = c.Level, c.Level.String(), c.Gate, c.Rate, c.ExpiresAt
		p.AllowedActions, p.DeniedActions = c.AllowedActions, append(p.DeniedActions, c.DeniedActions...)
	}
	return nil
}

// grantRequestTTL is how long an agent's request for a grant stays open.
const grantRequestTTL = 24 * time.Hour

// grantRequester records agents' requests for grants. A request has no effect
// until a person creates the grant.
type grantRequester struct{ *Gateway }

// RequestGrant validates and stores a request of the session.
func (r grantRequester) RequestGrant(ctx context.Context, s *action.Session, t action.Terms, reason string) (action.GrantRequest, error) {
	hash, err := r.gate.Terms(ctx, s.Organization, &t, false)
	if e := action.Public(err); err != nil && e.Code == "tool_unreviewed" {
		// The message addresses a person; an agent cannot act on it.
		return action.GrantRequest{}, action.Errorf(action.ErrConflict, e.Code,
			"This tool changed since its review, so you cannot request a grant for it. Ask your user to have it reviewed. Until then, each call needs its own approval.")
	}
	if err != nil {
		return action.GrantRequest{}, err
	}
	now := r.DB.Now()
	request, created, err := r.DB.RequestGrant(ctx, action.GrantRequest{
		Organization: s.Organization, Session: s.ID, Terms: t, ToolHash: hash, Reason: r.json.RedactText(reason, nil),
		CreatedAt: now, ExpiresAt: now.Add(grantRequestTTL),
	})
	if created {
		r.coord.Publish(action.Hint{Kind: action.HintPolicy, Organization: s.Organization})
	}
	return request, err
}
