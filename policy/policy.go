package policy

import (
	"slices"
	"strconv"
	"time"

	"sallyport/action"
)

// Policy is an organization's policy at one version. It is immutable and safe
// for concurrent use.
type Policy struct {
	version      int64
	settings     action.Settings
	organization modes
	automations  map[string]modes
	capabilities map[capabilityKey]*capability
	groups       map[string]bool // groups that have a capability
	gates        map[gateKey][]gateApproval
	quotas       map[action.Key][]action.Quota
	reviewed     map[action.Key]action.ToolHashes
	risks        map[action.Key]action.Risk // of reviewed tools
	integrations integrationsByProvider
	expiries     []time.Time // of capabilities and gate approvals, ascending
}

// New compiles rules into a policy. The caller must not change them
// afterwards.
func New(rules action.Rules) *Policy {
	p := &Policy{
		version: rules.Version, settings: rules.Settings, reviewed: rules.Reviewed, risks: rules.Risks,
		organization: modes{}, automations: map[string]modes{}, capabilities: map[capabilityKey]*capability{}, groups: map[string]bool{},
		gates: map[gateKey][]gateApproval{}, quotas: map[action.Key][]action.Quota{},
		integrations: integrationsByProvider{},
	}
	for _, o := range rules.Overrides {
		p.addOverride(o)
	}
	for _, c := range rules.Capabilities {
		p.addCapability(c)
		p.addExpiry(c.ExpiresAt)
	}
	for _, g := range rules.Gates {
		if g.RevokedAt == nil {
			p.addApproval(g)
			p.addExpiry(g.ExpiresAt)
		}
	}
	for _, q := range rules.Quotas {
		p.quotas[q.Key] = append(p.quotas[q.Key], q)
	}
	for _, in := range rules.Integrations {
		p.integrations[in.Provider] = append(p.integrations[in.Provider], in)
	}
	slices.SortFunc(p.expiries, time.Time.Compare)
	return p
}

func (p *Policy) addExpiry(at *time.Time) {
	if at != nil {
		p.expiries = append(p.expiries, *at)
	}
}

// Version returns the policy version, which is also in every decision.
func (p *Policy) Version() int64 { return p.version }

// Settings returns the organization's settings.
func (p *Policy) Settings() action.Settings { return p.settings }

// Stamp identifies the state that decisions without params depend on: the
// version, and how many entries have expired by now. A cached decision is
// valid while the stamp is the same.
func (p *Policy) Stamp(now time.Time) string {
	over, _ := slices.BinarySearchFunc(p.expiries, now, func(at, now time.Time) int {
		if expired(&at, now) {
			return -1
		}
		return 1
	})
	return strconv.FormatInt(p.version, 10) + "." + strconv.Itoa(over)
}

// expired reports whether an expiry, which is nil for never, has passed.
func expired(at *time.Time, now time.Time) bool { return at != nil && !now.Before(*at) }

// layer is one layer of a decision. It returns a step with a mode if it
// decides, a step without one if it has nothing to say, and no step if it
// does not apply to the action.
type layer func(p *Policy, now time.Time, s *action.Session, a *action.Action) action.Step

// Decide decides a call of the action in the session from everything except
// its params, without grants.
func (p *Policy) Decide(now time.Time, s *action.Session, a *action.Action) action.Decision {
	found := p.drift(a)
	a = p.withReviewedRisk(a, found)
	d := action.Decision{Version: p.version, DenialLimit: p.settings.DenialLimit, Steps: make([]action.Step, 0, 7)}
	for _, ask := range [...]layer{(*Policy).platformTool, (*Policy).integration, (*Policy).ceiling, (*Policy).automation, (*Policy).override, (*Policy).capability, (*Policy).inferred} {
		step := ask(p, now, s, a)
		if step.Layer == "" {
			continue
		}
		d.Steps = append(d.Steps, step)
		if step.Mode != "" {
			d.Mode, d.Source = step.Mode, step.Layer
			break
		}
	}
	if a.Review != "" {
		applyDrift(&d, a, found)
	}
	if d.Mode != action.ModeDeny {
		d.Limits = p.limits(s, a)
	}
	return d
}
