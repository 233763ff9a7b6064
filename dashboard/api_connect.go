package dashboard

import (
	"context"
	"fmt"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) connectRoutes() {
	handle(s, api.ConnectIntegration, func(ctx context.Context, p *Principal, in *api.Body[api.NewConnection]) (*body[api.ConnectLink], error) {
		link, err := s.beginConnection(ctx, p, in.Body)
		return bodyOf(link), err
	})
}

func (s *Server) beginConnection(ctx context.Context, p *Principal, n api.NewConnection) (link api.ConnectLink, err error) {
	kinds := []action.IntegrationKind{action.KindOAuth2, action.KindApp}
	if n.Broker != action.BrokerOwn {
		kinds = kinds[:1]
	}
	w, err := s.wanted(ctx, p, n.Connecting, kinds...)
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
	s.log.InfoContext(ctx, "connection begun", "provider", w.Provider, "kind", w.Kind, "broker", w.Broker, "own", w.Own, "by", p.By())
	return link, nil
}

// finish ends what was begun where the answer came to. Connectors have a page
// of their own, and each provider has: what one server was led to answer must
// not reach the flow of another.
func (s *Server) finish(ctx context.Context, p *Principal, n api.FinishedSignIn) (*body[api.Finished], error) {
	if n.Provider != "" {
		return s.finishConnection(ctx, p, n)
	}
	if err := accessPermit(api.Decider, p, ""); err != nil {
		return nil, err
	}
	v, err := s.finishSignIn(ctx, p, n)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.Finished{Of: "connector", ConnectorView: v}), nil
}

func (s *Server) finishConnection(ctx context.Context, p *Principal, n api.FinishedSignIn) (*body[api.Finished], error) {
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
	return bodyOf(api.Finished{Of: "integration", Integration: &v}), nil
}
