package policy

import (
	"fmt"

	"sallyport/action"
)

// Policy is what an organization wants, at one version. It does not change.
type Policy struct {
	version      int64
	organization modes
	automations  map[string]modes
}

type modes map[action.Key]action.Mode

// New returns the policy that the overrides make at the version.
func New(version int64, overrides []action.Override) *Policy {
	p := &Policy{version: version, organization: modes{}, automations: map[string]modes{}}
	for _, o := range overrides {
		m := p.organization
		if o.Automation != "" {
			if m = p.automations[o.Automation]; m == nil {
				m = modes{}
				p.automations[o.Automation] = m
			}
		}
		m[o.Key] = o.Mode
	}
	return p
}

// Version returns the version that decisions carry.
func (p *Policy) Version() int64 { return p.version }

// Decide says what is to be done with a call of the action in the session.
func (p *Policy) Decide(s *action.Session, a *action.Action) action.Decision {
	steps := make([]action.Step, 0, 3)
	for _, layer := range []func(*action.Session, *action.Action) action.Step{p.automation, p.override, inferred} {
		step := layer(s, a)
		steps = append(steps, step)
		if step.Mode != "" {
			return action.Decision{Mode: step.Mode, Source: step.Layer, Steps: steps, Version: p.version}
		}
	}
	panic("policy: the inferred layer said nothing") // it always has a mode
}

func (p *Policy) automation(s *action.Session, a *action.Action) action.Step {
	step := action.Step{Layer: action.LayerAutomation, Note: "The session belongs to no automation."}
	if s.Automation == "" {
		return step
	}
	step.Note = "The automation has no override for this action."
	if key, mode, ok := p.automations[s.Automation].match(a.Key()); ok {
		step.Key, step.Mode = key.String(), mode
		step.Note = fmt.Sprintf("An override of the automation%s says %s.", covers(key), mode)
	}
	return step
}

func (p *Policy) override(_ *action.Session, a *action.Action) action.Step {
	step := action.Step{Layer: action.LayerOrganization, Note: "The organization has no override for this action."}
	if key, mode, ok := p.organization.match(a.Key()); ok {
		step.Key, step.Mode = key.String(), mode
		step.Note = fmt.Sprintf("An override of the organization%s says %s.", covers(key), mode)
	}
	return step
}

// covers says how far a key reaches, where it is more than one action. Its id
// is in [action.Step.Key].
func covers(k action.Key) string {
	switch {
	case k.Source == "*":
		return " for everything"
	case k.Action == "*":
		return " for all of this source"
	}
	return ""
}

// match finds the most exact key that covers k: itself, its whole source,
// everything.
func (m modes) match(k action.Key) (action.Key, action.Mode, bool) {
	for _, key := range [...]action.Key{k, {Source: k.Source, Action: "*"}, {Source: "*", Action: "*"}} {
		if mode, ok := m[key]; ok {
			return key, mode, true
		}
	}
	return action.Key{}, "", false
}

// inferred goes by the action's risk. Anything that is not known to be a read
// or a write is as bad as a danger.
func inferred(_ *action.Session, a *action.Action) action.Step {
	switch a.Risk {
	case action.RiskRead:
		return action.Step{Layer: action.LayerInferred, Mode: action.ModeAllow, Note: "It only reads, and reads run without asking unless policy says otherwise."}
	case action.RiskWrite:
		return action.Step{Layer: action.LayerInferred, Mode: action.ModeRequireApproval, Note: "It writes, and writes wait for a person unless policy says otherwise."}
	}
	return action.Step{Layer: action.LayerInferred, Mode: action.ModeDeny, Note: "It is destructive, and such actions are denied unless policy says otherwise."}
}
