package routes

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

func (s *handlers) signInRoutes() {
	dashboard.Handle(s.Server, api.SignInConnector, func(ctx context.Context, p *dashboard.Principal, in *api.ByRef) (api.SignInLink, error) {
		return s.beginSignIn(ctx, p, in.Ref)
	})
	dashboard.HandleNone(s.Server, api.SignOutConnector, func(ctx context.Context, p *dashboard.Principal, in *api.ByRef) error {
		c, err := s.Connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return err
		}
		if err := s.Connectors.Disconnect(ctx, c, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "connector signed out", "connector", c.ID)
		s.Hint(action.HintCatalog, p.Organization, "")
		return nil
	})
	dashboard.Handle(s.Server, api.FinishOAuth, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.FinishedSignIn]) (api.Finished, error) {
		return s.finishSignInOrConnection(ctx, p, in.Body)
	})
}

func (s *handlers) beginSignIn(ctx context.Context, p *dashboard.Principal, ref string) (to api.SignInLink, err error) {
	c, err := s.Connector(ctx, p.Organization, ref)
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
	before, err := s.OAuthStatus(ctx, c)
	if err != nil {
		return to, err
	}
	s.Log.InfoContext(ctx, "sign-in begun", "connector", c.ID, "by", p.By())
	to = api.SignInLink{AuthorizeURL: authorize, Host: view.HostOf(authorize), Known: c.OAuth.Issuer != "" || before.Issuer == issuer}
	if view.HostOf(issuer) != to.Host {
		to.Issuer = issuer
	}
	return to, nil
}

// finishSignIn logs the person and the connector, but nothing of the response.
func (s *handlers) finishSignIn(ctx context.Context, p *dashboard.Principal, n api.FinishedSignIn) (*api.ConnectorView, error) {
	id, err := s.Connectors.FinishSignIn(ctx, p.Organization, p.By(), n.State, n.Code, n.Iss, n.Error)
	if err != nil {
		return nil, err
	}
	s.policyChanged(ctx, p, "connector signed in", "connector", id)
	s.Hint(action.HintCatalog, p.Organization, "")
	c, err := s.Connector(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	v, err := s.ViewConnector(ctx, c, s.Connectors.State(ctx, c))
	return &v, err
}

// giveBackWait bounds how long a change waits for the revocation of tokens.
const giveBackWait = 5 * time.Second

// revokeTokens revokes the tokens of a connector before a change discards them. An
// unreachable service does not prevent the change.
func (s *handlers) revokeTokens(ctx context.Context, c action.Connector, by string) {
	if c.OAuth == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, giveBackWait)
	defer stop()
	if err := s.Connectors.Disconnect(ctx, c, by); err != nil && !errors.Is(err, action.ErrNotFound) {
		s.Log.WarnContext(ctx, "tokens are lost that could not be given back", "connector", c.ID, "error", err)
	}
}

// clientMetadata serves the OAuth client ID metadata document.
func (s *handlers) clientMetadata(w http.ResponseWriter, r *http.Request) {
	document := s.Connectors.ClientMetadata()
	if document == nil {
		s.Fail(w, r, action.NewError("no_client_metadata"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(document) // a client that disconnected can retry
}
