package policy

import (
	"slices"
	"strconv"
	"time"

	"sallyport/action"
)

// Policy is what an organization wants, at one version. It does not change.
type Policy struct {
	version      int64
	settings     action.Settings
	organization modes
	automations  map[string]modes
	capabilities map[capabilityKey]*capability
	groups       map[string]bool // that have any
	gates        map[gateKey][]gateApproval
	quotas       map[action.Key][]action.Quota
	reviewed     map[action.Key]action.ToolHashes
	risks        map[action.Key]action.Risk // of the reviewed tools
	integrations integrationsByProvider
	expiries     []time.Time // of capabilities and gate approvals, ascending
}

// New returns the policy that the rules make. They must not change any more.
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

// Version returns the version that decisions carry.
func (p *Policy) Version() int64 { return p.version }

// Settings returns the organization's choices.
func (p *Policy) Settings() action.Settings { return p.settings }

// Stamp returns what changes whenever a decision without params may: the
// version, and how much of it has expired by now.
func (p *Policy) Stamp(now time.Time) string {
	over, _ := slices.BinarySearchFunc(p.expiries, now, func(at, now time.Time) int {
		if expired(&at, now) {
			return -1
		}
		return 1
	})
	return strconv.FormatInt(p.version, 10) + "." + strconv.Itoa(over)
}

// expired tells whether something that is good until at, or for ever, is over.
func expired(at *time.Time, now time.Time) bool { return at != nil && !now.Before(*at) }

// layer is what speaks in a decision. It gives a mode when it has one, and no
// step at all when the action is none of its business.
type layer func(p *Policy, now time.Time, s *action.Session, a *action.Action) action.Step

// Decide says what is to be done with a call of the action in the session,
// whatever its params, without asking for grants.
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
