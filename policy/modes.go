package policy

import (
	"time"

	"sallyport/action"
)

// modes are overrides by their keys, each as the step that it makes.
type modes map[action.Key]action.Step

func (p *Policy) addOverride(o action.Override) {
	layer, m := action.LayerOrganization, p.organization
	if o.Automation != "" {
		layer = action.LayerAutomation
		if m = p.automations[o.Automation]; m == nil {
			m = modes{}
			p.automations[o.Automation] = m
		}
	}
	mode := o.Mode
	if !mode.Valid() {
		mode = action.ModeDeny
	}
	m[o.Key] = action.Step{
		Layer: layer, Key: o.Key.String(), Mode: mode,
		Note: "The " + string(layer) + "'s mode for " + keyScope(o.Key) + " is " + string(mode) + ".",
	}
}

// keyScope says how far a key goes, where it is more than one action. Its id is
// in [action.Step.Key].
func keyScope(k action.Key) string {
	switch {
	case k.Source == "*":
		return "all actions"
	case k.Action == "*":
		return "all actions of this source"
	}
	return "this action"
}

// keys are those that cover an action, the most exact first: itself, its whole
// source, everything.
func keys(a *action.Action) [3]action.Key {
	return [...]action.Key{a.Key(), {Source: a.Source, Action: "*"}, {Source: "*", Action: "*"}}
}

// match finds the step of the most exact key that covers the action.
func (m modes) match(a *action.Action) (action.Step, bool) {
	if len(m) == 0 {
		return action.Step{}, false
	}
	for _, key := range keys(a) {
		if step, ok := m[key]; ok {
			return step, true
		}
	}
	return action.Step{}, false
}

func (p *Policy) automation(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if s.Automation == "" {
		return action.Step{Layer: action.LayerAutomation, Note: "The session has no automation."}
	}
	if step, ok := p.automations[s.Automation].match(a); ok {
		return step
	}
	return action.Step{Layer: action.LayerAutomation, Note: "The automation has no mode for this action."}
}

func (p *Policy) override(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if step, ok := p.organization.match(a); ok {
		return requireApprovalForEvent(step, s, a)
	}
	return action.Step{Layer: action.LayerOrganization, Note: "The organization has no mode for this action."}
}

// capability allows what the group may do: the ceiling was asked before.
func (p *Policy) capability(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if a.Platform != nil {
		return action.Step{}
	}
	c := p.capabilities[capabilityKey{s.Group, a.Source}]
	if s.Group == "" || c == nil {
		return action.Step{Layer: action.LayerCapability, Note: "The session has no group, so no capability applies."}
	}
	step := action.Step{Layer: action.LayerCapability, Mode: action.ModeAllow, Note: "The capability of " + c.group + " at " + providerName(a) + " allows it."}
	return requireApprovalForEvent(step, s, a)
}

// inferred goes by the action's risk. Anything that is not known to be a read
// or a write is as bad as a danger.
func (p *Policy) inferred(_ time.Time, _ *action.Session, a *action.Action) action.Step {
	if a.Platform != nil {
		return action.Step{Layer: action.LayerInferred, Mode: action.ModeAllow, Note: "It affects only this gateway; such tools are allowed by default."}
	}
	switch a.Risk {
	case action.RiskRead:
		return action.Step{Layer: action.LayerInferred, Mode: action.ModeAllow, Note: "It is read-only; reads are allowed by default."}
	case action.RiskWrite:
		return action.Step{Layer: action.LayerInferred, Mode: action.ModeRequireApproval, Note: "It is a write; writes need approval by default."}
	}
	return action.Step{Layer: action.LayerInferred, Mode: action.ModeDeny, Note: "It is destructive; such actions are denied by default."}
}

// requireApprovalForEvent has a person look at what would be allowed in a session that an
// inbound event started, because whoever sent the event may have worded what
// the agent wants. Reads are let through, and what acts on this gateway alone.
// What inferred allows is one of the two.
func requireApprovalForEvent(step action.Step, s *action.Session, a *action.Action) action.Step {
	if s.Event != "" && a.Platform == nil && step.Mode == action.ModeAllow && a.Risk != action.RiskRead {
		step.Mode = action.ModeRequireApproval
		step.Note += " An inbound event started the session, so it still needs approval: only a mode of the automation can allow it."
	}
	return step
}
