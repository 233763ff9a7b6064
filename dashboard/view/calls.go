package view

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/ingest/event"
	"sallyport/internal/suggest"
)

// ParamsError prefixes the field of an error about params, so that it points into
// the request's body.
func ParamsError(err error) error {
	var e *action.Error
	if !errors.As(err, &e) || (e.Code != "invalid_params" && e.Code != "invalid_json") {
		return err
	}
	out := *e
	out.Field = "/params" + e.Field
	return &out
}

// FullParams returns the unredacted params of an invocation while they are kept, and
// records who read them.
func (s *Reader) FullParams(ctx context.Context, p *dashboard.Principal, id string) (api.FullParams, error) {
	inv, err := s.Calls.Invocation(ctx, p.Organization, id)
	if err != nil {
		return api.FullParams{}, err
	}
	params, full, err := s.Gate.Params(ctx, p.Organization, id)
	if err != nil {
		return api.FullParams{}, err
	}
	if full { // recorded before they are revealed
		e := action.Event{Organization: p.Organization, Invocation: id, Kind: action.ParamsRevealed, By: p.By(), At: s.Now()}
		if err := s.Calls.AppendEvent(ctx, e); err != nil {
			return api.FullParams{}, err
		}
	}
	return api.FullParams{Params: params, Full: full, ParamsHash: inv.ParamsHash, ToolHash: inv.ToolHash}, nil
}

// Origins returns the origins of the sessions of some invocations, in one query. A
// session's own credential knows its own, unless it was created for an event; then
// there is no query.
func (s *Reader) Origins(ctx context.Context, p *dashboard.Principal, list []action.Invocation) (map[string]event.SessionOrigin, error) {
	origins := map[string]event.SessionOrigin{}
	var sessions []string
	for i := range list {
		if own := p.Session; own != nil && own.Event == "" && own.ID == list[i].Session {
			origins[own.ID] = event.SessionOrigin{Title: own.Title, CreatedBy: own.CreatedBy, Group: own.Group}
		} else {
			sessions = append(sessions, list[i].Session)
		}
	}
	slices.Sort(sessions)
	if sessions = slices.Compact(sessions); len(sessions) == 0 {
		return origins, nil
	}
	others, err := s.Inbound.OriginsOfSessions(ctx, p.Organization, sessions)
	maps.Copy(origins, others)
	return origins, err
}

// CallerOf returns what lists of calls and events say about a session.
func CallerOf(from event.SessionOrigin) api.CallerView {
	return api.CallerView{SessionTitle: from.Title, SessionCreatedBy: from.CreatedBy, SessionCreator: from.Creator, Group: from.Group}
}

// InvocationFilter converts the query of a list of invocations.
func (s *Reader) InvocationFilter(ctx context.Context, p *dashboard.Principal, in api.CallFilters, by api.CallerFilters) (f action.InvocationFilter, err error) {
	f = action.InvocationFilter{
		Organization: p.Organization, Session: by.Session, Run: by.Run, Automation: by.Automation, Group: by.Group, Person: by.Person,
		Statuses: in.Status, Source: in.Source, Action: in.Action, Risk: action.Risk(in.Risk), Mode: action.Mode(in.Mode),
	}
	if f.Person == "me" {
		f.Person = p.By()
	}
	if f.From, err = ParseTime("/from", in.From); err != nil {
		return f, err
	}
	if f.To, err = ParseTime("/to", in.To); err != nil {
		return f, err
	}
	if !f.To.IsZero() && !f.From.Before(f.To) {
		return f, dashboard.Invalid("/to", "to must be after from.")
	}
	if in.Source == "" {
		return f, nil
	}
	id, all, err := s.Source(ctx, p.Organization, in.Source)
	switch {
	case err == nil:
		f.Source = id
	case action.Public(err).Code == "no_such_source" && !strings.Contains(in.Source, ":"): // an ID may be that of a removed connector
		return f, action.Errorf(action.ErrInvalid, "no_such_source",
			"There is no source %q.%s For a removed connector, use its ID.", in.Source, suggest.Sentence(in.Source, s.sourceNames(all))).WithField("/source")
	}
	return f, nil
}

// ParseTime parses a time or a day, in UTC by default; empty text is the zero
// time.
func ParseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1970 {
			return t.UTC(), nil
		}
	}
	return time.Time{}, dashboard.Invalid(field, field[1:]+" must be a time or a day, such as 2026-01-02T15:04:05Z or 2026-01-02.")
}

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
		return action.Errorf(action.ErrForbidden, "role_required", "This key has a lower role than its creator, so it cannot do this. Use the dashboard, or a key with the creator's role.")
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
