package view

import (
	"context"
	"errors"
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

// Origins returns the events that the sessions of some invocations were created
// for, in one query. A session's own credential says whether it has one; if not,
// the query is skipped.
func (s *Reader) Origins(ctx context.Context, p *dashboard.Principal, list []action.Invocation) (map[string]event.SessionOrigin, error) {
	var sessions []string
	for i := range list {
		if id := list[i].Session; p.Session == nil || p.Session.Event != "" || id != p.Session.ID {
			sessions = append(sessions, id)
		}
	}
	slices.Sort(sessions)
	if sessions = slices.Compact(sessions); len(sessions) == 0 {
		return nil, nil
	}
	return s.Inbound.OriginsOfSessions(ctx, p.Organization, sessions)
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
			"No source is called %q.%s A connector that was removed is named by its id.", in.Source, suggest.Sentence(in.Source, s.sourceNames(all))).WithField("/source")
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
