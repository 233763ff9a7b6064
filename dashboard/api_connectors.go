package dashboard

import (
	"context"
	"net/http"
	"time"

	"sallyport/action"
)

// NewConnector is a connector as it is added. It needs a URL, its own or a
// preset's.
type NewConnector struct {
	Name string  `json:"name" minLength:"1" maxLength:"80" example:"GitHub"`
	Slug *string `json:"slug,omitempty" maxLength:"16" nullable:"false" doc:"Prefix of its tools' names, for good; made of the name when absent. One connector may have the empty slug." example:"github"`
	FromPreset
	Upstream
}

// TriedConnector is a connector that is not saved.
type TriedConnector struct {
	Name string `json:"name,omitempty" maxLength:"80"`
	FromPreset
	Upstream
}

// ConnectorChange is what may change of a connector.
type ConnectorChange struct {
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"80" nullable:"false"`
	Upstream

	enabled *bool
}

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
	RetryAt       *time.Time   `json:"retry_at,omitempty" doc:"It failed again and again, and is left alone until then."`
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

// ByRef is the parameter of a route about one connector.
type ByRef struct {
	Ref string `path:"ref" doc:"Id, slug or name." example:"github"`
}

func (s *Server) connectorRoutes() {
	s.presetRoutes()
	s.connectorReads()
	s.connectorChanges()
	s.connectorProbes()
	s.signInRoutes()
	s.onboardRoutes()
}

func (s *Server) connectorReads() {
	register(s, route{
		method: "GET", path: "/api/v1/connectors", tag: "connectors", summary: "List connectors and their state",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[ConnectorView]], error) {
		all, err := s.Connectors.ListConnectors(ctx, p.Organization)
		views := make([]ConnectorView, len(all))
		for i, c := range all {
			if views[i], err = s.viewConnector(ctx, c, s.Prober.State(ctx, c)); err != nil {
				return nil, err
			}
		}
		return listOf(views), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/connectors/{ref}", tag: "connectors", summary: "Read a connector with its tools",
	}, func(ctx context.Context, p *Principal, in *ByRef) (*body[ConnectorView], error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return nil, err
		}
		v, err := s.viewTools(ctx, c, s.Prober.State(ctx, c))
		return bodyOf(v), err
	})
}

func (s *Server) connectorChanges() {
	register(s, route{
		method: "POST", path: "/api/v1/connectors", tag: "connectors", summary: "Add a connector",
		status: http.StatusCreated, errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewConnector }) (*body[ConnectorView], error) {
		c, err := s.addConnector(ctx, p, in.Body)
		if err != nil {
			return nil, err
		}
		v, err := s.viewConnector(ctx, c, s.Prober.State(ctx, c))
		return bodyOf(v), err
	})
	register(s, route{
		method: "PATCH", path: "/api/v1/connectors/{ref}", tag: "connectors", summary: "Change a connector",
		doc: "Fields that are absent stay. The slug is for good. A new host is not sent the secret of the old one: send secret_value too.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByRef
		Body ConnectorChange
	},
	) (*body[ConnectorView], error) {
		return s.changeConnector(ctx, p, in.Ref, in.Body)
	})
	for verb, enabled := range map[string]bool{"enable": true, "disable": false} {
		register(s, route{
			method: "POST", path: "/api/v1/connectors/{ref}/" + verb, tag: "connectors", status: http.StatusOK,
			summary: verb + " a connector", errors: []int{http.StatusConflict},
		}, func(ctx context.Context, p *Principal, in *ByRef) (*body[ConnectorView], error) {
			return s.changeConnector(ctx, p, in.Ref, ConnectorChange{enabled: &enabled})
		})
	}
	register(s, route{
		method: "DELETE", path: "/api/v1/connectors/{ref}", tag: "connectors", summary: "Remove a connector",
	}, func(ctx context.Context, p *Principal, in *ByRef) (*empty, error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return nil, err
		}
		if err := s.Connectors.DeleteConnector(ctx, p.Organization, c.ID, p.By()); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "connector removed", "connector", c.ID)
		s.hint(action.HintCatalog, p.Organization, "")
		return nil, nil
	})
}

func (s *Server) connectorProbes() {
	register(s, route{
		method: "POST", path: "/api/v1/connectors/{ref}/validate", tag: "connectors", status: http.StatusOK,
		summary: "Ask a connector for its tools now",
	}, func(ctx context.Context, p *Principal, in *ByRef) (*body[ConnectorView], error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return nil, err
		}
		state, err := s.Prober.Probe(ctx, c)
		if err != nil {
			return nil, err
		}
		v, err := s.viewTools(ctx, c, state)
		return bodyOf(v), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/connectors/validate", tag: "connectors", status: http.StatusOK,
		summary: "Try a connector before it is added", doc: "Asks the server for its tools and saves nothing.",
	}, func(ctx context.Context, p *Principal, in *struct{ Body TriedConnector }) (*body[ConnectorView], error) {
		return s.try(ctx, p, in.Body)
	})
}

// try asks the server of a connector that is not saved.
func (s *Server) try(ctx context.Context, p *Principal, n TriedConnector) (*body[ConnectorView], error) {
	c, err := s.unsaved(p, or(n.Name, "untitled"), n.FromPreset, &n.Upstream)
	if err != nil {
		return nil, err
	}
	c.Slug = slugOf(c.Name)
	if err := checkConnector(&c); err != nil {
		return nil, err
	}
	ask := s.Prober.Probe
	if n.SecretValue != "" {
		if err := checkSecret("untitled", NewSecret{Value: n.SecretValue, Host: hostOf(c.URL)}); err != nil {
			return nil, placed(err, "/secret_value")
		}
		c.Secret = ""
		ask = func(ctx context.Context, c action.Connector) (ConnectorState, error) {
			return s.Prober.Try(ctx, c, n.SecretValue)
		}
	} else if err := s.checkSecrets(ctx, nil, &c, nil); err != nil {
		return nil, err
	}
	state, err := ask(ctx, c)
	if err != nil {
		return nil, err
	}
	v, err := s.viewConnector(ctx, c, state)
	v.Tools, v.Beside = viewActions(state.Tools)
	return bodyOf(v), err
}

func (s *Server) viewConnector(ctx context.Context, c action.Connector, state ConnectorState) (v ConnectorView, err error) {
	tools, _ := viewActions(state.Tools)
	v = ConnectorView{
		Connector: c, Source: c.Source(), ToolCount: len(tools), ResourceCount: state.Resources, TemplateCount: state.Templates,
		PromptCount: state.Prompts, Protocol: state.Protocol, Error: state.Error, Diagnosis: state.Diagnosis, Warnings: nonNil(state.Warnings),
	}
	for _, step := range state.Steps {
		v.Steps = append(v.Steps, StepView{step.Name, float64(step.Took.Microseconds()) / 1000, step.Detail})
	}
	if !state.FetchedAt.IsZero() {
		v.FetchedAt = &state.FetchedAt
	}
	if !state.RetryAt.IsZero() {
		v.RetryAt = &state.RetryAt
	}
	v.OAuthStatus, err = s.oauthStatus(ctx, c)
	return v, err
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
