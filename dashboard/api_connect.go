package dashboard

import (
	"context"
	"fmt"
	"net/http"

	"sallyport/action"
)

// ConnectLink is where a person goes on to connect a service.
type ConnectLink struct {
	action.ConnectStep
	Host string `json:"host" doc:"Of that address: show it to the person before he goes there." example:"linear.app"`
}

// Finished is what a browser's answer ended: the sign-in to a connector, whose
// fields then stand here, or the connection of a service.
type Finished struct {
	Of string `json:"of" enum:"connector,integration"`
	*ConnectorView
	Integration *IntegrationView `json:"integration,omitempty" doc:"Of an integration, which is connected now; then no field of a connector is here."`
}

func (s *Server) connectRoutes() {
	register(s, route{
		method: "POST", path: "/api/v1/integrations/connect", tag: "integrations", summary: "Begin to connect a service in the browser", status: http.StatusOK,
		doc: "For kinds oauth2 and app_installation. The same person finishes it within five minutes, in the browser or with the API key that began it: " +
			"the service leads back to /oauth/callback/{provider}, a page that sends what it got to /api/v1/oauth/finish. A broker does not: when its page is done, send the provider, the state and, as connection_id, the id of the connection there, which the broker shows.",
		errors: []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusBadGateway},
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewConnection }) (*body[ConnectLink], error) {
		link, err := s.beginConnection(ctx, p, in.Body)
		return bodyOf(link), err
	})
}

func (s *Server) beginConnection(ctx context.Context, p *Principal, n NewConnection) (link ConnectLink, err error) {
	kinds := []action.IntegrationKind{action.KindOAuth2, action.KindApp}
	if n.Broker != action.BrokerOwn {
		kinds = kinds[:1]
	}
	w, err := s.wanted(ctx, p, n.Connecting, kinds...)
	if err != nil {
		return link, err
	}
	if err := checkScopes("/scopes", n.Scopes); err != nil {
		return link, err
	}
	w.Scopes = n.Scopes
	if link.ConnectStep, err = s.Connections.Begin(ctx, w); err != nil {
		return link, err
	}
	link.Host = hostOf(link.URL)
	s.log.InfoContext(ctx, "connection begun", "provider", w.Provider, "kind", w.Kind, "broker", w.Broker, "own", w.Own, "by", p.By())
	return link, nil
}

// finish ends what was begun where the answer came to. Connectors have a page
// of their own, and each provider has: what one server was led to answer must
// not reach the flow of another.
func (s *Server) finish(ctx context.Context, p *Principal, n FinishedSignIn) (*body[Finished], error) {
	if n.Provider != "" {
		return s.finishConnection(ctx, p, n)
	}
	if err := decider.permit(p, ""); err != nil {
		return nil, err
	}
	v, err := s.finishSignIn(ctx, p, n)
	if err != nil {
		return nil, err
	}
	return bodyOf(Finished{Of: "connector", ConnectorView: v}), nil
}

func (s *Server) finishConnection(ctx context.Context, p *Principal, n FinishedSignIn) (*body[Finished], error) {
	decides := p.Role.Decides()
	switch {
	case s.provider(n.Provider) == nil:
		return nil, invalid("/provider", fmt.Sprintf("There is no provider %q; there is %s.", plain(n.Provider), s.providerIDs()))
	case p.lesser && !decides:
		return nil, errLesserKey()
	}
	in, err := s.Connections.Finish(ctx, p.Organization, p.By(), p.via, decides, action.ConnectAnswer{
		Provider: n.Provider, Iss: n.Iss, State: n.State, Code: n.Code, Error: n.Error, Installation: n.Installation, Connection: n.Connection,
	})
	if err != nil {
		return nil, err
	}
	s.integrationChanged(ctx, p, "integration connected", &in)
	v := s.viewIntegration(in)
	return bodyOf(Finished{Of: "integration", Integration: &v}), nil
}

func checkScopes(field string, scopes []string) error {
	for i, scope := range scopes {
		if !validScope(scope) {
			return invalid(fmt.Sprintf("%s/%d", field, i), "A scope is one word of at most 200 plain characters, as the service names it.")
		}
	}
	return nil
}
