package policy

import (
	"slices"
	"strconv"
	"strings"
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
	case s.Group == "" && a.Production == "":
		return action.Step{Layer: action.LayerCeiling, Note: "The session has no group, so no ceiling applies."}
	}
	step := action.Step{Layer: action.LayerCeiling, Mode: action.ModeDeny}
	if s.Group == "" {
		step.Note = neededLevel(a) + ", and the session has no group that could have it."
		return step
	}
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
			step.Alert = a.Production != ""
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
	needs := neededLevel(a) + ", and level 3 needs "
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
		", " + printable(a.Name) + " needs level " + strconv.Itoa(int(a.Risk.Level())) + because(a) + "."
}

// neededLevel begins a sentence with the level that the action needs.
func neededLevel(a *action.Action) string {
	return printable(a.Name) + " needs level " + strconv.Itoa(int(a.Risk.Level())) + " at " + providerName(a) + because(a)
}

// because says why the action needs a level that its risk does not.
func because(a *action.Action) string {
	if a.Production == "" {
		return ""
	}
	return ", because " + printable(a.Production)
}

// integrationsByProvider holds an organization's integrations.
type integrationsByProvider map[string][]action.Integration

// bound returns the integrations that the session is bound to, unusable ones
// included. A decision for a group has no session, and is made as if the
// session had all of them.
func (c integrationsByProvider) bound(s *action.Session, provider string) []action.Integration {
	if s.ID == "" && len(s.Connections) == 0 {
		s = &action.Session{Connections: []string{action.AllConnections}}
	}
	return s.Bound(c[provider], provider)
}

// integration denies actions of a module without a usable integration of the
// session. It is a ceiling: no later layer can allow the action. Connectors
// need no integration.
func (p *Policy) integration(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if a.Provider == "" {
		return action.Step{}
	}
	step := action.Step{Layer: action.LayerCeiling, Mode: action.ModeDeny}
	bound := p.integrations.bound(s, a.Provider)
	active := slices.DeleteFunc(slices.Clone(bound), inactive)
	switch {
	case len(bound) == 0:
		step.Note = p.missingIntegration(s, a)
	case len(active) == 0:
		step.Note = "The session cannot use any integration of " + providerName(a) + ": " + joinNames(bound, statusNote) + ". A person must reconnect it."
	case len(active) > 1 && a.OneConnection:
		step.Note = "The session is connected to several integrations of " + providerName(a) + " (" + joinNames(active, integrationName) + "), but " + printable(a.Name) + " needs exactly one: create a session connected to one of them."
	default:
		step.Mode, step.Note = "", "The session is connected to "+joinNames(active, integrationName)+"."
	}
	return step
}

// missingIntegration returns what is missing and how to get it. It does not
// reveal private integrations.
func (p *Policy) missingIntegration(s *action.Session, a *action.Action) string {
	seen := slices.DeleteFunc(slices.Clone(p.integrations[a.Provider]), func(in action.Integration) bool { return in.Owner() != "" })
	switch {
	case len(seen) == 0 && s.ID == "":
		return "The organization has no integration of " + providerName(a) + ". An admin can connect one."
	case len(seen) == 0:
		return "The session is not connected to " + providerName(a) + ", and the organization has no integration of it. An admin can connect one for sessions created later."
	}
	return "The session is not connected to " + providerName(a) + ". Create a session connected to " + joinNames(seen, integrationName) + " or to all integrations."
}

func inactive(in action.Integration) bool { return in.Status != action.IntegrationActive }

// integrationName returns the name for people. Everyone who can see a
// decision reads it, so the name of a private integration is left out.
func integrationName(in action.Integration) string {
	if in.Owner() != "" {
		return "a private integration"
	}
	return quoted(in.Name)
}

// statusNote returns why an integration cannot be used.
func statusNote(in action.Integration) string {
	if in.Reason == "" {
		return integrationName(in) + " is " + string(in.Status)
	}
	return integrationName(in) + " is " + string(in.Status) + " (" + strings.TrimRight(printable(in.Reason), ". ") + ")"
}

// maxNamed is the number of names listed in one sentence.
const maxNamed = 5

func joinNames[T any](all []T, say func(T) string) string {
	parts := make([]string, 0, maxNamed+1)
	for _, in := range all[:min(len(all), maxNamed)] {
		parts = append(parts, say(in))
	}
	if len(all) > maxNamed {
		parts = append(parts, "and others")
	}
	return strings.Join(parts, ", ")
}

// usable returns the sorted IDs of the integrations that the session can use.
// Decisions depend on no other property of its connections.
func (c integrationsByProvider) usable(s *action.Session) []string {
	var ids []string
	for of := range c {
		for _, in := range c.bound(s, of) {
			if !inactive(in) {
				ids = append(ids, in.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// platformTool denies the gateway's own tools in sessions of other types. It
// is a ceiling: policy cannot change the purpose of a session. Groups have no
// capabilities at the gateway, so no other ceiling applies.
func (p *Policy) platformTool(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if a.Platform == nil {
		return action.Step{}
	}
	step := action.Step{Layer: action.LayerCeiling, Mode: action.ModeDeny}
	switch {
	case s.ID == "" && s.Type == "": // a placeholder for any session
		step.Mode, step.Note = "", "Whether the session has this tool depends on its type and run."
	case a.Platform.RunsOnly && !s.ForRun():
		step.Note = printable(a.Name) + " is only for sessions of automation runs."
	case a.Platform.SessionTypes != nil && !slices.Contains(a.Platform.SessionTypes, s.Type):
		step.Note = printable(a.Name) + " is only for sessions of type " + joinNames(a.Platform.SessionTypes, typeName) + "; this session is of type " + string(s.Type) + "."
	default:
		step.Mode, step.Note = "", "It affects only this gateway and is available to this session."
	}
	return step
}

func typeName(t action.SessionType) string { return string(t) }
