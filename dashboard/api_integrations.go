package dashboard

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
	"sallyport/api"
)

// MetadataQuery is the query of a metadata route, whose parameters are the
// provider's own.
type MetadataQuery struct {
	api.ByID
	query url.Values
}

// Resolve keeps the whole query, which no description can list.
func (q *MetadataQuery) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	q.query = u.Query()
	return nil
}

func (s *Server) integrationRoutes() {
	s.integrationReads()
	s.integrationChanges()
	s.connectRoutes()
	s.providerAppRoutes()
	s.bindingRoutes()
}

func (s *Server) integrationReads() {
	handle(s, api.ListProviders, func(context.Context, *Principal, *api.None) (api.List[api.Provider], error) {
		return listOf(s.Providers), nil
	})
	handle(s, api.ListIntegrations, func(ctx context.Context, p *Principal, _ *api.None) (api.List[api.IntegrationView], error) {
		views, err := s.integrations(ctx, p)
		return listOf(views), err
	})
	handle(s, api.GetIntegration, func(ctx context.Context, p *Principal, in *api.ByID) (api.IntegrationView, error) {
		i, err := s.Sources.Integration(ctx, p.Organization, in.ID, p.viewer())
		return s.viewIntegration(i), err
	})
	handleRaw(s, api.GetIntegrationMetadata, func(ctx context.Context, p *Principal, in *MetadataQuery) (json.RawMessage, error) {
		i, err := s.managed(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		data, err := s.Connections.Metadata(ctx, i, in.query)
		return data, inQuery(err)
	})
}

func (s *Server) integrationChanges() {
	handleCoded(s, api.CreateIntegration, func(ctx context.Context, p *Principal, in *api.Body[api.NewIntegration]) (*coded[api.IntegrationView], error) {
		return s.connect(ctx, p, in.Body)
	})
	handle(s, api.UpdateIntegration, func(ctx context.Context, p *Principal, in *api.ByIDWith[api.IntegrationChange]) (api.IntegrationView, error) {
		i, err := s.changeIntegration(ctx, p, in.ID, in.Body)
		return s.viewIntegration(i), err
	})
	handle(s, api.CheckIntegration, func(ctx context.Context, p *Principal, in *api.ByID) (api.IntegrationView, error) {
		i, err := s.checkIntegration(ctx, p, in.ID)
		return s.viewIntegration(i), err
	})
	handle(s, api.DeleteIntegration, func(ctx context.Context, p *Principal, in *api.ByID) (api.Disconnected, error) {
		revoked, err := s.disconnect(ctx, p, in.ID)
		return api.Disconnected{Revoked: revoked}, err
	})
}

// inQuery says of what is wrong with a query that it is no field of a body.
func inQuery(err error) error {
	e := action.Public(err)
	if e.Kind == nil || e.Field == "" {
		return err
	}
	return placed(err, "/query"+e.Field)
}
