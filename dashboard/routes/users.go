package routes

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	"sallyport/internal/token"
)

func (s *handlers) userRoutes() {
	dashboard.Handle(s.Server, api.GetMe, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.Me, error) {
		me := api.Me{Kind: "person", Organization: p.Organization, User: p.User, Name: p.Name, Role: p.Role, Scope: p.Scope, MCPURL: s.MCPURL}
		if p.Session != nil {
			me.Kind, me.Session = "session", p.Session.ID
			me.SessionKind, me.SessionType = string(p.Session.Kind), string(p.Session.Type)
			me.Model = p.Session.Model
		}
		models, err := s.Models.ModelSettings(ctx, p.Organization)
		me.Model, me.SmallModel = cmp.Or(me.Model, models.Default), models.Small
		for _, m := range models.Providers {
			me.Models = append(me.Models, api.ModelDoor{Name: m.Name, Dialect: m.Dialect, URL: strings.TrimSuffix(s.MCPURL, "/mcp") + "/llm/" + m.Name})
		}
		return me, err
	})
	dashboard.Handle(s.Server, api.ListUsers, listAll(s.People.ListUsers))
	dashboard.Handle(s.Server, api.CreateUser, s.addUser)
	dashboard.Handle(s.Server, api.UpdateUserRole, s.changeRole)
	dashboard.HandleNone(s.Server, api.DeleteUser, s.removeUser)
	dashboard.Handle(s.Server, api.CreateLoginLink, s.loginLink)
}

func (s *handlers) addUser(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewUser]) (action.User, error) {
	u := action.User{ID: dashboard.NewID(), Organization: p.Organization, Name: in.Body.Name, Role: cmp.Or(in.Body.Role, action.RoleMember), CreatedAt: s.Now()}
	if err := p.Outranks(u.Role); err != nil {
		return u, err
	}
	if err := s.People.CreateUser(ctx, u, p.By()); err != nil {
		return u, err
	}
	s.Log.InfoContext(ctx, "user added", "user", u.ID, "role", u.Role, "by", p.By())
	return u, nil
}

// otherUser returns a person of the organization whom the principal may change.
func (s *handlers) otherUser(ctx context.Context, p *dashboard.Principal, id string) (action.User, error) {
	u, err := s.People.User(ctx, p.Organization, id)
	if err != nil {
		return u, err
	}
	return u, p.Outranks(u.Role)
}

func (s *handlers) changeRole(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.RoleChange]) (action.User, error) {
	u, err := s.otherUser(ctx, p, in.ID)
	if err != nil {
		return u, err
	}
	if err := p.Outranks(in.Body.Role); err != nil {
		return u, err
	}
	if err := s.People.SetUserRole(ctx, p.Organization, in.ID, in.Body.Role, p.By()); err != nil {
		return u, err
	}
	s.Log.InfoContext(ctx, "user changed", "user", in.ID, "role", in.Body.Role, "by", p.By())
	u.Role = in.Body.Role
	return u, nil
}

func (s *handlers) removeUser(ctx context.Context, p *dashboard.Principal, in *api.ByID) error {
	u, err := s.otherUser(ctx, p, in.ID)
	if err != nil {
		return err
	}
	if err := s.checkRemovable(ctx, &u); err != nil {
		return err
	}
	if err := s.disconnectAll(ctx, p, in.ID); err != nil {
		return err
	}
	if err := s.People.DeleteUser(ctx, p.Organization, in.ID, p.By()); err != nil {
		return err
	}
	s.policyChanged(ctx, p, "user removed", "user", in.ID)
	s.Hint(action.HintLogin, p.Organization, "")
	s.Hint(action.HintCatalog, p.Organization, "")
	return nil
}

// checkRemovable refuses the last owner before anything is deleted, as the removal
// itself would.
func (s *handlers) checkRemovable(ctx context.Context, u *action.User) error {
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

// disconnectAll revokes the credentials that only the user could use, within a time
// limit. The rest is deleted with the user.
func (s *handlers) disconnectAll(ctx context.Context, p *dashboard.Principal, user string) error {
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
			s.Log.WarnContext(ctx, "could not revoke the credential of an integration", "integration", in.ID, "error", err)
		}
	}
	return nil
}

func (s *handlers) loginLink(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.Link, error) {
	u, err := s.otherUser(ctx, p, in.ID)
	if err != nil {
		return api.Link{}, err
	}
	if u.Issuer != "" {
		return api.Link{}, action.NewError("signs_in_elsewhere", u.Issuer)
	}
	s.Log.InfoContext(ctx, "sign-in link created", "user", in.ID, "by", p.By())
	return s.CreateLoginLink(ctx, p.Organization, in.ID)
}

func (s *handlers) loginRoutes() {
	dashboard.Handle(s.Server, api.ListLogins, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[api.LoginView], error) {
		list, err := s.Logins(ctx, p)
		return view.ListOf(list), err
	})
	dashboard.Handle(s.Server, api.EndLogins, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.EndedLogins, error) {
		if err := view.RequireOwnRole(p); err != nil {
			return api.EndedLogins{}, err
		}
		n, err := s.endLogins(ctx, p, p.User, action.EndEverywhere)
		return api.EndedLogins{Ended: n}, err
	})
	dashboard.HandleNone(s.Server, api.EndLogin, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) error {
		if err := view.RequireOwnRole(p); err != nil {
			return err
		}
		if err := s.People.EndLogin(ctx, p.Organization, p.User, in.ID); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "signed out elsewhere", "login", in.ID, "by", p.By())
		s.Hint(action.HintLogin, p.Organization, "")
		return nil
	})
	dashboard.Handle(s.Server, api.CreateOwnLoginLink, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.Link, error) {
		return s.HostLink(ctx, p)
	})
	dashboard.Handle(s.Server, api.EndUserLogins, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.EndedLogins, error) {
		if _, err := s.otherUser(ctx, p, in.ID); err != nil {
			return api.EndedLogins{}, err
		}
		n, err := s.endLogins(ctx, p, in.ID, action.EndAdmin)
		return api.EndedLogins{Ended: n}, err
	})
	dashboard.Handle(s.Server, api.ListRemovedUsers, listAll(s.People.RemovedUsers))
	dashboard.HandleNone(s.Server, api.ReadmitUser, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) error {
		if err := s.People.ReadmitUser(ctx, p.Organization, in.ID, p.Role, p.By()); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "user readmitted", "user", in.ID, "by", p.By())
		return nil
	})
}

func (s *handlers) endLogins(ctx context.Context, p *dashboard.Principal, user string, why action.LoginEnd) (int, error) {
	n, err := s.People.EndLogins(ctx, p.Organization, user, why)
	if err != nil {
		return 0, err
	}
	s.Log.InfoContext(ctx, "signed out everywhere", "user", user, "logins", n, "by", p.By())
	s.Hint(action.HintLogin, p.Organization, "")
	return n, nil
}

func (s *handlers) keyRoutes() {
	dashboard.Handle(s.Server, api.ListKeys, listAll(s.People.ListAPIKeys))
	dashboard.Handle(s.Server, api.CreateKey, s.mintKey)
	dashboard.HandleNone(s.Server, api.RevokeKey, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) error {
		if err := s.People.RevokeAPIKey(ctx, p.Organization, in.ID, s.Now()); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "API key revoked", "key", in.ID, "by", p.By())
		return nil
	})
}

func (s *handlers) mintKey(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewKey]) (api.MintedKey, error) {
	n := in.Body
	role := cmp.Or(n.Role, action.RoleMember)
	if err := p.Outranks(role); err != nil {
		return api.MintedKey{}, err
	}
	id, key, hash := token.NewAPIKey()
	until, err := lifetimeUntil(n.Lifetime, s.Now())
	if err != nil {
		return api.MintedKey{}, err
	}
	if n.Scope != "" && role != action.RoleMember {
		return api.MintedKey{}, dashboard.Invalid("/role", "A worker key has a scope and no role. Leave out role or scope.")
	}
	row := action.APIKey{ID: id, Organization: p.Organization, Name: n.Name, User: p.User, Role: role, Scope: n.Scope, CreatedAt: s.Now(), ExpiresAt: until}
	if err := s.People.CreateAPIKey(ctx, row, hex.EncodeToString(hash)); err != nil {
		return api.MintedKey{}, err
	}
	s.Log.InfoContext(ctx, "API key created", "key", id, "role", role, "scope", n.Scope, "by", p.By())
	return api.MintedKey{APIKey: row, Key: key}, nil
}
