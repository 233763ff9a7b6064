package dashboard

import (
	"cmp"
	"context"

	"sallyport/api"
)

func (s *Server) scheduleRoutes() {
	handle(s, api.ListSchedules, func(ctx context.Context, p *Principal, in *api.OfAutomation) (api.List[api.ScheduleView], error) {
		views, err := s.schedules(ctx, p, in.Automation)
		return listOf(views), err
	})
	handle(s, api.CreateSchedule, func(ctx context.Context, p *Principal, in *api.Body[api.NewSchedule]) (api.ScheduleView, error) {
		return s.addSchedule(ctx, p, in.Body)
	})
	handle(s, api.PreviewSchedule, func(_ context.Context, _ *Principal, in *api.Body[api.CronTimes]) (api.DueTimes, error) {
		times, err := s.Times(in.Body.Cron, cmp.Or(in.Body.TimeZone, "UTC"), s.now(), upcoming)
		return api.DueTimes{Times: nonNil(times)}, err
	})
	s.scheduleOneRoutes("/api/v1/schedules/{id}")
}

func (s *Server) scheduleOneRoutes(one string) {
	handle(s, api.GetSchedule, func(ctx context.Context, p *Principal, in *api.ByID) (api.ScheduleView, error) {
		row, err := s.Inbound.Schedule(ctx, p.Organization, in.ID)
		if err != nil {
			return api.ScheduleView{}, err
		}
		return s.viewSchedule(ctx, row)
	})
	handle(s, api.UpdateSchedule, func(ctx context.Context, p *Principal, in *api.ByIDWith[api.ScheduleChange]) (api.ScheduleView, error) {
		return s.changeSchedule(ctx, p, in.ID, in.Body)
	})
	handleNone(s, api.DeleteSchedule, func(ctx context.Context, p *Principal, in *api.ByID) error {
		if err := s.Inbound.DeleteSchedule(ctx, p.Organization, in.ID, p.By()); err != nil {
			return err
		}
		s.changed(ctx, p, "schedule removed", "schedule", in.ID)
		return nil
	})
}
