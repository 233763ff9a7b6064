package routes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
	"sallyport/internal/suggest"
)

func (s *handlers) policyRoutes() {
	dashboard.Handle(s.Server, api.PutMode, s.setMode)
	dashboard.HandleNone(s.Server, api.DeleteMode, s.unsetMode)
	dashboard.Handle(s.Server, api.ListModes, listAll(s.Modes))
	dashboard.Handle(s.Server, api.ExplainPolicy, s.Explain)
}

func (s *handlers) setMode(ctx context.Context, p *dashboard.Principal, in *api.ByPolicyKeyWith[api.NewMode]) (api.ModeView, error) {
	n := in.Body
	key, all, err := s.knownKey(ctx, p.Organization, in.Key)
	if err != nil {
		return api.ModeView{}, err
	}
	if n.Automation, err = s.AutomationID(ctx, p, n.Automation, "/automation"); err != nil {
		return api.ModeView{}, err
	}
	warning, err := s.unknownActionWarning(ctx, key, all)
	if err != nil {
		return api.ModeView{}, err
	}
	o := action.Override{Organization: p.Organization, Automation: n.Automation, Key: key, Mode: n.Mode, UpdatedBy: p.By()}
	if err := s.Policy.SetOverride(ctx, o); err != nil {
		return api.ModeView{}, err
	}
	s.policyChanged(ctx, p, "mode set", "key", key.String(), "mode", n.Mode, "automation", n.Automation)
	v := view.ViewMode(o, all)
	v.Warning = warning
	return v, nil
}

func (s *handlers) unsetMode(ctx context.Context, p *dashboard.Principal, in *api.DeleteModeInput) error {
	automation := in.Automation
	key, err := s.storedKey(ctx, p.Organization, in.Key)
	if err != nil {
		return err
	}
	if automation, err = s.AutomationID(ctx, p, automation, "/automation"); err != nil {
		return err
	}
	if err := s.Policy.UnsetOverride(ctx, p.Organization, automation, key, p.By()); err != nil {
		return s.errNoMode(ctx, p.Organization, in.Key, err)
	}
	s.policyChanged(ctx, p, "mode removed", "key", key.String(), "automation", automation)
	return nil
}

// errNoMode adds similar keys to the error of a mode that is not configured.
func (s *handlers) errNoMode(ctx context.Context, organization, text string, err error) error {
	modes, failed := s.Modes(ctx, organization)
	if !errors.Is(err, action.ErrNotFound) || failed != nil {
		return err
	}
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = m.Name
	}
	e := action.NewError("override_not_found", render.Plain(text))
	e.Message += render.Plain(suggest.Sentence(text, names))
	return e
}

// policyChanged logs a change of policy and publishes a hint.
func (s *handlers) policyChanged(ctx context.Context, p *dashboard.Principal, what string, args ...any) {
	s.Log.InfoContext(ctx, what, append(args, "by", p.By())...)
	s.Hint(action.HintPolicy, p.Organization, "")
}

// knownKey resolves a key and checks that its action exists.
func (s *handlers) knownKey(ctx context.Context, organization, text string) (action.Key, []action.Connector, error) {
	key, all, err := s.ResolveKey(ctx, organization, text)
	if err != nil {
		return key, nil, err
	}
	return key, all, s.checkAction(ctx, key, all)
}

// storedKey resolves a key for removal. Rows outlive their connector, so the stored
// form of a key is accepted without one.
func (s *handlers) storedKey(ctx context.Context, organization, text string) (action.Key, error) {
	key, _, err := s.ResolveKey(ctx, organization, text)
	if err != nil {
		return action.ParseKey(text)
	}
	return key, nil
}

// levelSchema describes an [api.LevelName], so that anything else is refused
// before it is decoded.
func levelSchema() *huma.Schema {
	s := &huma.Schema{Description: "0 none, 1 read, 2 write, 3 production; or the name.", Examples: []any{"write"}}
	for l := action.LevelNone; l.Valid(); l++ {
		s.Enum = append(s.Enum, float64(l))
	}
	for l := action.LevelNone; l.Valid(); l++ {
		s.Enum = append(s.Enum, l.String())
	}
	return s
}

// levelOf returns the level of a name or number.
func levelOf(n api.LevelName) action.Level {
	for l := action.LevelNone; l.Valid(); l++ {
		var name string
		if json.Unmarshal(n.RawMessage, &name) == nil && name == l.String() {
			return l
		}
	}
	var l action.Level
	_ = json.Unmarshal(n.RawMessage, &l) // what is no number is none
	return l
}

// probeFor bounds how long a change of policy waits for a connector's tools.
const probeFor = 3 * time.Second

// checkAction refuses a key whose connector is known to lack the action: a
// denial with a typo in it, or of the name that agents see, would deny
// nothing. One that was not asked yet is asked now. Of a connector that is off
// or does not answer, any name is taken, so that policy can stand before its
// tools do; see unknownActionWarning.
func (s *handlers) checkAction(ctx context.Context, key action.Key, all []action.Connector) error {
	if p := s.Provider(key.Source); p != nil {
		return providerCheckAction(p, key.Action)
	}
	i := slices.IndexFunc(all, func(c action.Connector) bool { return c.Source() == key.Source })
	if i < 0 || !all[i].Enabled || key.Action == "*" || isNotTool(key.Action) {
		return nil
	}
	state := s.Connectors.State(ctx, all[i])
	if state.FetchedAt.IsZero() && state.Error == "" {
		// A denial must not wait for a server that does not respond.
		soon, stop := context.WithTimeout(ctx, probeFor)
		defer stop()
		if asked, err := s.Connectors.Probe(soon, all[i]); err == nil {
			state = asked
		} else if ctx.Err() != nil {
			return err
		}
	}
	tools := slices.DeleteFunc(slices.Clone(state.Tools), func(a *action.Action) bool { return isNotTool(a.Name) })
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
		return unknownAction("%s has no tools, so it has no action %q. Check the connector again when it has tools.", source, key.Action)
	}
	return unknownAction("%s has no action %q; nearest: %s. If the action is new, check the connector first to refresh its tools.",
		source, key.Action, render.Plain(strings.Join(suggest.Closest(key.Action, names), ", ")))
}

// unknownActionWarning returns a warning if the action of a key could not be checked
// because its connector is disabled or unreachable.
func (s *handlers) unknownActionWarning(ctx context.Context, key action.Key, all []action.Connector) (string, error) {
	i := slices.IndexFunc(all, func(c action.Connector) bool { return c.Source() == key.Source })
	if i < 0 || key.Action == "*" || isNotTool(key.Action) {
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
	return render.Plain(fmt.Sprintf("%s %s and never listed an action %q. The setting has no effect until it does.%s", source, why, key.Action, suggest.Sentence(key.Action, names))), nil
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
		return unknownAction("%s has no actions. Name an action of another source.", p.ID)
	}
	return unknownAction("%s has no action %q; nearest: %s.", p.ID, name, strings.Join(suggest.Closest(name, names), ", "))
}

func unknownAction(format string, args ...any) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "unknown_action", Field: "/key", Message: fmt.Sprintf(format, args...)}
}
