package policy

import (
	"slices"
	"strings"
	"time"

	"sallyport/action"
)

// connections are an organization's integrations, by provider.
type connections map[string][]action.Integration

// bound are those that the session may use, dead ones too. What is asked of a
// group, and not of a session, is asked of one that has them all.
func (c connections) bound(s *action.Session, provider string) []action.Integration {
	if s.ID == "" && len(s.Connections) == 0 {
		s = &action.Session{Connections: []string{action.AllConnections}}
	}
	return s.Bound(c[provider], provider)
}

// connected denies what a module cannot do for the session, for want of an
// integration that can be used. It is a ceiling: nothing that is said of the
// action makes up for it. Connectors have nothing of the kind.
func (p *Policy) connected(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if a.Provider == "" {
		return action.Step{}
	}
	step := action.Step{Layer: action.LayerCeiling, Mode: action.ModeDeny}
	bound := p.connections.bound(s, a.Provider)
	active := slices.DeleteFunc(slices.Clone(bound), dead)
	switch {
	case len(bound) == 0:
		step.Note = p.unconnected(s, a)
	case len(active) == 0:
		step.Note = "The session can use no integration of " + provider(a) + ": " + each(bound, health) + ". A person must connect it again."
	case len(active) > 1 && a.OneConnection:
		step.Note = "The session is connected to several integrations of " + provider(a) + " (" + each(active, name) + "), and " + shown(a.Name) + " is for one: mint a session that is connected to one of them."
	default:
		step.Mode, step.Note = "", "The session is connected to "+each(active, name)+"."
	}
	return step
}

// unconnected says what is missing, and how it is had. Who may not see an
// integration does not learn of it.
func (p *Policy) unconnected(s *action.Session, a *action.Action) string {
	seen := slices.DeleteFunc(slices.Clone(p.connections[a.Provider]), func(in action.Integration) bool { return in.Owner() != "" })
	switch {
	case len(seen) == 0 && s.ID == "":
		return "The organization has no integration of " + provider(a) + "; an admin can connect it."
	case len(seen) == 0:
		return "The session is not connected to " + provider(a) + ", and the organization has no integration of it; an admin can connect it, for sessions that are minted with it then."
	}
	return "The session is not connected to " + provider(a) + "; mint a session with " + each(seen, name) + " among its connections, or with all."
}

func dead(in action.Integration) bool { return in.Status != action.IntegrationActive }

// name is what people call it. A decision is read by whoever decides, and what
// a private one is called is its owner's alone.
func name(in action.Integration) string {
	if in.Owner() != "" {
		return "a private integration"
	}
	return quoted(in.Name)
}

// health says why an integration cannot be used.
func health(in action.Integration) string {
	if in.Reason == "" {
		return name(in) + " is " + string(in.Status)
	}
	return name(in) + " is " + string(in.Status) + " (" + strings.TrimRight(shown(in.Reason), ". ") + ")"
}

// maxNamed integrations are named in a sentence.
const maxNamed = 5

func each[T any](all []T, say func(T) string) string {
	parts := make([]string, 0, maxNamed+1)
	for _, in := range all[:min(len(all), maxNamed)] {
		parts = append(parts, say(in))
	}
	if len(all) > maxNamed {
		parts = append(parts, "and others")
	}
	return strings.Join(parts, ", ")
}

// usable are the ids of the integrations that the session can use, in order: all
// that matters of its connections to what is not denied.
func (c connections) usable(s *action.Session) []string {
	var ids []string
	for of := range c {
		for _, in := range c.bound(s, of) {
			if !dead(in) {
				ids = append(ids, in.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}
