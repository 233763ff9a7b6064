package dashboard

import (
	"context"

	"sallyport/api"

	"sallyport/ingest/event"
)

func (s *Server) automationRoutes() {
	handle(s, api.ListAutomations, func(ctx context.Context, p *Principal, _ *api.None) (*body[api.List[event.Automation]], error) {
		all, err := s.Inbound.ListAutomations(ctx, p.Organization)
		return listOf(all), err
	})
	handle(s, api.CreateAutomation, func(ctx context.Context, p *Principal, in *api.Body[api.NewAutomation]) (*body[event.Automation], error) {
		a, err := s.addAutomation(ctx, p, in.Body)
		return bodyOf(a), err
	})
	handle(s, api.GetAutomation, func(ctx context.Context, p *Principal, in *api.ByAutomation) (*body[event.Automation], error) {
		a, err := s.automation(ctx, p, in.Automation, "")
		return bodyOf(a), err
	})
	handle(s, api.UpdateAutomation, func(ctx context.Context, p *Principal, in *api.ByAutomationWith[api.AutomationChange],
	) (*body[event.Automation], error) {
		a, err := s.changeAutomation(ctx, p, in.Automation, in.Body)
		return bodyOf(a), err
	})
	handleAs(s, api.DeleteAutomation, func(ctx context.Context, p *Principal, in *api.ByAutomation) (*empty, error) {
		return nil, s.removeAutomation(ctx, p, in.Automation)
	})
}
