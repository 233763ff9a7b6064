package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/nearest"
)

// probeFor bounds how long a change of policy waits for a connector's tools.
const probeFor = 3 * time.Second

// checkAction refuses a key whose connector is known to lack the action: a
// denial with a typo in it, or of the name that agents see, would deny
// nothing. One that was not asked yet is asked now. Of a connector that is off
// or does not answer, any name is taken, so that policy can stand before its
// tools do; see [Server.unsure].
func (s *Server) checkAction(ctx context.Context, key action.Key, all []action.Connector) error {
	if p := s.provider(key.Source); p != nil {
		return providerCheckAction(p, key.Action)
	}
	i := slices.IndexFunc(all, func(c action.Connector) bool { return c.Source() == key.Source })
	if i < 0 || !all[i].Enabled || key.Action == "*" || beside(key.Action) {
		return nil
	}
	state := s.Connectors.State(ctx, all[i])
	if state.FetchedAt.IsZero() && state.Error == "" {
		// A denial must not wait for a server that hangs.
		soon, stop := context.WithTimeout(ctx, probeFor)
		defer stop()
		if asked, err := s.Connectors.Probe(soon, all[i]); err == nil {
			state = asked
		} else if ctx.Err() != nil {
			return err
		}
	}
	tools := slices.DeleteFunc(slices.Clone(state.Tools), func(a *action.Action) bool { return beside(a.Name) })
	if len(tools) == 0 && (state.FetchedAt.IsZero() || state.Error != "") {
		return nil
	}
	names := make([]string, len(tools))
	for j, a := range tools {
		names[j] = a.Name
	}
	if slices.Contains(names, key.Action) {
		return nil
	}
	source := cmp.Or(all[i].Slug, all[i].Name)
	for _, a := range tools {
		if a.Tool == key.Action {
			return unknownAction("%q is the name that agents see; use %s:%s.", key.Action, source, a.Name)
		}
	}
	if len(names) == 0 {
		return unknownAction("%s has no tools, so no action %q; check the connector again when that changed.", source, key.Action)
	}
	return unknownAction("%s has no action %q; nearest: %s. If it is new there, check the connector first, so that its tools are listed anew.",
		source, key.Action, plain(strings.Join(nearest.Three(key.Action, names), ", ")))
}

// unsure says of a key that checkAction took that nobody knows of such an
// action, because its connector is off or does not answer; empty: somebody does.
func (s *Server) unsure(ctx context.Context, key action.Key, all []action.Connector) (string, error) {
	i := slices.IndexFunc(all, func(c action.Connector) bool { return c.Source() == key.Source })
	if i < 0 || key.Action == "*" || beside(key.Action) {
		return "", nil
	}
	c := all[i]
	state := s.Connectors.State(ctx, c)
	if c.Enabled && state.Error == "" && !state.FetchedAt.IsZero() {
		return "", nil
	}
	seen, err := s.Policy.ListReviews(ctx, c.Organization, c.ID)
	if err != nil {
		return "", err
	}
	names := make([]string, len(seen))
	for j, r := range seen {
		names[j] = r.Tool
	}
	for _, a := range state.Tools {
		names = append(names, a.Name)
	}
	if slices.Contains(names, key.Action) {
		return "", nil
	}
	why := "is off"
	if c.Enabled {
		why = "cannot be asked"
	}
	source := cmp.Or(c.Slug, c.Name)
	return plain(fmt.Sprintf("%s %s and never listed an action %q: what was set counts for nothing until it does.%s", source, why, key.Action, nearest.Sentence(key.Action, names))), nil
}

// providerCheckAction refuses an action that the module lacks.
func providerCheckAction(p *api.Provider, name string) error {
	names := make([]string, len(p.Actions))
	for i, a := range p.Actions {
		if names[i] = a.Name; name == "*" || name == a.Name {
			return nil
		}
		if name == p.ID+"_"+a.Name {
			return unknownAction("%q is the name that agents see; use %s:%s.", name, p.ID, a.Name)
		}
	}
	if len(names) == 0 {
		return unknownAction("%s has no actions, so there is nothing to decide; name one of another source.", p.ID)
	}
	return unknownAction("%s has no action %q; nearest: %s.", p.ID, name, strings.Join(nearest.Three(name, names), ", "))
}

func unknownAction(format string, args ...any) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "unknown_action", Field: "/key", Message: fmt.Sprintf(format, args...)}
}
