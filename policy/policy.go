package policy

import (
	"slices"
	"strconv"
	"strings"
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

// View returns the properties of the session that decisions without params
// depend on: sessions with the same view get the same decisions. Names
// without rules are left out, and of a task only its approved gates count, so
// that many tasks share few views.
func (p *Policy) View(now time.Time, s *action.Session) string {
	var parts []string
	switch {
	case s.Automation == "":
	case len(p.automations[s.Automation]) == 0:
		parts = append(parts, "automation without overrides")
	default:
		parts = append(parts, "automation "+strconv.Quote(s.Automation))
	}
	if s.Type != "" && s.Type != action.TypeCoding {
		parts = append(parts, string(s.Type))
	}
	if s.ForRun() {
		parts = append(parts, "of a run")
	}
	if s.Event != "" {
		parts = append(parts, "event")
	}
	switch {
	case s.Group == "":
	case !p.groups[s.Group]:
		parts = append(parts, "group without capabilities")
	default:
		parts = append(parts, "group "+strconv.Quote(s.Group))
		parts = append(parts, p.openGates(now, s)...)
	}
	for _, id := range p.integrations.usable(s) {
		parts = append(parts, "connection "+strconv.Quote(id))
	}
	return strings.Join(parts, ", ")
}

// openGates returns the sorted approved gates of the session's task. Notes
// about other gates name the task, so the task itself counts once any gate is
// approved.
func (p *Policy) openGates(now time.Time, s *action.Session) []string {
	var open []string
	for at, approvals := range p.gates {
		if at.group != s.Group || at.task != s.Task || s.Task == "" {
			continue
		}
		for i, g := range approvals {
			if !expired(g.expiresAt, now) && (p.settings.SelfApproval || g.by != s.CreatedBy) {
				open = append(open, "gate "+strconv.Quote(at.name)+" by approval "+strconv.Itoa(i))
			}
		}
	}
	if len(open) > 0 {
		open = append(open, "task "+strconv.Quote(s.Task))
	}
	slices.Sort(open)
	return open
}
