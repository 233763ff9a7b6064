package dashboard

import (
	"context"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/nearest"
)

// sought is the filter that a query says.
func (s *Server) sought(ctx context.Context, p *Principal, in api.Sought, by api.AskedBy) (f action.InvocationFilter, err error) {
	f = action.InvocationFilter{
		Organization: p.Organization, Session: by.Session, Run: by.Run, Automation: by.Automation, Group: by.Group, Person: by.Person,
		Statuses: in.Status, Source: in.Source, Action: in.Action, Risk: action.Risk(in.Risk), Mode: action.Mode(in.Mode),
	}
	if f.Person == "me" {
		f.Person = p.By()
	}
	if f.From, err = parseMoment("/from", in.From); err != nil {
		return f, err
	}
	if f.To, err = parseMoment("/to", in.To); err != nil {
		return f, err
	}
	if !f.To.IsZero() && !f.From.Before(f.To) {
		return f, invalid("/to", "to must be after from.")
	}
	if in.Source == "" {
		return f, nil
	}
	id, all, err := s.source(ctx, p.Organization, in.Source)
	switch {
	case err == nil:
		f.Source = id
	case action.Public(err).Code == "no_such_source" && !strings.Contains(in.Source, ":"): // an id may be that of one that was removed
		return f, action.Errorf(action.ErrInvalid, "no_such_source",
			"No source is called %q.%s A connector that was removed is named by its id.", in.Source, nearest.Sentence(in.Source, s.sourceNames(all))).WithField("/source")
	}
	return f, nil
}

// parseMoment reads a time or a day, of UTC where it does not say; the zero
// time when there is none.
func parseMoment(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1970 {
			return t.UTC(), nil
		}
	}
	return time.Time{}, invalid(field, field[1:]+" must be a time or a day, such as 2026-01-02T15:04:05Z or 2026-01-02.")
}

func (s *Server) listInvocations(ctx context.Context, p *Principal, in api.Sought, by api.AskedBy, q api.Paging) (api.InvocationList, error) {
	f, err := s.sought(ctx, p, in, by)
	if err != nil {
		return api.InvocationList{}, err
	}
	f.Limit, f.Cursor = q.Limit, q.Cursor
	page, err := s.Calls.ListInvocations(ctx, f)
	if err != nil {
		return api.InvocationList{}, err
	}
	return s.viewPage(ctx, p, page)
}
