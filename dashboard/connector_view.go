package dashboard

import (
	"context"
	"slices"
	"time"

	"sallyport/action"
)

// ConnectorView is a connector with what is known of it now.
type ConnectorView struct {
	action.Connector
	Source        string       `json:"source_id" example:"connector:0199a3c4-5d6e-7f80-9123-456789abcdef"`
	ToolCount     int          `json:"tool_count"`
	ResourceCount int          `json:"resource_count"`
	TemplateCount int          `json:"template_count"`
	PromptCount   int          `json:"prompt_count"`
	Protocol      string       `json:"protocol_version,omitempty" doc:"Of MCP, as it is spoken with the server." example:"2025-11-25"`
	Error         string       `json:"error,omitempty" doc:"Why its tools cannot be listed."`
	Diagnosis     *Diagnosis   `json:"diagnosis,omitempty" doc:"The same, classified."`
	RetryAt       *time.Time   `json:"retry_at,omitempty" doc:"It failed, and is asked again by itself then."`
	CircuitOpen   bool         `json:"circuit_open,omitempty" doc:"It failed again and again: its calls fail at once until retry_at."`
	Steps         []StepView   `json:"steps,omitempty" nullable:"false" doc:"Of the last time that it was asked."`
	Warnings      []string     `json:"warnings" nullable:"false"`
	FetchedAt     *time.Time   `json:"fetched_at,omitempty" doc:"When its tools were last listed."`
	OAuthStatus   *OAuthStatus `json:"oauth_status,omitempty" doc:"Of its tokens; absent without OAuth."`
	ReviewReset   bool         `json:"review_reset,omitempty" doc:"This change of the URL took back what was reviewed: behind another URL may be another server."`
	Tools         []ToolView   `json:"tools,omitempty" nullable:"false" doc:"Left out of lists."`
	Beside        []ToolView   `json:"beside,omitempty" nullable:"false" doc:"How its resources are read and its prompts gotten: actions under policy like tools, and no tools. Left out of lists."`
}

// StepView is a part of reaching a server.
type StepView struct {
	Name   string  `json:"name" example:"handshake"`
	TookMS float64 `json:"took_ms" example:"12.5"`
	Detail string  `json:"detail,omitempty"`
	Failed bool    `json:"failed,omitempty" doc:"What was tried in it was not had."`
}

// ToolView is one tool of a connector.
type ToolView struct {
	Name        string      `json:"name" doc:"At its server." example:"create_issue"`
	Tool        string      `json:"tool,omitempty" doc:"As agents see it; absent: it is no tool." example:"github_create_issue"`
	Title       string      `json:"title,omitempty"`
	Description string      `json:"description,omitempty" doc:"The server's own words."`
	Risk        action.Risk `json:"risk"`
	Mode        action.Mode `json:"mode,omitempty" doc:"In a plain session."`
}

func (s *Server) viewConnector(ctx context.Context, c action.Connector, state ConnectorState) (v ConnectorView, err error) {
	v = s.viewState(c, state)
	v.OAuthStatus, err = s.oauthStatus(ctx, c)
	return v, err
}

// viewConnectors does so with those of an organization. A list is there also
// when what is known of its tokens is not.
func (s *Server) viewConnectors(ctx context.Context, organization string, all []action.Connector) []ConnectorView {
	grants, err := s.SignIns.Grants(ctx, organization)
	if err != nil {
		s.log.WarnContext(ctx, "listing the sign-ins of connectors", "error", err)
	}
	views := make([]ConnectorView, 0, len(all))
	for _, c := range all {
		v := s.viewState(c, s.Prober.State(ctx, c))
		if err == nil && c.OAuth != nil {
			v.OAuthStatus = &OAuthStatus{Status: "not_connected"}
			if i := slices.IndexFunc(grants, func(g action.OAuthGrant) bool { return g.Connector == c.ID }); i >= 0 {
				v.OAuthStatus = viewGrant(&grants[i])
			}
		}
		views = append(views, v)
	}
	return views
}

func (s *Server) viewState(c action.Connector, state ConnectorState) ConnectorView {
	tools, _ := viewActions(state.Tools)
	v := ConnectorView{
		Connector: c, Source: c.Source(), ToolCount: len(tools), ResourceCount: state.Resources, TemplateCount: state.Templates,
		PromptCount: state.Prompts, Protocol: state.Protocol, Error: state.Error, Diagnosis: state.Diagnosis, Warnings: slices.Clone(nonNil(state.Warnings)),
		CircuitOpen: state.CircuitOpen,
	}
	if v.Diagnosis != nil {
		d := *v.Diagnosis
		d.Field = d.concerns(&c)
		v.Diagnosis = &d
	}
	v.Warnings = append(v.Warnings, s.sharedNames(&c)...)
	for _, step := range state.Steps {
		v.Steps = append(v.Steps, StepView{step.Name, float64(step.Took.Microseconds()) / 1000, step.Detail, step.Failed})
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
func (s *Server) viewTools(ctx context.Context, c action.Connector, state ConnectorState) (ConnectorView, error) {
	v, err := s.viewConnector(ctx, c, state)
	v.Tools, v.Beside = viewActions(state.Tools)
	modes := map[string]action.Mode{}
	for _, a := range state.Tools {
		if d, ok := s.plainly(ctx, a, c.Organization); ok {
			modes[a.Name] = d.Mode
		}
	}
	for _, list := range [][]ToolView{v.Tools, v.Beside} {
		for i := range list {
			list[i].Mode = modes[list[i].Name]
		}
	}
	return v, err
}

// viewActions parts tools from what is none.
func viewActions(actions []*action.Action) (tools, beside []ToolView) {
	tools, beside = []ToolView{}, []ToolView{}
	for _, a := range actions {
		v := ToolView{Name: a.Name, Tool: a.Tool, Title: a.Title, Description: a.Description, Risk: a.Risk}
		if a.Tool == "" {
			beside = append(beside, v)
		} else {
			tools = append(tools, v)
		}
	}
	return tools, beside
}
