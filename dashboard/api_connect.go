package dashboard

import (
	"context"
	"fmt"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) connectRoutes() {
	handle(s, api.ConnectIntegration, func(ctx context.Context, p *Principal, in *api.Body[api.NewConnection]) (api.ConnectLink, error) {
		return s.beginConnection(ctx, p, in.Body)
	})
}

func (s *Server) beginConnection(ctx context.Context, p *Principal, n api.NewConnection) (link api.ConnectLink, err error) {
	kinds := []action.IntegrationKind{action.KindOAuth2, action.KindApp}
	if n.Broker != action.BrokerOwn {
		kinds = kinds[:1]
	}
	w, err := s.wanted(ctx, p, n.Connecting, "", kinds...)
	if err != nil {
		return link, err
	}
	if err := action.CheckScopes("/scopes", n.Scopes); err != nil {
		return link, err
	}
	w.Scopes = n.Scopes
	if link.ConnectStep, err = s.Connections.Begin(ctx, w); err != nil {
		return link, err
	}
	link.Host = hostOf(link.URL)
	s.Log.InfoContext(ctx, "connection begun", "provider", w.Provider, "kind", w.Kind, "broker", w.Broker, "own", w.Own, "by", p.By())
	return link, nil
}

// finish ends what was begun where the answer came to. Connectors have a page
// of their own, and each provider has: what one server was led to answer must
// not reach the flow of another.
func (s *Server) finish(ctx context.Context, p *Principal, n api.FinishedSignIn) (api.Finished, error) {
	if n.Provider != "" {
		return s.finishConnection(ctx, p, n)
	}
	if err := accessPermit(api.Decider, p, ""); err != nil {
		return api.Finished{}, err
	}
	v, err := s.finishSignIn(ctx, p, n)
	if err != nil {
		return api.Finished{}, err
	}
	return api.Finished{Of: "connector", ConnectorView: v}, nil
}

func (s *Server) finishConnection(ctx context.Context, p *Principal, n api.FinishedSignIn) (api.Finished, error) {
	decides := p.Role.Decides()
	switch {
	case s.provider(n.Provider) == nil:
		return api.Finished{}, invalid("/provider", fmt.Sprintf("There is no provider %q; there is %s.", plain(n.Provider), s.providerIDs()))
	case p.lesser && !decides:
		return api.Finished{}, errLesserKey()
	}
	in, err := s.Connections.Finish(ctx, p.Organization, p.By(), p.via, decides, action.ConnectAnswer{
		Provider: n.Provider, Iss: n.Iss, State: n.State, Code: n.Code, Error: n.Error, Installation: n.Installation, Connection: n.Connection,
	})
	if err != nil {
		return api.Finished{}, err
	}
	s.integrationChanged(ctx, p, "integration connected", &in)
	v := s.viewIntegration(in)
	return api.Finished{Of: "integration", Integration: &v}, nil
}
