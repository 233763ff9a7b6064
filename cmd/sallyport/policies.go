package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sallyport/action"
	"sallyport/policy"
)

// snapshotAge is how old a snapshot of policy or of a session may be where
// one is good enough.
const snapshotAge = time.Second

// policies decides for the Gate: the pure rules of package policy over
// snapshots of what is stored. A snapshot is read again when the stored
// version is another; grants are read whenever a call needs one.
type policies struct {
	load    func(ctx context.Context, organization string) (action.Rules, error)
	version func(ctx context.Context, organization string) (int64, error)
	grants  func(ctx context.Context, organization, session, source, act string, now time.Time) ([]action.Grant, error)
	now     func() time.Time // for the age of snapshots
	clock   func() time.Time // of the rows, for what expires

	one singleflight.Group
	mu  sync.Mutex
	m   map[string]policySnapshot
}

type policySnapshot struct {
	policy *policy.Policy
	read   time.Time // when it was known to be what is stored
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
	if snap, ok := p.snapshot(organization); ok && p.now().Sub(snap.read) < snapshotAge {
		return snap.policy, nil
	}
	got, err, _ := p.one.Do(organization, func() (any, error) { return p.read(context.WithoutCancel(ctx), organization) })
	if err != nil {
		return nil, err
	}
	return got.(*policy.Policy), nil
}

func (p *policies) snapshot(organization string) (policySnapshot, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	snap, ok := p.m[organization]
	return snap, ok
}

// read returns what is stored. Its age counts from before the reading.
func (p *policies) read(ctx context.Context, organization string) (*policy.Policy, error) {
	read := p.now()
	version, err := p.version(ctx, organization)
	if err != nil {
		return nil, err
	}
	if snap, ok := p.snapshot(organization); ok && snap.policy.Version() == version {
		p.keep(organization, policySnapshot{policy: snap.policy, read: read})
		return snap.policy, nil
	}
	stored, err := p.load(ctx, organization)
	if err != nil {
		return nil, err
	}
	rules := policy.New(stored)
	p.keep(organization, policySnapshot{policy: rules, read: read})
	return rules, nil
}

// keep keeps a snapshot unless a newer one came first.
func (p *policies) keep(organization string, snap policySnapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil {
		p.m = make(map[string]policySnapshot)
	}
	old, ok := p.m[organization]
	if !ok || old.policy.Version() < snap.policy.Version() || old.policy == snap.policy && old.read.Before(snap.read) {
		p.m[organization] = snap
	}
}

// forget has a snapshot looked at again because policy changed.
func (p *policies) forget(organization string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if snap, ok := p.m[organization]; ok {
		snap.read = time.Time{}
		p.m[organization] = snap
	}
}
