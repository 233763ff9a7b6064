package routes

import (
	"cmp"
	"context"
	"strings"

	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

func (s *handlers) automationRoutes() {
	dashboard.Handle(s.Server, api.ListAutomations, listAll(s.Inbound.ListAutomations))
	dashboard.Handle(s.Server, api.CreateAutomation, s.addAutomation)
	dashboard.Handle(s.Server, api.GetAutomation, func(ctx context.Context, p *dashboard.Principal, in *api.ByAutomation) (event.Automation, error) {
		return s.Automation(ctx, p, in.Automation, "")
	})
	dashboard.Handle(s.Server, api.UpdateAutomation, s.changeAutomation)
	dashboard.HandleNone(s.Server, api.DeleteAutomation, s.removeAutomation)
	dashboard.Handle(s.Server, api.ListSchedules, func(ctx context.Context, p *dashboard.Principal, in *api.OfAutomation) (api.List[api.ScheduleView], error) {
		views, err := s.Schedules(ctx, p, in.Automation)
		return view.ListOf(views), err
	})
	dashboard.Handle(s.Server, api.CreateSchedule, s.addSchedule)
	dashboard.Handle(s.Server, api.PreviewSchedule, func(_ context.Context, _ *dashboard.Principal, in *api.Body[api.CronTimes]) (api.DueTimes, error) {
		times, err := s.Times(in.Body.Cron, cmp.Or(in.Body.TimeZone, "UTC"), s.Now(), view.UpcomingTimes)
		return api.DueTimes{Times: dashboard.NonNil(times)}, err
	})
	dashboard.Handle(s.Server, api.GetSchedule, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.ScheduleView, error) {
		row, err := s.Inbound.Schedule(ctx, p.Organization, in.ID)
		if err != nil {
			return api.ScheduleView{}, err
		}
		return s.viewSchedule(ctx, row)
	})
	dashboard.Handle(s.Server, api.UpdateSchedule, s.changeSchedule)
	dashboard.HandleNone(s.Server, api.DeleteSchedule, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) error {
		if err := s.Inbound.DeleteSchedule(ctx, p.Organization, in.ID, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "schedule removed", "schedule", in.ID)
		return nil
	})
}

func (s *handlers) addAutomation(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewAutomation]) (event.Automation, error) {
	now := s.Now()
	a := event.Automation{
		ID: dashboard.NewID(), Organization: p.Organization, Enabled: true, CreatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	if err := changeAutomation(&a, &in.Body, &in.Body.RunSettingsChange); err != nil {
		return a, err
	}
	a.Name = strings.TrimSpace(a.Name)
	if err := checkTitle(a.Name); err != nil {
		return a, err
	}
	a, err := s.Inbound.CreateAutomation(ctx, a)
	if err != nil {
		return a, err
	}
	s.policyChanged(ctx, p, "automation created", "automation", a.ID, "name", a.Name)
	return a, nil
}

func (s *handlers) changeAutomation(ctx context.Context, p *dashboard.Principal, in *api.ByAutomationWith[api.AutomationChange]) (event.Automation, error) {
	a, err := s.Automation(ctx, p, in.Automation, "")
	if err != nil {
		return a, err
	}
	if err := changeAutomation(&a, &in.Body, &in.Body.RunSettingsChange); err != nil {
		return a, err
	}
	a.Name, a.UpdatedAt = strings.TrimSpace(a.Name), s.Now()
	if err := checkTitle(a.Name); err != nil {
		return a, err
	}
	if a, err = s.Inbound.UpdateAutomation(ctx, a, p.By()); err != nil {
		return a, err
	}
	s.policyChanged(ctx, p, "automation changed", "automation", a.ID, "name", a.Name, "enabled", a.Enabled)
	return a, nil
}

func (s *handlers) removeAutomation(ctx context.Context, p *dashboard.Principal, in *api.ByAutomation) error {
	a, err := s.Automation(ctx, p, in.Automation, "")
	if err != nil {
		return err
	}
	if err := s.Inbound.DeleteAutomation(ctx, p.Organization, a.ID, p.By()); err != nil {
		return err
	}
	s.policyChanged(ctx, p, "automation removed", "automation", a.ID, "name", a.Name)
	return nil
}

// changeAutomation applies an input, of which settings are a part.
func changeAutomation(a *event.Automation, input any, settings *api.RunSettingsChange) (err error) {
	applyChange(a, input, "MaxUSD")
	if settings.MaxUSD != nil {
		a.MaxCost = micros(*settings.MaxUSD)
	}
	a.Model, err = canonicalModel(a.Model, "/model")
	return err
}

// checkTitle refuses names with invisible characters.
func checkTitle(name string) error {
	if !isPlainName(name) {
		return dashboard.Invalid("/name", "name must be plain text of 1 to 120 characters, on one line.")
	}
	return nil
}

func (s *handlers) viewSchedule(ctx context.Context, row event.Schedule) (api.ScheduleView, error) {
	names, err := s.Inbound.AutomationNames(ctx, row.Organization)
	return s.ViewSchedule(row, names), err
}

func (s *handlers) addSchedule(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewSchedule]) (api.ScheduleView, error) {
	now := s.Now()
	row := event.Schedule{
		ID: dashboard.NewID(), Organization: p.Organization, Name: in.Body.Cron, TimeZone: "UTC", Enabled: true, Missed: event.MissedOnce,
		CreatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	applyChange(&row, &in.Body, "Automation")
	row.Name, row.Cron = strings.TrimSpace(row.Name), strings.TrimSpace(row.Cron)
	var err error
	if row.Automation, err = s.AutomationID(ctx, p, in.Body.Automation, "/automation"); err != nil {
		return api.ScheduleView{}, err
	}
	if err := s.nextDue(&row); err != nil {
		return api.ScheduleView{}, err
	}
	if row, err = s.Inbound.CreateSchedule(ctx, row); err != nil {
		return api.ScheduleView{}, err
	}
	s.policyChanged(ctx, p, "schedule created", "schedule", row.ID, "automation", row.Automation, "cron", row.Cron, "zone", row.TimeZone)
	return s.viewSchedule(ctx, row)
}

func (s *handlers) changeSchedule(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.ScheduleChange]) (api.ScheduleView, error) {
	old, err := s.Inbound.Schedule(ctx, p.Organization, in.ID)
	if err != nil {
		return api.ScheduleView{}, err
	}
	row := old
	applyChange(&row, &in.Body)
	row.Name, row.Cron, row.UpdatedAt = strings.TrimSpace(row.Name), strings.TrimSpace(row.Cron), s.Now()
	if row.Cron != old.Cron || row.TimeZone != old.TimeZone || row.Enabled != old.Enabled {
		err = s.nextDue(&row)
	} else {
		err = checkTitle(row.Name)
	}
	if err != nil {
		return api.ScheduleView{}, err
	}
	if row, err = s.Inbound.UpdateSchedule(ctx, row, p.By()); err != nil {
		return api.ScheduleView{}, err
	}
	s.policyChanged(ctx, p, "schedule changed", "schedule", row.ID, "cron", row.Cron, "zone", row.TimeZone, "enabled", row.Enabled)
	return s.viewSchedule(ctx, row)
}

// nextDue checks a schedule and returns its next due time.
func (s *handlers) nextDue(row *event.Schedule) error {
	if err := checkTitle(row.Name); err != nil {
		return err
	}
	times, err := s.Times(row.Cron, row.TimeZone, s.Now(), 1)
	switch {
	case err != nil:
		return err
	case len(times) == 0:
		return dashboard.Invalid("/cron_expression", "This schedule never runs. Set cron_expression to times such as 0 7 * * 1-5.")
	}
	row.NextAt = nil
	if row.Enabled {
		row.NextAt = &times[0]
	}
	return nil
}
