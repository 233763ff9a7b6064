package sources

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
)

// binder returns what tells for which integration a call would run, before a
// person is asked about it.
func (s *service) binder(act *ModuleAction) func(context.Context, *action.Session, json.RawMessage) (action.Binding, error) {
	return func(ctx context.Context, who *action.Session, params json.RawMessage) (action.Binding, error) {
		in, err := s.choose(ctx, who, act, params)
		if err != nil {
			return action.Binding{}, err
		}
		if act.Guard != nil {
			if no := refusal(act.Guard(in.Settings, params)); no != nil {
				return action.Binding{}, action.Errorf(action.ErrForbidden, no.Code, "%s: %s", s.Title, Printable(no.Message, maxRefusal))
			}
		}
		return action.Binding{Integration: in.ID, Revision: fmt.Sprintf("%s %d", in.ID, in.Revision)}, nil
	}
}

// chosen is the integration of a call that runs, which is the one that a person
// approved it for, if he was asked.
func (s *service) chosen(ctx context.Context, caller action.Caller, act *ModuleAction, params json.RawMessage) (in action.Integration, err error) {
	who, err := s.catalog.Session(ctx, caller.Session())
	if err != nil {
		return in, err
	}
	in, err = s.choose(ctx, who, act, params)
	if approved := caller.Integration(); err == nil && approved != "" && approved != in.ID {
		return in, action.Errorf(action.ErrUnavailable, FaultConfig, "The call would now run for another integration of %s than the one it was approved for; call again to have it approved anew.", s.Title)
	}
	return in, err
}

// choose returns the integration that a call is for. Policy looked before; but
// only here are the params known.
func (s *service) choose(ctx context.Context, who *action.Session, act *ModuleAction, params json.RawMessage) (in action.Integration, err error) {
	t := s.catalog.tenant(who.Organization)
	if err := t.load(ctx, false); err != nil {
		return in, err
	}
	all := t.connections()
	if in, err = s.bound(who, all, params); err != nil || !act.AsUser {
		return in, err
	}
	if own, ok := who.OwnConnection(all, s.ID); ok && s.standsIn(own, in) {
		return behalf(own, in), nil
	}
	return in, nil
}

// standsIn reports whether a user's own connection reaches what the integration
// does that his session is bound to.
func (s *service) standsIn(own, in action.Integration) bool {
	return own.BaseURL == in.BaseURL && (!s.Workspace || own.Account == in.Account)
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
		return in, action.NewError("ambiguous_integration", s.Title, listed(bound, named))
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
