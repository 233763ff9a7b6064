package policy

import (
	"slices"
	"strings"
	"time"

	"sallyport/action"
)

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
