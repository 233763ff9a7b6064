package dashboard

import (
	"context"
	"net/http"
	"time"

	"sallyport/action"
)

// LoginView is a browser in which somebody is signed in.
type LoginView struct {
	ID        string     `json:"id" example:"0199a3c4-5d6e-7f80-9123-456789abcdef"`
	Via       action.Via `json:"via" enum:"link,oidc,host" doc:"link: a one-time link; oidc: the OpenID provider; host: a link for a token of the host application."`
	CreatedAt time.Time  `json:"created_at"`
	SeenAt    time.Time  `json:"seen_at" doc:"To a minute."`
	ExpiresAt time.Time  `json:"expires_at" doc:"Sooner when it is not used for a while; see ends_idle_at."`
	IdleAt    time.Time  `json:"ends_idle_at" doc:"When it ends unless it is used before."`
	Current   bool       `json:"current" doc:"It is the one that asks."`
}

// EndedLogins says how many there were.
type EndedLogins struct {
	Ended int `json:"ended" example:"2"`
}

func (s *Server) loginRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/me/logins", tag: "users", summary: "List where you are signed in",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[LoginView]], error) {
		list, err := s.logins(ctx, p)
		return listOf(list), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/me/logins", tag: "users", summary: "Sign out everywhere", status: http.StatusOK,
		doc: "Ends all your logins, this one too, and takes links back that nobody used yet. API keys stay.",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[EndedLogins], error) {
		if err := ownOnly(p); err != nil {
			return nil, err
		}
		n, err := s.endLogins(ctx, p, p.User, action.EndEverywhere)
		return bodyOf(EndedLogins{n}), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/me/logins/{id}", tag: "users", summary: "Sign out in one place",
	}, func(ctx context.Context, p *Principal, in *ByID) (*empty, error) {
		if err := ownOnly(p); err != nil {
			return nil, err
		}
		if err := s.Logins.EndLogin(ctx, p.Organization, p.User, in.ID); err != nil {
			return nil, err
		}
		s.log.InfoContext(ctx, "signed out elsewhere", "login", in.ID, "by", p.By())
		s.hint(action.HintLogin, p.Organization, "")
		return nil, nil
	})
	register(s, route{
		method: "POST", path: "/api/v1/me/login-link", tag: "users", summary: "Make a sign-in link for the user of a host application", status: http.StatusCreated,
		doc: "For the bearer of a host application's token (`Authorization: Bearer <JWT>` with sub, org and role). The application leads the user's browser to the link, which works once, within ten minutes.",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[Link], error) {
		link, err := s.hostLink(ctx, p)
		return bodyOf(link), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/users/{id}/logins", tag: "users", summary: "Sign a person out everywhere", status: http.StatusOK,
		doc: "Ends their logins and takes unused links back. API keys stay.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[EndedLogins], error) {
		if _, err := s.other(ctx, p, in.ID); err != nil {
			return nil, err
		}
		n, err := s.endLogins(ctx, p, in.ID, action.EndAdmin)
		return bodyOf(EndedLogins{n}), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/removed-users", tag: "users", summary: "List people who were removed and stay away",
		doc: "People whom an OpenID provider or a host application knows could come back at their next sign-in; who was removed here cannot.",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[action.RemovedUser]], error) {
		list, err := s.Users.RemovedUsers(ctx, p.Organization)
		return listOf(list), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/removed-users/{id}", tag: "users", summary: "Let a removed person sign in again",
		doc: "At the next sign-in, as somebody new. Only an owner lets somebody in again who was one.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*empty, error) {
		if err := s.Users.ReadmitUser(ctx, p.Organization, in.ID, p.Role, p.By()); err != nil {
			return nil, err
		}
		s.log.InfoContext(ctx, "user may sign in again", "user", in.ID, "by", p.By())
		return nil, nil
	})
}

// ownOnly keeps whoever has a key of a lesser role, which may lie where agents
// read it, from being taken for its person.
func ownOnly(p *Principal) error {
	if p.viewer() == "" {
		return action.Errorf(action.ErrForbidden, "role_required", "This key has a lesser role than its person, and may not do this for him; use the page, or a key of his own role.")
	}
	return nil
}

func (s *Server) logins(ctx context.Context, p *Principal) ([]LoginView, error) {
	if err := ownOnly(p); err != nil {
		return nil, err
	}
	list, err := s.Logins.ListLogins(ctx, p.Organization, p.User)
	out := make([]LoginView, 0, len(list))
	for _, l := range list {
		out = append(out, LoginView{
			ID: l.ID, Via: l.Via, CreatedAt: l.CreatedAt, SeenAt: l.SeenAt, ExpiresAt: l.ExpiresAt, IdleAt: l.SeenAt.Add(s.LoginIdle),
			Current: p.login != nil && p.login.ID == l.ID,
		})
	}
	return out, err
}

func (s *Server) endLogins(ctx context.Context, p *Principal, user string, why action.LoginEnd) (int, error) {
	n, err := s.Logins.EndLogins(ctx, p.Organization, user, why)
	if err != nil {
		return 0, err
	}
	s.log.InfoContext(ctx, "signed out everywhere", "user", user, "logins", n, "by", p.By())
	s.hint(action.HintLogin, p.Organization, "")
	return n, nil
}
