package dashboard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) signInRoutes() {
	handle(s, api.SignInConnector, func(ctx context.Context, p *Principal, in *api.ByRef) (api.SignInLink, error) {
		return s.beginSignIn(ctx, p, in.Ref)
	})
	handleNone(s, api.SignOutConnector, func(ctx context.Context, p *Principal, in *api.ByRef) error {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return err
		}
		if err := s.Connectors.Disconnect(ctx, c, p.By()); err != nil {
			return err
		}
		s.changed(ctx, p, "connector signed out", "connector", c.ID)
		s.hint(action.HintCatalog, p.Organization, "")
		return nil
	})
	handle(s, api.FinishOAuth, func(ctx context.Context, p *Principal, in *api.Body[api.FinishedSignIn]) (api.Finished, error) {
		return s.finish(ctx, p, in.Body)
	})
}

func (s *Server) beginSignIn(ctx context.Context, p *Principal, ref string) (to api.SignInLink, err error) {
	c, err := s.connector(ctx, p.Organization, ref)
	if err != nil {
		return to, err
	}
	if c.OAuth == nil || c.OAuth.Kind != action.OAuthCode {
		return to, action.NewError("no_sign_in", c.Name)
	}
	authorize, issuer, err := s.Connectors.BeginSignIn(ctx, c, p.By())
	if err != nil {
		return to, err
	}
	before, err := s.oauthStatus(ctx, c)
	if err != nil {
		return to, err
	}
	s.Log.InfoContext(ctx, "sign-in begun", "connector", c.ID, "by", p.By())
	to = api.SignInLink{AuthorizeURL: authorize, Host: hostOf(authorize), Known: c.OAuth.Issuer != "" || before.Issuer == issuer}
	if hostOf(issuer) != to.Host {
		to.Issuer = issuer
	}
	return to, nil
}

// finishSignIn logs who and what for, and nothing of the answer.
func (s *Server) finishSignIn(ctx context.Context, p *Principal, n api.FinishedSignIn) (*api.ConnectorView, error) {
	id, err := s.Connectors.FinishSignIn(ctx, p.Organization, p.By(), n.State, n.Code, n.Iss, n.Error)
	if err != nil {
		return nil, err
	}
	s.changed(ctx, p, "connector signed in", "connector", id)
	s.hint(action.HintCatalog, p.Organization, "")
	c, err := s.connector(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	v, err := s.viewConnector(ctx, c, s.Connectors.State(ctx, c))
	return &v, err
}

// oauthStatus is nil for a connector without OAuth.
func (s *Server) oauthStatus(ctx context.Context, c action.Connector) (*api.OAuthStatus, error) {
	if c.OAuth == nil {
		return nil, nil
	}
	g, err := s.Connectors.Grant(ctx, c.Organization, c.ID)
	if errors.Is(err, action.ErrNotFound) {
		return &api.OAuthStatus{Status: "not_connected"}, nil
	}
	if err != nil {
		return nil, err
	}
	return viewGrant(&g), nil
}

func viewGrant(g *action.OAuthGrant) *api.OAuthStatus {
	return &api.OAuthStatus{Status: string(g.Status), Reason: g.Reason, Issuer: g.Issuer, Scope: g.Scope, ExpiresAt: g.ExpiresAt, By: g.By}
}

// giveBackWait is how long a change waits for tokens to be revoked.
const giveBackWait = 5 * time.Second

// giveBack revokes the tokens of a connector before a change loses them. That a
// service cannot be reached keeps nothing from changing.
func (s *Server) giveBack(ctx context.Context, c action.Connector, by string) {
	if c.OAuth == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, giveBackWait)
	defer stop()
	if err := s.Connectors.Disconnect(ctx, c, by); err != nil && !errors.Is(err, action.ErrNotFound) {
		s.Log.WarnContext(ctx, "tokens are lost that could not be given back", "connector", c.ID, "error", err)
	}
}

// clientMetadata tells authorization servers who the gateway is.
func (s *Server) clientMetadata(w http.ResponseWriter, r *http.Request) {
	document := s.Connectors.ClientMetadata()
	if document == nil {
		s.fail(w, r, action.NewError("no_client_metadata"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(document) // whoever left can ask again
}
