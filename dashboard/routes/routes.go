// Package routes answers the operations of the JSON API, a file a subject.
package routes

import (
	"context"
	"net/http"

	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

// handlers answer the operations of the API.
type handlers struct {
	*view.Reader
	uploads *uploadLimiter
}

// listAll returns a handler that lists all items of the organization.
func listAll[T any](load func(ctx context.Context, organization string) ([]T, error)) func(context.Context, *dashboard.Principal, *api.None) (api.List[T], error) {
	return func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[T], error) {
		all, err := load(ctx, p.Organization)
		return view.ListOf(all), err
	}
}

// Mount adds the operations of the JSON API to the server.
func Mount(server *dashboard.Server, mux *http.ServeMux) error {
	s := &handlers{Reader: view.NewReader(server), uploads: &uploadLimiter{files: map[string]bool{}, perSession: map[string]int{}}}
	s.sessionRoutes()
	s.actionRoutes()
	s.toolRoutes()
	s.invocationRoutes()
	s.secretRoutes()
	s.modelRoutes()
	s.workspaceRoutes()
	s.connectorRoutes()
	s.integrationRoutes()
	s.automationRoutes()
	s.triggerRoutes()
	s.inboundRoutes()
	s.runRoutes()
	s.notifyRoutes()
	s.policyRoutes()
	s.quotaRoutes()
	s.capabilityRoutes()
	s.groupRoutes()
	s.gateRoutes()
	s.grantRoutes()
	s.requestRoutes()
	s.envRoutes()
	s.evidenceRoutes()
	s.reviewRoutes()
	s.auditRoutes()
	s.refusalRoutes()
	s.exportRoutes()
	s.userRoutes()
	s.loginRoutes()
	s.keyRoutes()
	s.eventRoutes()
	s.addExamples() // while no request reads the description yet
	s.HandlePublic(mux, "GET /oauth/client.json", s.clientMetadata)
	return nil
}
