// Package routes answers the operations of the JSON API, a file a subject.
package routes

import (
	"net/http"

	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

// handlers answer the operations of the API.
type handlers struct {
	*view.Reader
	uploads *uploadLimiter
}

// Mount adds the operations of the JSON API to the server.
func Mount(server *dashboard.Server, mux *http.ServeMux) error {
	s := &handlers{Reader: view.NewReader(server), uploads: newUploadLimiter()}
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
	s.addExamples() // while no request reads the description yet
	s.HandlePublic(mux, "GET /oauth/client.json", s.clientMetadata)
	return nil
}
