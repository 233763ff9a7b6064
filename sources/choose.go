package sources

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
)

// choose returns the integration that a call is for, as things are now. Policy
// looked before; but what it rested on may be a second old, and only here are
// the params known.
func (s *service) choose(ctx context.Context, session string, act *ModuleAction, params json.RawMessage) (in action.Integration, err error) {
	who, err := s.catalog.Session(ctx, session)
	if err != nil {
		return in, err
	}
	all, err := s.catalog.Integrations(ctx, who.Organization)
	if err != nil {
		return in, err
	}
	if in, err = s.bound(&who, all, params); err != nil || !act.AsUser {
		return in, err
	}
	if own, ok := who.OwnConnection(all, s.ID); ok && own.BaseURL == in.BaseURL {
		return behalf(own, in), nil
	}
	return in, nil
}

// behalf is a user's own connection in the place of the integration that his
// session is bound to. What an admin allows there holds for whoever acts.
func behalf(own, in action.Integration) action.Integration {
	own.Settings, own.TimeoutSeconds = in.Settings, in.TimeoutSeconds
	return own
}

// bound returns the one of the session's integrations that the params mean.
func (s *service) bound(who *action.Session, all []action.Integration, params json.RawMessage) (in action.Integration, err error) {
	bound := who.Bound(all, s.ID)
	active := slices.DeleteFunc(slices.Clone(bound), func(in action.Integration) bool { return in.Status != action.IntegrationActive })
	switch {
	case len(bound) == 0:
		return in, action.Errorf(action.ErrUnavailable, FaultConfig, "The session is not connected to %s; tell the user that it takes a session that is.", s.Title)
	case len(active) == 0:
		return in, s.dead(bound)
	case s.Choose != nil && len(bound) > 1:
		return s.among(bound, params)
	case len(active) == 1:
		return active[0], nil
	}
	return in, action.Errorf(action.ErrUnavailable, FaultConfig, "The session is connected to several integrations of %s, and its actions are for one; tell the user that it takes a session with one of them.", s.Title)
}

// among has the module tell by the params which one is meant. Dead ones are
// asked for, too: what is for one of them is for no other.
func (s *service) among(bound []action.Integration, params json.RawMessage) (in action.Integration, err error) {
	i := s.Choose(params, bound)
	switch {
	case i < 0 || i >= len(bound):
		return in, action.Errorf(action.ErrUnavailable, "ambiguous_integration",
			"The params do not tell which integration of %s is meant: %s. Name the account that it is for, such as the owner of a repository or the organization.", s.Title, listed(bound, named))
	case bound[i].Status != action.IntegrationActive:
		return in, s.dead(bound[i : i+1])
	}
	return bound[i], nil
}

// dead says why none of a session's integrations can be used.
func (s *service) dead(bound []action.Integration) error {
	return action.Errorf(action.ErrUnavailable, FaultReconnect, "%s cannot be used: %s. Tell the user that a person must connect it again.", s.Title,
		listed(bound, func(in action.Integration) string {
			why := fmt.Sprintf("%s is %s", named(in), in.Status)
			if in.Reason != "" {
				why += " (" + Printable(strings.TrimRight(in.Reason, ". "), maxRefusal/3) + ")"
			}
			return why
		}))
}

// named is what people call an integration. Who looks at a call learns no name
// of a private one.
func named(in action.Integration) string {
	if in.Owner() != "" {
		return "a private integration"
	}
	return show(in.Name)
}

// listed says something of each of a few integrations.
func listed(all []action.Integration, say func(action.Integration) string) string {
	var parts []string
	for _, in := range all[:min(len(all), maxForms)] {
		parts = append(parts, say(in))
	}
	if more := len(all) - maxForms; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}
