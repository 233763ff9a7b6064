package dashboard

import (
	"context"
	"slices"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) viewConnector(ctx context.Context, c action.Connector, state ConnectorState) (v api.ConnectorView, err error) {
	v = s.viewState(c, state)
	v.OAuthStatus, err = s.oauthStatus(ctx, c)
	return v, err
}

// viewConnectors does so with those of an organization. A list is there also
// when what is known of its tokens is not.
func (s *Server) viewConnectors(ctx context.Context, organization string, all []action.Connector) []api.ConnectorView {
	grants, err := s.Connectors.Grants(ctx, organization)
	if err != nil {
		s.Log.WarnContext(ctx, "listing the sign-ins of connectors", "error", err)
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

func (s *Server) viewState(c action.Connector, state ConnectorState) api.ConnectorView {
	tools, _ := viewActions(state.Tools)
	v := api.ConnectorView{
		Connector: c, Source: c.Source(), ToolCount: len(tools), ResourceCount: state.Resources, TemplateCount: state.Templates,
		PromptCount: state.Prompts, Protocol: state.Protocol, Error: state.Error, Diagnosis: state.Diagnosis, Warnings: slices.Clone(nonNil(state.Warnings)),
		CircuitOpen: state.CircuitOpen,
	}
	if v.Diagnosis != nil {
		d := *v.Diagnosis
		d.Field = diagnosisConcerns(&d, &c)
		v.Diagnosis = &d
	}
	v.Warnings = append(v.Warnings, s.sharedNames(&c)...)
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

// viewTools adds the actions, each with its mode in a plain session.
func (s *Server) viewTools(ctx context.Context, c action.Connector, state ConnectorState) (api.ConnectorView, error) {
	v, err := s.viewConnector(ctx, c, state)
	v.Tools, v.Beside = viewActions(state.Tools)
	modes := map[string]action.Mode{}
	for _, a := range state.Tools {
		if d, ok := s.plainly(ctx, a, c.Organization); ok {
			modes[a.Name] = d.Mode
		}
	}
	for _, list := range [][]api.ToolView{v.Tools, v.Beside} {
		for i := range list {
			list[i].Mode = modes[list[i].Name]
		}
	}
	return v, err
}

// viewActions parts tools from what is none.
func viewActions(actions []*action.Action) (tools, beside []api.ToolView) {
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
