package dashboard

import (
	"context"

	"sallyport/api"
	"sallyport/ingest/event"
)

func (s *Server) automationRoutes() {
	handle(s, api.ListAutomations, func(ctx context.Context, p *Principal, _ *api.None) (api.List[event.Automation], error) {
		all, err := s.Inbound.ListAutomations(ctx, p.Organization)
		return listOf(all), err
	})
	handle(s, api.CreateAutomation, func(ctx context.Context, p *Principal, in *api.Body[api.NewAutomation]) (event.Automation, error) {
		return s.addAutomation(ctx, p, in.Body)
	})
	handle(s, api.GetAutomation, func(ctx context.Context, p *Principal, in *api.ByAutomation) (event.Automation, error) {
		return s.automation(ctx, p, in.Automation, "")
	})
	handle(s, api.UpdateAutomation, func(ctx context.Context, p *Principal, in *api.ByAutomationWith[api.AutomationChange]) (event.Automation, error) {
		return s.changeAutomation(ctx, p, in.Automation, in.Body)
	})
	handleNone(s, api.DeleteAutomation, func(ctx context.Context, p *Principal, in *api.ByAutomation) error {
		return s.removeAutomation(ctx, p, in.Automation)
	})
}
