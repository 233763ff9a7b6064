package policy

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
)

// modes are the overrides of an organization or automation, each as the step
// that it adds to a decision.
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

// keyScope describes the actions that a key covers. The IDs are in
// [action.Step.Key].
func keyScope(k action.Key) string {
	switch {
	case k.Source == "*":
		return "all actions"
	case k.Action == "*":
		return "all actions of this source"
	}
	return "this action"
}

// keys returns the keys that cover an action, the most specific first: the
// action, its source, everything.
func keys(a *action.Action) [3]action.Key {
	return [...]action.Key{a.Key(), {Source: a.Source, Action: "*"}, {Source: "*", Action: "*"}}
}

// match returns the step of the most specific key that covers the action.
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
		return requireApprovalForDanger(step, a)
	}
	return action.Step{Layer: action.LayerAutomation, Note: "The automation has no mode for this action."}
}

func (p *Policy) override(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if step, ok := p.organization.match(a); ok {
		return requireApprovalForEvent(step, s, a)
	}
	return action.Step{Layer: action.LayerOrganization, Note: "The organization has no mode for this action."}
}

// capability allows what the ceiling, an earlier layer, did not deny.
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

// inferred decides by the action's risk. An unknown risk counts as danger.
func (p *Policy) inferred(_ time.Time, _ *action.Session, a *action.Action) action.Step {
	if a.Platform != nil {
		return action.Step{Layer: action.LayerInferred, Mode: action.ModeAllow, Note: "It affects only this gateway; such tools are allowed by default."}
	}
	step := action.Step{Layer: action.LayerInferred, Mode: a.Risk.DefaultMode(), Note: "It is destructive; such actions are denied by default."}
	switch a.Risk {
	case action.RiskRead:
		step.Note = "It is read-only; reads are allowed by default."
	case action.RiskWrite:
		step.Note = "It is a write; writes need approval by default."
	case action.RiskDanger:
	}
	switch {
	case a.Danger != "":
		step.Note = "It is destructive, because " + printable(a.Danger) + "; such calls are denied by default."
	case a.Allowed != "" && a.Risk != action.RiskDanger:
		step.Mode, step.Note = action.ModeAllow, "It is allowed by default, because "+printable(a.Allowed)+"."
	}
	return step
}

// requireApprovalForDanger requires approval where the step would allow a call whose
// params are destructive: whoever allowed the action thought of its usual calls.
func requireApprovalForDanger(step action.Step, a *action.Action) action.Step {
	if a.Danger != "" && step.Mode == action.ModeAllow {
		step.Mode = action.ModeRequireApproval
		step.Note += " It still needs approval, because " + printable(a.Danger) + "."
	}
	return step
}

// requireApprovalForEvent requires approval where the step would allow a
// write in a session that an inbound event started, because the sender of the
// event may have written the instructions. Reads and tools of the gateway
// itself stay allowed. The inferred layer needs no such check: it allows only
// these.
func requireApprovalForEvent(step action.Step, s *action.Session, a *action.Action) action.Step {
	step = requireApprovalForDanger(step, a)
	if s.Event != "" && a.Platform == nil && step.Mode == action.ModeAllow && a.Risk != action.RiskRead {
		step.Mode = action.ModeRequireApproval
		step.Note += " An inbound event started the session, so it still needs approval: only a mode of the automation can allow it."
	}
	return step
}

// providerName returns the name of the action's source for people.
func providerName(a *action.Action) string { return printable(cmp.Or(a.SourceName, a.Source)) }

func groupName(name string) string { return "group " + quoted(name) }

// quoted quotes a name that a person chose, to set it apart from the
// sentence.
func quoted(name string) string {
	return "'" + strings.ReplaceAll(printable(name), "'", `\'`) + "'"
}

// printable escapes characters that cannot be seen, such as those that
// control a terminal or the direction of text.
func printable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	spelled := strconv.Quote(name)
	return spelled[1 : len(spelled)-1]
}
