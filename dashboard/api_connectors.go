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
		return listOf(s.viewConnectors(ctx, p.Organization, all)), err
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
		doc: "Fields that are absent stay. The slug is for good. A new host is not sent the secret of the old one: send secret_value too. Tokens that are not for the new host, kind, client or issuer are revoked, as when a connector is removed.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByRef
		Body ConnectorChange
	},
	) (*body[ConnectorView], error) {
		return s.changeConnector(ctx, p, in.Ref, in.Body, nil)
	})
	register(s, route{
		method: "POST", path: "/api/v1/connectors/{ref}/enable", tag: "connectors", status: http.StatusOK,
		summary: "enable a connector", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *ByRef) (*body[ConnectorView], error) {
		return s.changeConnector(ctx, p, in.Ref, ConnectorChange{}, new(true))
	})
	register(s, route{
		method: "POST", path: "/api/v1/connectors/{ref}/disable", tag: "connectors", status: http.StatusOK,
		summary: "disable a connector", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *ByRef) (*body[ConnectorView], error) {
		return s.changeConnector(ctx, p, in.Ref, ConnectorChange{}, new(false))
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/connectors/{ref}", tag: "connectors", summary: "Remove a connector",
		doc: "Its tokens of OAuth are revoked at the service before, where it offers that and answers within five seconds.",
	}, func(ctx context.Context, p *Principal, in *ByRef) (*empty, error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return nil, err
		}
		s.giveBack(ctx, c, p.By())
		withdrew, err := s.Connectors.DeleteConnector(ctx, p.Organization, c.ID, p.By())
		if err != nil {
			return nil, err
		}
		s.Withdrew(withdrew)
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
	state.RetryAt = time.Time{} // nobody will
	v, err := s.viewConnector(ctx, c, state)
	v.Tools, v.Beside = viewActions(state.Tools)
	return bodyOf(v), err
}
