package main

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sallyport/action"
	"sallyport/policy"
)

// snapshotAge is how old a snapshot of policy or of a session may be where
// one is good enough.
const snapshotAge = time.Second

// policies is the Gate's Decider: the pure rules of package policy over
// snapshots of what is stored.
type policies struct {
	load func(ctx context.Context, organization string) ([]action.Override, int64, error)
	now  func() time.Time

	one singleflight.Group
	mu  sync.Mutex
	m   map[string]policySnapshot
}

type policySnapshot struct {
	policy *policy.Policy
	read   time.Time
}

// Decide implements action.Decider.
func (p *policies) Decide(ctx context.Context, s *action.Session, a *action.Action, current bool) (action.Decision, error) {
	rules, err := p.rules(ctx, s.Organization, current)
	if err != nil {
		return action.Decision{}, err
	}
	return rules.Decide(s, a), nil
}

// Version implements action.Decider.
func (p *policies) Version(ctx context.Context, organization string) (int64, error) {
	rules, err := p.rules(ctx, organization, false)
	if err != nil {
		return 0, err
	}
	return rules.Version(), nil
}

func (p *policies) rules(ctx context.Context, organization string, current bool) (*policy.Policy, error) {
	if current {
		return p.read(ctx, organization)
	}
	p.mu.Lock()
	snap, ok := p.m[organization]
	p.mu.Unlock()
	if ok && p.now().Sub(snap.read) < snapshotAge {
		return snap.policy, nil
	}
	got, err, _ := p.one.Do(organization, func() (any, error) { return p.read(context.WithoutCancel(ctx), organization) })
	if err != nil {
		return nil, err
	}
	return got.(*policy.Policy), nil
}

// read reads what is stored. Its age counts from before the reading.
func (p *policies) read(ctx context.Context, organization string) (*policy.Policy, error) {
	read := p.now()
	overrides, version, err := p.load(ctx, organization)
	if err != nil {
		return nil, err
	}
	rules := policy.New(version, overrides)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil {
		p.m = make(map[string]policySnapshot)
	}
	if old, ok := p.m[organization]; !ok || old.policy.Version() <= version {
		p.m[organization] = policySnapshot{policy: rules, read: read}
	}
	return rules, nil
}

// forget drops a snapshot because policy changed.
func (p *policies) forget(organization string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.m, organization)
}
