package dashboard

import (
	"context"
	"net/http"
	"slices"

	"sallyport/action"
)

// Me is who the caller is.
type Me struct {
	Kind         string          `json:"kind" enum:"session,person" example:"person"`
	Organization string          `json:"organization_id"`
	Session      string          `json:"session_id,omitempty"`
	SessionKind  string          `json:"session_kind,omitempty" example:"interactive"`
	SessionType  string          `json:"session_type,omitempty" example:"coding"`
	Model        string          `json:"model,omitempty" doc:"The session's, where it has one." example:"claude-opus-4.6"`
	User         string          `json:"user_id,omitempty"`
	Name         string          `json:"name,omitempty" example:"Ada"`
	Role         action.Role     `json:"role,omitempty"`
	Scope        action.KeyScope `json:"scope,omitempty" doc:"Of an API key that may do no more than this."`
	MCPURL       string          `json:"mcp_url" doc:"Where agents reach this gateway." example:"http://127.0.0.1:8787/mcp"`
}

// NewUser is a person as he is added.
type NewUser struct {
	Name string      `json:"name" minLength:"1" maxLength:"120" example:"Ada"`
	Role action.Role `json:"role,omitempty" enum:"owner,admin,member" doc:"Default member."`
}

// RoleChange is a person's new role.
type RoleChange struct {
	Role action.Role `json:"role" enum:"owner,admin,member"`
}

func (s *Server) userRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/me", tag: "users", summary: "Say who is asking",
	}, func(_ context.Context, p *Principal, _ *none) (*body[Me], error) {
		me := Me{Kind: "person", Organization: p.Organization, User: p.User, Name: p.Name, Role: p.Role, Scope: p.scope, MCPURL: s.MCPURL}
		if p.Session != nil {
			me.Kind, me.Session = "session", p.Session.ID
			me.SessionKind, me.SessionType = string(p.Session.Kind), string(p.Session.Type)
			me.Model = p.Session.Model
		}
		return bodyOf(me), nil
	})
	register(s, route{
		method: "GET", path: "/api/v1/users", tag: "users", summary: "List people",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[action.User]], error) {
		list, err := s.Users.ListUsers(ctx, p.Organization)
		return listOf(list), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/users", tag: "users", summary: "Add a person", status: http.StatusCreated,
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewUser }) (*body[action.User], error) {
		u, err := s.addUser(ctx, p, in.Body)
		return bodyOf(u), err
	})
	register(s, route{
		method: "PATCH", path: "/api/v1/users/{id}", tag: "users", summary: "Give a person another role", errors: []int{http.StatusConflict},
		doc: "The last owner stays one.",
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body RoleChange
	},
	) (*body[action.User], error) {
		u, err := s.changeRole(ctx, p, in.ID, in.Body.Role)
		return bodyOf(u), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/users/{id}", tag: "users", summary: "Remove a person", errors: []int{http.StatusConflict},
		doc: "Their sign-ins and API keys are refused from now on, and what they alone could use of integrations is disconnected. The last owner stays.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*empty, error) {
		return nil, s.removeUser(ctx, p, in.ID)
	})
	register(s, route{
		method: "POST", path: "/api/v1/users/{id}/login-link", tag: "users", summary: "Make a sign-in link for a person", status: http.StatusCreated,
		doc: "It works once, within ten minutes, in one browser.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[Link], error) {
		link, err := s.linkFor(ctx, p, in.ID)
		return bodyOf(link), err
	})
}

func (s *Server) addUser(ctx context.Context, p *Principal, n NewUser) (action.User, error) {
	u := action.User{ID: newID(), Organization: p.Organization, Name: n.Name, Role: or(n.Role, action.RoleMember), CreatedAt: s.now()}
	if err := p.outranks(u.Role); err != nil {
		return u, err
	}
	if err := s.Users.CreateUser(ctx, u, p.By()); err != nil {
		return u, err
	}
	s.log.InfoContext(ctx, "user added", "user", u.ID, "role", u.Role, "by", p.By())
	return u, nil
}

// other returns a person of the organization whom the principal may change.
func (s *Server) other(ctx context.Context, p *Principal, id string) (action.User, error) {
	u, err := s.Users.User(ctx, p.Organization, id)
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
	if err := s.Users.SetUserRole(ctx, p.Organization, id, role, p.By()); err != nil {
		return u, err
	}
	s.log.InfoContext(ctx, "user changed", "user", id, "role", role, "by", p.By())
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
	if err := s.Users.DeleteUser(ctx, p.Organization, id, p.By()); err != nil {
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
	all, err := s.Users.ListUsers(ctx, u.Organization)
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
	all, err := s.Integrations.ListIntegrations(ctx, p.Organization, user)
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
			s.log.WarnContext(ctx, "a credential is lost that could not be given back", "integration", in.ID, "error", err)
		}
	}
	return nil
}

func (s *Server) linkFor(ctx context.Context, p *Principal, id string) (Link, error) {
	u, err := s.other(ctx, p, id)
	if err != nil {
		return Link{}, err
	}
	if u.Issuer != "" {
		return Link{}, action.Errorf(action.ErrConflict, "signs_in_elsewhere",
			"This person signs in through %s, which says whether he may; a link would go round it. Add somebody of this gateway alone instead.", u.Issuer)
	}
	s.log.InfoContext(ctx, "sign-in link made", "user", id, "by", p.By())
	return s.CreateLoginLink(ctx, p.Organization, id)
}
