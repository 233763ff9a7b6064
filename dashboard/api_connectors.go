package dashboard

import (
	"context"
	"net/http"
	"time"

	"sallyport/action"
)

// NewConnector is a connector as it is added.
type NewConnector struct {
	Name        string      `json:"name" minLength:"1" maxLength:"80" example:"GitHub"`
	URL         string      `json:"url" minLength:"1" maxLength:"2048" doc:"Of its MCP endpoint, http or https." example:"https://mcp.example.com/mcp"`
	Slug        *string     `json:"slug,omitempty" maxLength:"16" nullable:"false" doc:"Prefix of its tools' names, for good; made of the name when absent. One connector may have the empty slug." example:"github"`
	Header      string      `json:"header,omitempty" maxLength:"64" doc:"Header that carries the secret; default Authorization." example:"Authorization"`
	Prefix      *string     `json:"prefix,omitempty" maxLength:"64" nullable:"false" doc:"Stands before the secret; default \"Bearer \" in Authorization, nothing elsewhere." example:"Bearer "`
	Secret      string      `json:"secret,omitempty" maxLength:"64" doc:"Key of a secret that is bound to the host of the URL; none when absent." example:"github"`
	DefaultRisk action.Risk `json:"default_risk,omitempty" enum:"read,write,danger" doc:"Of tools that say nothing of themselves; default write."`
	ToolRules
}

// ToolRules say what is thought of a connector's tools.
type ToolRules struct {
	Risks  *map[string]action.Risk `json:"tool_risks,omitempty" nullable:"false" doc:"Of single tools, whatever the server says; replaces them all."`
	Review *action.ReviewRule      `json:"review,omitempty" enum:"trust,strict,required" nullable:"false" doc:"What a person must have looked at: trust takes the first list as reviewed, strict also holds a changed text against a tool, required denies what nobody reviewed. Default trust."`
}

// ConnectorChange is what may change of a connector.
type ConnectorChange struct {
	Name        *string      `json:"name,omitempty" minLength:"1" maxLength:"80" nullable:"false"`
	URL         *string      `json:"url,omitempty" minLength:"1" maxLength:"2048" nullable:"false"`
	Header      *string      `json:"header,omitempty" maxLength:"64" nullable:"false"`
	Prefix      *string      `json:"prefix,omitempty" maxLength:"64" nullable:"false"`
	Secret      *string      `json:"secret,omitempty" maxLength:"64" nullable:"false" doc:"Empty takes the credential away."`
	DefaultRisk *action.Risk `json:"default_risk,omitempty" enum:"read,write,danger" nullable:"false"`
	ToolRules
}

// ConnectorView is a connector with what is known of it now.
type ConnectorView struct {
	action.Connector
	Source    string     `json:"source_id" example:"connector:0199a3c4-5d6e-7f80-9123-456789abcdef"`
	ToolCount int        `json:"tool_count"`
	Error     string     `json:"error,omitempty" doc:"Why its tools cannot be listed."`
	Warnings  []string   `json:"warnings" nullable:"false"`
	FetchedAt *time.Time `json:"fetched_at,omitempty" doc:"When its tools were last listed."`
	Tools     []ToolView `json:"tools,omitempty" nullable:"false" doc:"Left out of lists."`
}

// ToolView is one tool of a connector.
type ToolView struct {
	Name        string      `json:"name" doc:"At its server." example:"create_issue"`
	Tool        string      `json:"tool" doc:"As agents see it." example:"github_create_issue"`
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
	s.connectorReads()
	s.connectorChanges()
	s.connectorProbes()
}

func (s *Server) connectorReads() {
	register(s, route{
		method: "GET", path: "/api/v1/connectors", tag: "connectors", summary: "List connectors and their state",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[ConnectorView]], error) {
		all, err := s.Connectors.ListConnectors(ctx, p.Organization)
		views := make([]ConnectorView, len(all))
		for i, c := range all {
			views[i] = viewConnector(c, s.Prober.State(ctx, c))
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
		return bodyOf(s.viewTools(ctx, c, s.Prober.State(ctx, c))), nil
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
		return bodyOf(viewConnector(c, s.Prober.State(ctx, c))), nil
	})
	register(s, route{
		method: "PATCH", path: "/api/v1/connectors/{ref}", tag: "connectors", summary: "Change a connector",
		doc: "Fields that are absent stay. The slug is for good.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByRef
		Body ConnectorChange
	},
	) (*body[ConnectorView], error) {
		return s.changeConnector(ctx, p, in.Ref, in.Body.apply)
	})
	for verb, enabled := range map[string]bool{"enable": true, "disable": false} {
		register(s, route{
			method: "POST", path: "/api/v1/connectors/{ref}/" + verb, tag: "connectors", status: http.StatusOK,
			summary: verb + " a connector", errors: []int{http.StatusConflict},
		}, func(ctx context.Context, p *Principal, in *ByRef) (*body[ConnectorView], error) {
			return s.changeConnector(ctx, p, in.Ref, func(c *action.Connector) { c.Enabled = enabled })
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
		return bodyOf(s.viewTools(ctx, c, state)), nil
	})
	register(s, route{
		method: "POST", path: "/api/v1/connectors/validate", tag: "connectors", status: http.StatusOK,
		summary: "Try a connector before it is added", doc: "Asks the server for its tools and saves nothing.",
	}, func(ctx context.Context, p *Principal, in *struct{ Body TriedConnector }) (*body[ConnectorView], error) {
		n := NewConnector{
			Name: or(in.Body.Name, "untitled"), URL: in.Body.URL, Header: in.Body.Header,
			Prefix: in.Body.Prefix, Secret: in.Body.Secret, DefaultRisk: in.Body.DefaultRisk,
		}
		c, err := s.newConnector(ctx, p, n)
		if err != nil {
			return nil, err
		}
		state, err := s.Prober.Probe(ctx, c)
		if err != nil {
			return nil, err
		}
		v := viewConnector(c, state)
		v.Tools = viewActions(state.Tools)
		return bodyOf(v), nil
	})
}

// TriedConnector is a connector that is not saved.
type TriedConnector struct {
	Name        string      `json:"name,omitempty" maxLength:"80"`
	URL         string      `json:"url" minLength:"1" maxLength:"2048" example:"https://mcp.example.com/mcp"`
	Header      string      `json:"header,omitempty" maxLength:"64"`
	Prefix      *string     `json:"prefix,omitempty" maxLength:"64" nullable:"false"`
	Secret      string      `json:"secret,omitempty" maxLength:"64"`
	DefaultRisk action.Risk `json:"default_risk,omitempty" enum:"read,write,danger"`
}

func viewConnector(c action.Connector, state ConnectorState) ConnectorView {
	v := ConnectorView{
		Connector: c, Source: c.Source(), ToolCount: len(state.Tools),
		Error: state.Error, Warnings: nonNil(state.Warnings),
	}
	if !state.FetchedAt.IsZero() {
		v.FetchedAt = &state.FetchedAt
	}
	return v
}

// viewTools adds the tools, each with its mode in a plain session.
func (s *Server) viewTools(ctx context.Context, c action.Connector, state ConnectorState) ConnectorView {
	v := viewConnector(c, state)
	v.Tools = viewActions(state.Tools)
	for i, a := range state.Tools {
		if d, ok := s.plainly(ctx, a, c.Organization); ok {
			v.Tools[i].Mode = d.Mode
		}
	}
	return v
}

func viewActions(actions []*action.Action) []ToolView {
	out := make([]ToolView, len(actions))
	for i, a := range actions {
		out[i] = ToolView{Name: a.Name, Tool: a.Tool, Title: a.Title, Description: a.Description, Risk: a.Risk}
	}
	return out
}
