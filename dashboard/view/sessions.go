package view

import (
	"context"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
)

// Session returns a session of the organization.
func (s *Reader) Session(ctx context.Context, organization, id string) (action.Session, error) {
	session, err := s.Sessions.Session(ctx, id)
	if err == nil && session.Organization != organization {
		return action.Session{}, action.NewError("session_not_found")
	}
	return session, err
}

// ListSessions lists sessions without the integrations that are private to others.
func (s *Reader) ListSessions(ctx context.Context, p *dashboard.Principal, in *api.ListSessionsInput) (action.Page[action.Session], error) {
	f := action.SessionFilter{Organization: p.Organization, Live: in.State == "live", Ended: in.State == "ended", Limit: in.Limit, Cursor: in.Cursor}
	if status := action.SessionStatus(in.State); status.Valid() {
		f.Status = status
	}
	page, err := s.Sessions.ListSessions(ctx, f)
	if err != nil {
		return page, err
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	for i := range page.Items {
		HideUnlisted(&page.Items[i], all)
	}
	return page, err
}

// HideUnlisted removes from a session the integrations that are not in the list.
func HideUnlisted(s *action.Session, all []action.Integration) {
	s.Connections = KeepListed(s.Connections, all)
	s.LeftOut = slices.DeleteFunc(slices.Clone(s.LeftOut), func(l action.LeftOut) bool {
		return !slices.ContainsFunc(all, func(in action.Integration) bool { return in.ID == l.Integration })
	})
}

// RequireOwnRole refuses keys with a limited role, which may be stored where agents
// read them, for operations on the person's own account.
func RequireOwnRole(p *dashboard.Principal) error {
	if p.Viewer() == "" {
		return action.Errorf(action.ErrForbidden, "role_required", "This key has a lesser role than its person, and may not do this for him; use the page, or a key of his own role.")
	}
	return nil
}

// Logins lists the principal's own browser logins.
func (s *Reader) Logins(ctx context.Context, p *dashboard.Principal) ([]api.LoginView, error) {
	if err := RequireOwnRole(p); err != nil {
		return nil, err
	}
	list, err := s.People.ListLogins(ctx, p.Organization, p.User)
	out := make([]api.LoginView, 0, len(list))
	for _, l := range list {
		out = append(out, api.LoginView{
			ID: l.ID, Via: l.Via, CreatedAt: l.CreatedAt, SeenAt: l.SeenAt, ExpiresAt: l.ExpiresAt, IdleAt: l.SeenAt.Add(s.LoginIdle),
			Current: p.Login != nil && p.Login.ID == l.ID,
		})
	}
	return out, err
}
