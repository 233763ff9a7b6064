package dashboard

import (
	"context"
	"errors"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// automation finds one by its id or name; field is where it was named, empty
// for the path.
func (s *Server) automation(ctx context.Context, p *Principal, ref, field string) (event.Automation, error) {
	a, err := s.Inbound.Automation(ctx, p.Organization, ref)
	if !errors.Is(err, action.ErrNotFound) {
		return a, err
	}
	return a, action.NewError("no_such_automation", plain(ref)).WithField(field)
}

// automationID is that of an automation that may be named; empty: none was.
func (s *Server) automationID(ctx context.Context, p *Principal, ref, field string) (string, error) {
	if ref == "" {
		return "", nil
	}
	a, err := s.automation(ctx, p, ref, field)
	return a.ID, err
}

func (s *Server) addAutomation(ctx context.Context, p *Principal, n api.NewAutomation) (event.Automation, error) {
	now := s.now()
	a := event.Automation{
		ID: newID(), Organization: p.Organization, Enabled: true, CreatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	apply(&a, &n)
	a.Name = strings.TrimSpace(a.Name)
	if err := checkTitle(a.Name); err != nil {
		return a, err
	}
	a, err := s.Inbound.CreateAutomation(ctx, a)
	if err != nil {
		return a, err
	}
	s.changed(ctx, p, "automation made", "automation", a.ID, "name", a.Name)
	return a, nil
}

func (s *Server) changeAutomation(ctx context.Context, p *Principal, ref string, change api.AutomationChange) (event.Automation, error) {
	a, err := s.automation(ctx, p, ref, "")
	if err != nil {
		return a, err
	}
	apply(&a, &change)
	a.Name, a.UpdatedAt = strings.TrimSpace(a.Name), s.now()
	if err := checkTitle(a.Name); err != nil {
		return a, err
	}
	if a, err = s.Inbound.UpdateAutomation(ctx, a, p.By()); err != nil {
		return a, err
	}
	s.changed(ctx, p, "automation changed", "automation", a.ID, "name", a.Name, "enabled", a.Enabled)
	return a, nil
}

func (s *Server) removeAutomation(ctx context.Context, p *Principal, ref string) error {
	a, err := s.automation(ctx, p, ref, "")
	if err != nil {
		return err
	}
	if err := s.Inbound.DeleteAutomation(ctx, p.Organization, a.ID, p.By()); err != nil {
		return err
	}
	s.changed(ctx, p, "automation removed", "automation", a.ID, "name", a.Name)
	return nil
}

// checkTitle refuses names of which something would not be seen.
func checkTitle(name string) error {
	if !plainName(name) {
		return invalid("/name", "name must be plain text of 1 to 120 characters, on one line.")
	}
	return nil
}
