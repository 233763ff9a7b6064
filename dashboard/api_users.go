package dashboard

import (
	"cmp"
	"context"
	"slices"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) userRoutes() {
	handle(s, api.GetMe, func(_ context.Context, p *Principal, _ *api.None) (api.Me, error) {
		me := api.Me{Kind: "person", Organization: p.Organization, User: p.User, Name: p.Name, Role: p.Role, Scope: p.scope, MCPURL: s.MCPURL}
		if p.Session != nil {
			me.Kind, me.Session = "session", p.Session.ID
			me.SessionKind, me.SessionType = string(p.Session.Kind), string(p.Session.Type)
			me.Model = p.Session.Model
		}
		return me, nil
	})
	handle(s, api.ListUsers, func(ctx context.Context, p *Principal, _ *api.None) (api.List[action.User], error) {
		list, err := s.People.ListUsers(ctx, p.Organization)
		return listOf(list), err
	})
	handle(s, api.CreateUser, func(ctx context.Context, p *Principal, in *api.Body[api.NewUser]) (action.User, error) {
		return s.addUser(ctx, p, in.Body)
	})
	handle(s, api.UpdateUserRole, func(ctx context.Context, p *Principal, in *api.ByIDWith[api.RoleChange]) (action.User, error) {
		return s.changeRole(ctx, p, in.ID, in.Body.Role)
	})
	handleNone(s, api.DeleteUser, func(ctx context.Context, p *Principal, in *api.ByID) error {
		return s.removeUser(ctx, p, in.ID)
	})
	handle(s, api.CreateLoginLink, func(ctx context.Context, p *Principal, in *api.ByID) (api.Link, error) {
		return s.linkFor(ctx, p, in.ID)
	})
}

func (s *Server) addUser(ctx context.Context, p *Principal, n api.NewUser) (action.User, error) {
	u := action.User{ID: newID(), Organization: p.Organization, Name: n.Name, Role: cmp.Or(n.Role, action.RoleMember), CreatedAt: s.now()}
	if err := p.outranks(u.Role); err != nil {
		return u, err
	}
	if err := s.People.CreateUser(ctx, u, p.By()); err != nil {
		return u, err
	}
	s.Log.InfoContext(ctx, "user added", "user", u.ID, "role", u.Role, "by", p.By())
	return u, nil
}

// other returns a person of the organization whom the principal may change.
func (s *Server) other(ctx context.Context, p *Principal, id string) (action.User, error) {
	u, err := s.People.User(ctx, p.Organization, id)
	if err != nil {
		return u, err
	}
	return u, p.outranks(u.Role)
}

func (s *Server) changeRole(ctx context.Context, p *Principal, id string, role action.Role) (action.User, error) {
	u, err := s.other(ctx, p, id)
	if err != nil {
		return u, err
	}
	if err := p.outranks(role); err != nil {
		return u, err
	}
	if err := s.People.SetUserRole(ctx, p.Organization, id, role, p.By()); err != nil {
		return u, err
	}
	s.Log.InfoContext(ctx, "user changed", "user", id, "role", role, "by", p.By())
	u.Role = role
	return u, nil
}

func (s *Server) removeUser(ctx context.Context, p *Principal, id string) error {
	u, err := s.other(ctx, p, id)
	if err != nil {
		return err
	}
	if err := s.removable(ctx, &u); err != nil {
		return err
	}
	if err := s.disconnectAll(ctx, p, id); err != nil {
		return err
	}
	if err := s.People.DeleteUser(ctx, p.Organization, id, p.By()); err != nil {
		return err
	}
	s.changed(ctx, p, "user removed", "user", id)
	s.hint(action.HintLogin, p.Organization, "")
	s.hint(action.HintCatalog, p.Organization, "")
	return nil
}

// removable refuses the last owner, as the removal would, before anything of
// his is gone.
func (s *Server) removable(ctx context.Context, u *action.User) error {
	if u.Role != action.RoleOwner {
		return nil
	}
	all, err := s.People.ListUsers(ctx, u.Organization)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(o action.User) bool { return o.Role == action.RoleOwner && o.ID != u.ID }) {
		return nil
	}
	return action.Errorf(action.ErrConflict, "last_owner", "This is the last owner; make someone else an owner first.")
}

// disconnectAll gives back the credentials that only the user could use, for
// as long as a change waits for that. What is left is wiped with the user.
func (s *Server) disconnectAll(ctx context.Context, p *Principal, user string) error {
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, user)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, giveBackWait)
	defer stop()
	for _, in := range all {
		if in.Owner() != user {
			continue
		}
		if err = ctx.Err(); err == nil {
			_, err = s.Connections.Disconnect(ctx, in, p.By())
		}
		if err != nil {
			s.Log.WarnContext(ctx, "a credential is lost that could not be given back", "integration", in.ID, "error", err)
		}
	}
	return nil
}

func (s *Server) linkFor(ctx context.Context, p *Principal, id string) (api.Link, error) {
	u, err := s.other(ctx, p, id)
	if err != nil {
		return api.Link{}, err
	}
	if u.Issuer != "" {
		return api.Link{}, action.NewError("signs_in_elsewhere", u.Issuer)
	}
	s.Log.InfoContext(ctx, "sign-in link made", "user", id, "by", p.By())
	return s.CreateLoginLink(ctx, p.Organization, id)
}
