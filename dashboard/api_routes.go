package dashboard

import (
	"net/http"
	"sallyport/action"
	"sallyport/api"
)

// Mount adds the operations of the JSON API to the server.
func MountRoutes(server *Server, mux *http.ServeMux) error {
	server.mountRoutes(mux)
	return nil
}

// mount declares the operations of the API.
func (s *Server) mountRoutes(mux *http.ServeMux) {
	s.sessionRoutes()
	s.actionRoutes()
	s.toolRoutes()
	s.setupRoutes()
	s.guideRoutes()
	s.invocationRoutes()
	s.statisticsRoutes()
	s.secretRoutes()
	s.connectorRoutes()
	s.integrationRoutes()
	s.automationRoutes()
	s.triggerRoutes()
	s.scheduleRoutes()
	s.inboundRoutes()
	s.runRoutes()
	s.outboxRoutes()
	s.notifyRoutes()
	s.policyRoutes()
	s.quotaRoutes()
	s.capabilityRoutes()
	s.gateRoutes()
	s.grantRoutes()
	s.requestRoutes()
	s.envRoutes()
	s.evidenceRoutes()
	s.reviewRoutes()
	s.auditRoutes()
	s.exportRoutes()
	s.userRoutes()
	s.loginRoutes()
	s.keyRoutes()
	s.eventRoutes()
	s.illustrate() // while no request reads the description yet
	s.open(mux, "GET /oauth/client.json", s.clientMetadata)
}

// listOf makes a whole list of a slice.
func listOf[T any](items []T) api.List[T] {
	return api.List[T]{Items: nonNil(items), Total: len(items)}
}

func pageOf[T, U any](p action.Page[T], show func(T) U) api.List[U] {
	out := api.List[U]{Items: make([]U, len(p.Items)), NextCursor: p.Next, Total: p.Total, TotalCapped: p.Capped}
	for i, item := range p.Items {
		out.Items[i] = show(item)
	}
	return out
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
