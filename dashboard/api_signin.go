package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sallyport/action"
)

// OAuthStatus is what can be said of a connector's tokens.
type OAuthStatus struct {
	_         struct{}   `nullable:"true"`
	Status    string     `json:"status" enum:"connected,reconnect_needed,not_connected" doc:"not_connected: a person must sign in for the first time, or the gateway has not done so yet by itself."`
	Reason    string     `json:"reason,omitempty" doc:"Why a person must sign in again."`
	Issuer    string     `json:"issuer,omitempty"`
	Scope     string     `json:"scope,omitempty" doc:"As granted, with spaces between."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Of the token at hand; it is renewed before."`
	By        string     `json:"by,omitempty" doc:"Who signed in."`
}

// SignInLink is where a person signs in.
type SignInLink struct {
	AuthorizeURL string `json:"authorize_url" doc:"Open it in the browser that is signed in here, within ten minutes."`
	Host         string `json:"host" doc:"Of that address. The connector's server named it: show it to the person before he goes there." example:"auth.example.com"`
	Issuer       string `json:"issuer,omitempty" doc:"The authorization server, where its host is another."`
	Known        bool   `json:"known" doc:"The connector's settings name that server, or somebody signed in there for the connector before."`
}

// FinishedSignIn is what a browser comes back with from a sign-in. Services add
// more to it, which nobody here asked for and nothing is made of.
type FinishedSignIn struct {
	_        struct{} `additionalProperties:"true"`
	Provider string   `json:"provider,omitempty" maxLength:"40" doc:"Id of the provider to whose page the answer came, /oauth/callback/{provider}; absent: to that of connectors, /oauth/callback." example:"linear"`
	State    string   `json:"state" minLength:"1" maxLength:"1024"`
	Code     string   `json:"code,omitempty" maxLength:"4096" writeOnly:"true"`
	Iss      string   `json:"iss,omitempty" maxLength:"2048" doc:"The issuer, where it says so."`
	Error    string   `json:"error,omitempty" maxLength:"1024" doc:"Instead of code: what the service said."`
	// What apps and brokers lead back with.
	Installation string `json:"installation_id,omitempty" maxLength:"100" doc:"Of a GitHub App; it is asked for at GitHub before it counts."`
	Setup        string `json:"setup_action,omitempty" maxLength:"20" doc:"Of a GitHub App; request: somebody there must agree first."`
	Connection   string `json:"connection_id,omitempty" maxLength:"200" doc:"Of a broker, which shows it when its page is done; a broker's connection is finished with it alone. It is asked for there before it counts."`
}

func (s *Server) signInRoutes() {
	register(s, route{
		method: "POST", path: "/api/v1/connectors/{ref}/sign-in", tag: "connectors", status: http.StatusOK, summary: "Begin a sign-in to a connector's service",
		doc:    "Its OAuth must be of kind authorization_code. The same person finishes it, on the page that the service leads back to.",
		errors: []int{http.StatusTooManyRequests, http.StatusBadGateway},
	}, func(ctx context.Context, p *Principal, in *ByRef) (*body[SignInLink], error) {
		to, err := s.beginSignIn(ctx, p, in.Ref)
		return bodyOf(to), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/connectors/{ref}/sign-out", tag: "connectors", summary: "Forget a connector's tokens",
		doc: "They are revoked at the service, where it offers that. Calls fail until somebody signs in again.",
	}, func(ctx context.Context, p *Principal, in *ByRef) (*empty, error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return nil, err
		}
		if err := s.SignIns.Disconnect(ctx, c, p.By()); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "connector signed out", "connector", c.ID)
		s.hint(action.HintCatalog, p.Organization, "")
		return nil, nil
	})
	register(s, route{
		method: "POST", path: "/api/v1/oauth/finish", tag: "connectors", status: http.StatusOK, summary: "Finish a sign-in to a connector's service, or a connection",
		doc:    "With what the service put into the address that it led the browser back to, once, by the person who began it; what is not named here is ignored. Owners and admins alone sign in to connectors; a member finishes connections of his own.",
		errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusBadGateway},
	}, func(ctx context.Context, p *Principal, in *struct{ Body FinishedSignIn }) (*body[Finished], error) {
		return s.finish(ctx, p, in.Body)
	})
}

func (s *Server) beginSignIn(ctx context.Context, p *Principal, ref string) (to SignInLink, err error) {
	c, err := s.connector(ctx, p.Organization, ref)
	if err != nil {
		return to, err
	}
	if c.OAuth == nil || c.OAuth.Kind != action.OAuthCode {
		return to, &action.Error{
			Kind: action.ErrInvalid, Code: "no_sign_in",
			Message: fmt.Sprintf("Nobody signs in to %s; change it first: oauth with kind authorization_code.", c.Name),
		}
	}
	authorize, issuer, err := s.SignIns.Begin(ctx, c, p.By())
	if err != nil {
		return to, err
	}
	before, err := s.oauthStatus(ctx, c)
	if err != nil {
		return to, err
	}
	s.log.InfoContext(ctx, "sign-in begun", "connector", c.ID, "by", p.By())
	to = SignInLink{AuthorizeURL: authorize, Host: hostOf(authorize), Known: c.OAuth.Issuer != "" || before.Issuer == issuer}
	if hostOf(issuer) != to.Host {
		to.Issuer = issuer
	}
	return to, nil
}

// finishSignIn logs who and what for, and nothing of the answer.
func (s *Server) finishSignIn(ctx context.Context, p *Principal, n FinishedSignIn) (*ConnectorView, error) {
	id, err := s.SignIns.Finish(ctx, p.Organization, p.By(), n.State, n.Code, n.Iss, n.Error)
	if err != nil {
		return nil, err
	}
	s.changed(ctx, p, "connector signed in", "connector", id)
	s.hint(action.HintCatalog, p.Organization, "")
	c, err := s.connector(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	v, err := s.viewConnector(ctx, c, s.Prober.State(ctx, c))
	return &v, err
}

// oauthStatus is nil for a connector without OAuth.
func (s *Server) oauthStatus(ctx context.Context, c action.Connector) (*OAuthStatus, error) {
	if c.OAuth == nil {
		return nil, nil
	}
	g, err := s.SignIns.Grant(ctx, c.Organization, c.ID)
	if errors.Is(err, action.ErrNotFound) {
		return &OAuthStatus{Status: "not_connected"}, nil
	}
	if err != nil {
		return nil, err
	}
	return viewGrant(&g), nil
}

func viewGrant(g *action.OAuthGrant) *OAuthStatus {
	return &OAuthStatus{Status: string(g.Status), Reason: g.Reason, Issuer: g.Issuer, Scope: g.Scope, ExpiresAt: g.ExpiresAt, By: g.By}
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
	if err := s.SignIns.Disconnect(ctx, c, by); err != nil && !errors.Is(err, action.ErrNotFound) {
		s.log.WarnContext(ctx, "tokens are lost that could not be given back", "connector", c.ID, "error", err)
	}
}

// clientMetadata tells authorization servers who the gateway is.
func (s *Server) clientMetadata(w http.ResponseWriter, r *http.Request) {
	document := s.SignIns.ClientMetadata()
	if document == nil {
		s.fail(w, r, action.Errorf(action.ErrNotFound, "no_client_metadata", "This gateway has no such document: that takes a public URL of https."))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(document) // whoever left can ask again
}
