package dashboard

import (
	"context"
	"strings"
	"time"

	"sallyport/api"
	"sallyport/ingest/event"
)

// upcoming is how many times to come are shown.
const upcoming = 5

func (s *Server) schedules(ctx context.Context, p *Principal, automation string) ([]api.ScheduleView, error) {
	id, err := s.automationID(ctx, p, automation, "/automation")
	if err != nil {
		return nil, err
	}
	list, err := s.Inbound.ListSchedules(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	names, err := s.Inbound.AutomationNames(ctx, p.Organization)
	views := make([]api.ScheduleView, len(list))
	for i, row := range list {
		views[i] = s.showSchedule(row, names)
	}
	return views, err
}

func (s *Server) viewSchedule(ctx context.Context, row event.Schedule) (api.ScheduleView, error) {
	names, err := s.Inbound.AutomationNames(ctx, row.Organization)
	return s.showSchedule(row, names), err
}

// showSchedule shows the times that the rows know of: one that is overdue comes
// first.
func (s *Server) showSchedule(row event.Schedule, names map[string]string) api.ScheduleView {
	v := api.ScheduleView{Schedule: row, AutomationName: names[row.Automation], Next: []time.Time{}}
	if row.NextAt == nil {
		return v
	}
	v.Next = append(v.Next, *row.NextAt)
	later, err := s.Times(row.Cron, row.TimeZone, *row.NextAt, upcoming-1)
	if err != nil {
		s.Log.Warn("times of a schedule that is kept are not known", "schedule", row.ID, "error", err)
	}
	v.Next = append(v.Next, later...)
	return v
}

func (s *Server) addSchedule(ctx context.Context, p *Principal, n api.NewSchedule) (api.ScheduleView, error) {
	now := s.now()
	row := event.Schedule{
		ID: newID(), Organization: p.Organization, Name: n.Cron, TimeZone: "UTC", Enabled: true, Missed: event.MissedOnce,
		CreatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	apply(&row, &n, "Automation")
	row.Name, row.Cron = strings.TrimSpace(row.Name), strings.TrimSpace(row.Cron)
	var err error
	if row.Automation, err = s.automationID(ctx, p, n.Automation, "/automation"); err != nil {
		return api.ScheduleView{}, err
	}
	if err := s.due(&row); err != nil {
		return api.ScheduleView{}, err
	}
	if row, err = s.Inbound.CreateSchedule(ctx, row); err != nil {
		return api.ScheduleView{}, err
	}
	s.changed(ctx, p, "schedule made", "schedule", row.ID, "automation", row.Automation, "cron", row.Cron, "zone", row.TimeZone)
	return s.viewSchedule(ctx, row)
}

func (s *Server) changeSchedule(ctx context.Context, p *Principal, id string, change api.ScheduleChange) (api.ScheduleView, error) {
	old, err := s.Inbound.Schedule(ctx, p.Organization, id)
	if err != nil {
		return api.ScheduleView{}, err
	}
	row := old
	apply(&row, &change)
	row.Name, row.Cron, row.UpdatedAt = strings.TrimSpace(row.Name), strings.TrimSpace(row.Cron), s.now()
	if row.Cron != old.Cron || row.TimeZone != old.TimeZone || row.Enabled != old.Enabled {
		err = s.due(&row)
	} else {
		err = checkTitle(row.Name)
	}
	if err != nil {
		return api.ScheduleView{}, err
	}
	if row, err = s.Inbound.UpdateSchedule(ctx, row, p.By()); err != nil {
		return api.ScheduleView{}, err
	}
	s.changed(ctx, p, "schedule changed", "schedule", row.ID, "cron", row.Cron, "zone", row.TimeZone, "enabled", row.Enabled)
	return s.viewSchedule(ctx, row)
}

// due checks a schedule and finds its next time from now on.
func (s *Server) due(row *event.Schedule) error {
	if err := checkTitle(row.Name); err != nil {
		return err
	}
	times, err := s.Times(row.Cron, row.TimeZone, s.now(), 1)
	switch {
	case err != nil:
		return err
	case len(times) == 0:
		return invalid("/cron_expression", "This is never due; set cron_expression to a time that comes, such as 0 7 * * 1-5.")
	}
	row.NextAt = nil
	if row.Enabled {
		row.NextAt = &times[0]
	}
	return nil
}
