package dashboard

import (
	"cmp"
	"context"
	"time"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) connectorRoutes() {
	s.presetRoutes()
	s.connectorReads()
	s.connectorChanges()
	s.connectorProbes()
	s.signInRoutes()
	s.onboardRoutes()
}

func (s *Server) connectorReads() {
	handle(s, api.ListConnectors, func(ctx context.Context, p *Principal, _ *api.None) (api.List[api.ConnectorView], error) {
		all, err := s.Sources.ListConnectors(ctx, p.Organization)
		return listOf(s.viewConnectors(ctx, p.Organization, all)), err
	})
	handle(s, api.GetConnector, func(ctx context.Context, p *Principal, in *api.ByRef) (api.ConnectorView, error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.ConnectorView{}, err
		}
		return s.viewTools(ctx, c, s.Connectors.State(ctx, c))
	})
}

func (s *Server) connectorChanges() {
	handle(s, api.CreateConnector, func(ctx context.Context, p *Principal, in *api.Body[api.NewConnector]) (api.ConnectorView, error) {
		c, err := s.addConnector(ctx, p, in.Body)
		if err != nil {
			return api.ConnectorView{}, err
		}
		return s.viewConnector(ctx, c, s.Connectors.State(ctx, c))
	})
	handle(s, api.UpdateConnector, func(ctx context.Context, p *Principal, in *api.ByRefWith[api.ConnectorChange]) (api.ConnectorView, error) {
		return s.changeConnector(ctx, p, in.Ref, in.Body, nil)
	})
	handle(s, api.EnableConnector, func(ctx context.Context, p *Principal, in *api.ByRef) (api.ConnectorView, error) {
		return s.changeConnector(ctx, p, in.Ref, api.ConnectorChange{}, new(true))
	})
	handle(s, api.DisableConnector, func(ctx context.Context, p *Principal, in *api.ByRef) (api.ConnectorView, error) {
		return s.changeConnector(ctx, p, in.Ref, api.ConnectorChange{}, new(false))
	})
	handleNone(s, api.DeleteConnector, func(ctx context.Context, p *Principal, in *api.ByRef) error {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return err
		}
		s.giveBack(ctx, c, p.By())
		withdrew, err := s.Sources.DeleteConnector(ctx, p.Organization, c.ID, p.By())
		if err != nil {
			return err
		}
		s.Withdrew(withdrew)
		s.changed(ctx, p, "connector removed", "connector", c.ID)
		s.hint(action.HintCatalog, p.Organization, "")
		return nil
	})
}

func (s *Server) connectorProbes() {
	handle(s, api.ValidateConnector, func(ctx context.Context, p *Principal, in *api.ByRef) (api.ConnectorView, error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.ConnectorView{}, err
		}
		state, err := s.Connectors.Probe(ctx, c)
		if err != nil {
			return api.ConnectorView{}, err
		}
		return s.viewTools(ctx, c, state)
	})
	handle(s, api.TryConnector, func(ctx context.Context, p *Principal, in *api.Body[api.TriedConnector]) (api.ConnectorView, error) {
		return s.try(ctx, p, in.Body)
	})
}

// try asks the server of a connector that is not saved.
func (s *Server) try(ctx context.Context, p *Principal, n api.TriedConnector) (api.ConnectorView, error) {
	c, err := s.unsaved(p, cmp.Or(n.Name, "untitled"), n.FromPreset, &n.Upstream)
	if err != nil {
		return api.ConnectorView{}, err
	}
	c.Slug = slugOf(c.Name)
	if err := checkConnector(&c); err != nil {
		return api.ConnectorView{}, err
	}
	ask := s.Connectors.Probe
	if n.SecretValue != "" {
		if err := checkSecret("untitled", api.NewSecret{Value: n.SecretValue, Host: hostOf(c.URL)}); err != nil {
			return api.ConnectorView{}, placed(err, "/secret_value")
		}
		c.Secret = ""
		ask = func(ctx context.Context, c action.Connector) (ConnectorState, error) {
			return s.Connectors.Try(ctx, c, n.SecretValue)
		}
	} else if err := s.checkSecrets(ctx, nil, &c, nil); err != nil {
		return api.ConnectorView{}, err
	}
	state, err := ask(ctx, c)
	if err != nil {
		return api.ConnectorView{}, err
	}
	state.RetryAt = time.Time{} // nobody will
	v, err := s.viewConnector(ctx, c, state)
	v.Tools, v.Beside = viewActions(state.Tools)
	return v, err
}
