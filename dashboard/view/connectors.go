package view

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
)

// ViewConnector returns the view of one connector, with its OAuth status.
func (s *Reader) ViewConnector(ctx context.Context, c action.Connector, state dashboard.ConnectorState) (v api.ConnectorView, err error) {
	v = s.viewState(c, state)
	v.OAuthStatus, err = s.OAuthStatus(ctx, c)
	return v, err
}

// ViewConnectors returns the views of an organization's connectors. If their OAuth
// status cannot be read, it is left out.
func (s *Reader) ViewConnectors(ctx context.Context, organization string, all []action.Connector) []api.ConnectorView {
	grants, err := s.Connectors.Grants(ctx, organization)
	if err != nil {
		s.Log.WarnContext(ctx, "could not list the tokens of connectors", "error", err)
	}
	views := make([]api.ConnectorView, 0, len(all))
	for _, c := range all {
		v := s.viewState(c, s.Connectors.State(ctx, c))
		if err == nil && c.OAuth != nil {
			v.OAuthStatus = &api.OAuthStatus{Status: "not_connected"}
			if i := slices.IndexFunc(grants, func(g action.OAuthGrant) bool { return g.Connector == c.ID }); i >= 0 {
				v.OAuthStatus = viewGrant(&grants[i])
			}
		}
		views = append(views, v)
	}
	return views
}

func (s *Reader) viewState(c action.Connector, state dashboard.ConnectorState) api.ConnectorView {
	tools, _ := ViewActions(state.Tools)
	v := api.ConnectorView{
		Connector: c, Source: c.Source(), ToolCount: len(tools), ResourceCount: state.Resources, TemplateCount: state.Templates,
		PromptCount: state.Prompts, Protocol: state.Protocol, Error: state.Error, Diagnosis: state.Diagnosis, Warnings: slices.Clone(dashboard.NonNil(state.Warnings)),
		CircuitOpen: state.CircuitOpen, SharedState: state.SharedState,
	}
	if v.Diagnosis != nil {
		d := *v.Diagnosis
		d.Field = dashboard.DiagnosisConcerns(&d, &c)
		v.Diagnosis = &d
	}
	for _, p := range s.Providers {
		if c.Slug == p.ID || strings.EqualFold(c.Name, p.ID) {
			v.Warnings = append(v.Warnings, fmt.Sprintf("A module of the gateway is also called %s. In policy, use %s for this connector and %s%s for the module.", p.ID, c.Source(), ModulePrefix, p.ID))
		}
	}
	for _, step := range state.Steps {
		v.Steps = append(v.Steps, api.StepView{Name: step.Name, TookMS: float64(step.Took.Microseconds()) / 1000, Detail: step.Detail, Failed: step.Failed})
	}
	if !state.FetchedAt.IsZero() {
		v.FetchedAt = &state.FetchedAt
	}
	if !state.RetryAt.IsZero() {
		v.RetryAt = &state.RetryAt
	}
	return v
}

// ViewTools returns the view of a connector with its actions, each with its mode
// in a plain session.
func (s *Reader) ViewTools(ctx context.Context, c action.Connector, state dashboard.ConnectorState) (api.ConnectorView, error) {
	v, err := s.ViewConnector(ctx, c, state)
	v.Tools, v.Beside = ViewActions(state.Tools)
	modes := map[string]action.Mode{}
	for _, a := range state.Tools {
		if d, ok := s.defaultDecision(ctx, a, c.Organization); ok {
			modes[a.Name] = d.Mode
		}
	}
	for _, list := range [][]api.ToolView{v.Tools, v.Beside} {
		for i := range list {
			list[i].Mode = modes[list[i].Name]
		}
	}
	v.Modes = CountModes(state.Tools, func(a *action.Action) action.Mode { return modes[a.Name] })
	v.Recognized = s.RecognizedPreset(&c, &state, v.Tools)
	if err != nil {
		return v, err
	}
	missing, err := s.defaultGroupWarning(ctx, &c)
	if missing != "" {
		v.Warnings = append(v.Warnings, missing)
	}
	return v, err
}

// defaultGroupWarning says that sessions in the default group cannot use a connector;
// empty if they can, or if there is no default group.
func (s *Reader) defaultGroupWarning(ctx context.Context, c *action.Connector) (string, error) {
	settings, err := s.Policy.Settings(ctx, c.Organization)
	if err != nil || settings.DefaultGroup == "" {
		return "", err
	}
	list, err := s.Policy.ListCapabilities(ctx, c.Organization, settings.DefaultGroup)
	if err != nil || slices.ContainsFunc(list, func(k action.Capability) bool { return k.Provider == c.Source() }) {
		return "", err
	}
	return fmt.Sprintf("The default group %q has no access to this connector, so new sessions without another group cannot use its tools. Add it to the group under Policy, or with sallyport capability set.", settings.DefaultGroup), nil
}

// CountModes counts the tools among actions by their modes; nil without tools.
func CountModes(actions []*action.Action, mode func(*action.Action) action.Mode) *api.ModeCounts {
	var m api.ModeCounts
	for _, a := range actions {
		if a.Tool == "" {
			continue
		}
		switch mode(a) {
		case action.ModeAllow:
			m.Allowed++
		case action.ModeRequireApproval:
			m.Asks++
		case action.ModeDeny:
			m.Denied++
		}
	}
	if m == (api.ModeCounts{}) {
		return nil
	}
	return &m
}

// RecognizedPreset returns the name of the known server that has modes for these
// tools and is not the connector's preset; empty if there is none. Tools count more
// than the name that the server gives itself: others use the same name, and a server
// of few permissions lists few tools.
func (s *Reader) RecognizedPreset(c *action.Connector, state *dashboard.ConnectorState, tools []api.ToolView) (name string) {
	most := 0
	for _, p := range s.Presets {
		n := 0
		for _, known := range p.Known {
			if slices.ContainsFunc(tools, func(t api.ToolView) bool { return t.Name == known }) {
				n++
			}
		}
		if n > most && n >= min(3, len(p.Known)) {
			name, most = p.Name, n
		}
	}
	if name == "" {
		name = s.presetOfServer(state.Server, tools)
	}
	if name == c.Preset && len(c.PresetModes) > 0 {
		return ""
	}
	return name
}

// presetOfServer returns the name of the known server that gives itself this name
// and has a mode for one of the tools; empty if there is none.
func (s *Reader) presetOfServer(server string, tools []api.ToolView) string {
	for _, p := range s.Presets {
		if !slices.ContainsFunc(p.Servers, func(known string) bool { return strings.EqualFold(known, server) }) {
			continue
		}
		for pattern := range p.Modes {
			if slices.ContainsFunc(tools, func(t api.ToolView) bool { return action.MatchTool(pattern, t.Name) }) {
				return p.Name
			}
		}
	}
	return ""
}

// ViewActions separates tools from other actions.
func ViewActions(actions []*action.Action) (tools, beside []api.ToolView) {
	tools, beside = []api.ToolView{}, []api.ToolView{}
	for _, a := range actions {
		v := api.ToolView{Name: a.Name, Tool: a.Tool, Title: a.Title, Description: a.Description, Risk: a.Risk}
		if a.Tool == "" {
			beside = append(beside, v)
		} else {
			tools = append(tools, v)
		}
	}
	return tools, beside
}

// Connector returns a connector by ID, slug or name, in this order.
func (s *Reader) Connector(ctx context.Context, organization, ref string) (action.Connector, error) {
	all, err := s.Sources.ListConnectors(ctx, organization)
	if err != nil {
		return action.Connector{}, err
	}
	if c := FindConnector(all, ref); c != nil {
		return *c, nil
	}
	return action.Connector{}, action.NewError("no_such_connector", ref)
}

// FindConnector returns the connector with that id, slug or name, in this order;
// nil if there is none.
func FindConnector(all []action.Connector, ref string) *action.Connector {
	id := strings.TrimPrefix(ref, ConnectorPrefix)
	for _, matches := range []func(action.Connector) bool{
		func(c action.Connector) bool { return c.ID == id },
		func(c action.Connector) bool { return c.Slug != "" && c.Slug == ref },
		func(c action.Connector) bool { return strings.EqualFold(c.Name, ref) },
	} {
		if i := slices.IndexFunc(all, matches); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

// HostOf returns the host of a checked URL, to which secrets are bound.
func HostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// OAuthStatus returns the status of a connector's sign-in; nil without OAuth.
func (s *Reader) OAuthStatus(ctx context.Context, c action.Connector) (*api.OAuthStatus, error) {
	if c.OAuth == nil {
		return nil, nil
	}
	g, err := s.Connectors.Grant(ctx, c.Organization, c.ID)
	if errors.Is(err, action.ErrNotFound) {
		return &api.OAuthStatus{Status: "not_connected"}, nil
	}
	if err != nil {
		return nil, err
	}
	return viewGrant(&g), nil
}

func viewGrant(g *action.OAuthGrant) *api.OAuthStatus {
	return &api.OAuthStatus{Status: string(g.Status), Reason: g.Reason, Issuer: g.Issuer, Scope: g.Scope, ExpiresAt: g.ExpiresAt, By: g.By}
}

// ViewReviews returns the views of tool reviews, with risk and mode of each tool.
func (s *Reader) ViewReviews(ctx context.Context, c action.Connector, list []action.ToolReview) []api.ReviewView {
	tools := s.Connectors.State(ctx, c).Tools
	views := make([]api.ReviewView, len(list))
	for i, r := range list {
		views[i] = ViewReview(r)
		at := slices.IndexFunc(tools, func(a *action.Action) bool { return a.Name == r.Tool })
		if at < 0 {
			continue
		}
		views[i].Risk = tools[at].Risk
		if d, ok := s.defaultDecision(ctx, tools[at], c.Organization); ok {
			views[i].Mode, views[i].ModeSource = d.Mode, d.Source
		}
	}
	return views
}

// ViewReview returns the view of one tool review, with what changed since.
func ViewReview(r action.ToolReview) api.ReviewView {
	v := api.ReviewView{
		Tool: r.Tool, State: r.State, Reviewed: viewVersion(r.Reviewed), Current: viewVersion(r.Current),
		ReviewedBy: r.ReviewedBy, ReviewedAt: r.ReviewedAt, SeenAt: r.SeenAt, Changes: []api.Change{},
	}
	if r.State == action.ToolChanged && r.Reviewed != nil && r.Current != nil {
		v.Changes = dashboard.NonNil(render.Diff(r.Reviewed.Definition, r.Current.Definition))
	}
	return v
}

func viewVersion(v *action.ToolVersion) *api.Definition {
	if v == nil {
		return nil
	}
	return &api.Definition{ToolHashes: v.ToolHashes, Definition: v.Definition}
}

// defaultDecision returns the decision for a session without group, task or
// automation.
func (s *Reader) defaultDecision(ctx context.Context, a *action.Action, organization string) (action.Decision, bool) {
	plain := &action.Session{Organization: organization, Kind: action.Interactive, Type: action.TypeCoding}
	d, err := s.Decide(ctx, plain, a, nil, true)
	if err != nil {
		s.Log.WarnContext(ctx, "could not decide the mode of a tool", "tool", a.Tool, "error", err)
	}
	return d, err == nil
}

// ViewIntegration returns the view of one integration, and why it cannot be used.
func (s *Reader) ViewIntegration(in action.Integration) api.IntegrationView {
	in.Reason = render.Plain(in.Reason) // may contain text of the service
	v := api.IntegrationView{Integration: in, Title: in.Provider}
	provider := s.Provider(in.Provider)
	if provider != nil {
		v.Title = provider.Title
	}
	switch {
	case provider == nil:
		v.Why = "The gateway no longer supports this service. Disconnect it."
	case in.Status == action.IntegrationActive:
		v.Usable = true
	default:
		v.Why = strings.TrimSpace(in.Reason + " Connect the account again to use it.")
	}
	return v
}

// Integrations lists the integrations that the principal may see.
func (s *Reader) Integrations(ctx context.Context, p *dashboard.Principal) ([]api.IntegrationView, error) {
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	views := make([]api.IntegrationView, len(all))
	for i, in := range all {
		views[i] = s.ViewIntegration(in)
	}
	return views, err
}

// Provider returns the provider with that ID, or nil.
func (s *Reader) Provider(id string) *api.Provider {
	if i := slices.IndexFunc(s.Providers, func(p api.Provider) bool { return p.ID == id }); i >= 0 {
		return &s.Providers[i]
	}
	return nil
}

// Manages returns nil if the principal may change or disconnect a visible
// integration: a private one is managed by its owner only.
func Manages(p *dashboard.Principal, in *action.Integration) error {
	switch owner := in.Owner(); {
	case owner != "" && owner == p.Viewer(), owner == "" && p.Role.Decides():
		return nil
	case owner != "":
		return action.NewError("integration_not_found")
	}
	return action.Errorf(action.ErrForbidden, "role_required", "This integration belongs to the organization. Ask an owner or admin.")
}

// KeepListed returns the IDs whose integrations are in the list.
func KeepListed(ids []string, all []action.Integration) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return id != action.AllConnections && !slices.ContainsFunc(all, func(in action.Integration) bool { return in.ID == id })
	})
}
