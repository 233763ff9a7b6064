package policy

import (
	"strconv"
	"time"

	"sallyport/action"
)

// capabilityKey is where a group has a capability.
type capabilityKey struct{ group, provider string }

// capability is a group's ceiling at a provider, indexed for decisions.
type capability struct {
	action.Capability
	group   string // "group 'developer'"
	allowed map[string]bool
	denied  map[string]bool
}

func (p *Policy) addCapability(c action.Capability) {
	if !c.Level.Valid() {
		c.Level = action.LevelNone
	}
	p.groups[c.Group] = true
	p.capabilities[capabilityKey{c.Group, c.Provider}] = &capability{
		Capability: c, group: groupName(c.Group), allowed: set(c.AllowedActions), denied: set(c.DeniedActions),
	}
}

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}

// gateKey identifies a gate that must be approved for a task of a group.
type gateKey struct{ group, task, name string }

// gateApproval is a person's approval of a gate.
type gateApproval struct {
	all       bool // every action behind the gate
	keys      map[action.Key]bool
	by        string
	expiresAt *time.Time
}

func (p *Policy) addApproval(g action.GateApproval) {
	at := gateKey{g.Group, g.Task, g.Gate}
	a := gateApproval{all: g.Actions == nil, keys: make(map[action.Key]bool, len(g.Actions)), by: g.ApprovedBy, expiresAt: g.ExpiresAt}
	for _, text := range g.Actions {
		if key, err := action.ParseKey(text); err == nil { // an invalid key covers nothing
			a.keys[key] = true
		}
	}
	p.gates[at] = append(p.gates[at], a)
}

// covers reports whether the approval applies to the action now.
func (g *gateApproval) covers(now time.Time, a *action.Action) bool {
	return !expired(g.expiresAt, now) && (g.all || g.keys[a.Key()] || g.keys[action.Key{Source: a.Source, Action: "*"}])
}

// ceiling denies actions beyond the capability of the session's group.
func (p *Policy) ceiling(now time.Time, s *action.Session, a *action.Action) action.Step {
	switch {
	case a.Platform != nil:
		return action.Step{} // see platformTool
	case s.Group == "":
		return action.Step{Layer: action.LayerCeiling, Note: "The session has no group, so no ceiling applies."}
	}
	step := action.Step{Layer: action.LayerCeiling, Mode: action.ModeDeny}
	c := p.capabilities[capabilityKey{s.Group, a.Source}]
	if c == nil {
		step.Note = "The " + groupName(s.Group) + " has no capability at " + providerName(a) + "."
		return step
	}
	if step.Note = c.denyReason(now, a); step.Note == "" {
		step.Note = p.gateReason(now, c, s, a)
	}
	if step.Note == "" {
		step.Mode, step.Note = "", c.levelNote(a)
		if a.Risk.Level() == action.LevelProduction {
			step.Note += " Gate " + quoted(c.Gate) + " is approved for task " + quoted(s.Task) + "."
		}
	}
	return step
}

// denyReason returns why the capability does not allow the action, without
// regard to gates; empty if it does.
func (c *capability) denyReason(now time.Time, a *action.Action) string {
	switch {
	case expired(c.ExpiresAt, now):
		return "The capability of " + c.group + " at " + providerName(a) + " expired on " + c.ExpiresAt.UTC().Format(time.RFC3339) + "."
	case c.Level < a.Risk.Level():
		return c.levelNote(a)
	case c.AllowedActions != nil && !c.allowed[a.Name]:
		return printable(a.Name) + " is not among the allowed actions of " + c.group + " at " + providerName(a) + "."
	case c.denied[a.Name]:
		return printable(a.Name) + " is in the denied actions of " + c.group + " at " + providerName(a) + "."
	}
	return ""
}

// gateReason returns why the gate is not approved for the session's task;
// empty if it is, or if the action is below level production.
func (p *Policy) gateReason(now time.Time, c *capability, s *action.Session, a *action.Action) string {
	if a.Risk.Level() < action.LevelProduction {
		return ""
	}
	needs := printable(a.Name) + " needs level 3 at " + providerName(a) + ", and level 3 needs "
	switch {
	case c.Gate == "":
		return needs + "a gate, but the capability of " + c.group + " names none."
	case s.Task == "":
		return needs + "gate " + quoted(c.Gate) + " to be approved for the session's task, but the session has no task."
	}
	alone := false
	for _, g := range p.gates[gateKey{s.Group, s.Task, c.Gate}] {
		switch {
		case !g.covers(now, a):
		case !p.settings.SelfApproval && g.by == s.CreatedBy:
			alone = true
		default:
			return ""
		}
	}
	if alone {
		return needs + "gate " + quoted(c.Gate) + " to be approved for task " + quoted(s.Task) + " by someone other than the session's creator."
	}
	return needs + "gate " + quoted(c.Gate) + " to be approved for task " + quoted(s.Task) + "."
}

// levelNote compares the level of the group with the level that the action
// needs.
func (c *capability) levelNote(a *action.Action) string {
	return "The " + c.group + " has level " + strconv.Itoa(int(c.Level)) + " (" + c.Level.String() + ") at " + providerName(a) +
		", " + printable(a.Name) + " needs level " + strconv.Itoa(int(a.Risk.Level())) + "."
}
