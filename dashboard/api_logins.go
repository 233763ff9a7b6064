package dashboard

import (
	"context"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) loginRoutes() {
	handle(s, api.ListLogins, func(ctx context.Context, p *Principal, _ *api.None) (api.List[api.LoginView], error) {
		list, err := s.logins(ctx, p)
		return listOf(list), err
	})
	handle(s, api.EndLogins, func(ctx context.Context, p *Principal, _ *api.None) (api.EndedLogins, error) {
		if err := ownOnly(p); err != nil {
			return api.EndedLogins{}, err
		}
		n, err := s.endLogins(ctx, p, p.User, action.EndEverywhere)
		return api.EndedLogins{Ended: n}, err
	})
	handleNone(s, api.EndLogin, func(ctx context.Context, p *Principal, in *api.ByID) error {
		if err := ownOnly(p); err != nil {
			return err
		}
		if err := s.People.EndLogin(ctx, p.Organization, p.User, in.ID); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "signed out elsewhere", "login", in.ID, "by", p.By())
		s.hint(action.HintLogin, p.Organization, "")
		return nil
	})
	handle(s, api.CreateOwnLoginLink, func(ctx context.Context, p *Principal, _ *api.None) (api.Link, error) {
		return s.hostLink(ctx, p)
	})
	handle(s, api.EndUserLogins, func(ctx context.Context, p *Principal, in *api.ByID) (api.EndedLogins, error) {
		if _, err := s.other(ctx, p, in.ID); err != nil {
			return api.EndedLogins{}, err
		}
		n, err := s.endLogins(ctx, p, in.ID, action.EndAdmin)
		return api.EndedLogins{Ended: n}, err
	})
	handle(s, api.ListRemovedUsers, func(ctx context.Context, p *Principal, _ *api.None) (api.List[action.RemovedUser], error) {
		list, err := s.People.RemovedUsers(ctx, p.Organization)
		return listOf(list), err
	})
	handleNone(s, api.ReadmitUser, func(ctx context.Context, p *Principal, in *api.ByID) error {
		if err := s.People.ReadmitUser(ctx, p.Organization, in.ID, p.Role, p.By()); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "user may sign in again", "user", in.ID, "by", p.By())
		return nil
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

func (s *Server) logins(ctx context.Context, p *Principal) ([]api.LoginView, error) {
	if err := ownOnly(p); err != nil {
		return nil, err
	}
	list, err := s.People.ListLogins(ctx, p.Organization, p.User)
	out := make([]api.LoginView, 0, len(list))
	for _, l := range list {
		out = append(out, api.LoginView{
			ID: l.ID, Via: l.Via, CreatedAt: l.CreatedAt, SeenAt: l.SeenAt, ExpiresAt: l.ExpiresAt, IdleAt: l.SeenAt.Add(s.LoginIdle),
			Current: p.login != nil && p.login.ID == l.ID,
		})
	}
	return out, err
}

func (s *Server) endLogins(ctx context.Context, p *Principal, user string, why action.LoginEnd) (int, error) {
	n, err := s.People.EndLogins(ctx, p.Organization, user, why)
	if err != nil {
		return 0, err
	}
	s.Log.InfoContext(ctx, "signed out everywhere", "user", user, "logins", n, "by", p.By())
	s.hint(action.HintLogin, p.Organization, "")
	return n, nil
}
