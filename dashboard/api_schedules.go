package dashboard

import (
	"context"

	"sallyport/api"
)

func (s *Server) scheduleRoutes() {
	handle(s, api.ListSchedules, func(ctx context.Context, p *Principal, in *api.OfAutomation) (*body[api.List[api.ScheduleView]], error) {
		views, err := s.schedules(ctx, p, in.Automation)
		return listOf(views), err
	})
	handle(s, api.CreateSchedule, func(ctx context.Context, p *Principal, in *api.Body[api.NewSchedule]) (*body[api.ScheduleView], error) {
		v, err := s.addSchedule(ctx, p, in.Body)
		return bodyOf(v), err
	})
	handle(s, api.PreviewSchedule, func(_ context.Context, _ *Principal, in *api.Body[api.CronTimes]) (*body[api.DueTimes], error) {
		times, err := s.Times(in.Body.Cron, or(in.Body.TimeZone, "UTC"), s.now(), upcoming)
		return bodyOf(api.DueTimes{Times: nonNil(times)}), err
	})
	s.scheduleOneRoutes("/api/v1/schedules/{id}")
}

func (s *Server) scheduleOneRoutes(one string) {
	handle(s, api.GetSchedule, func(ctx context.Context, p *Principal, in *api.ByID) (*body[api.ScheduleView], error) {
		row, err := s.Inbound.Schedule(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.viewSchedule(ctx, row)
		return bodyOf(v), err
	})
	handle(s, api.UpdateSchedule, func(ctx context.Context, p *Principal, in *api.ByIDWith[api.ScheduleChange],
	) (*body[api.ScheduleView], error) {
		v, err := s.changeSchedule(ctx, p, in.ID, in.Body)
		return bodyOf(v), err
	})
	handleAs(s, api.DeleteSchedule, func(ctx context.Context, p *Principal, in *api.ByID) (*empty, error) {
		if err := s.Inbound.DeleteSchedule(ctx, p.Organization, in.ID, p.By()); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "schedule removed", "schedule", in.ID)
		return nil, nil
	})
}
