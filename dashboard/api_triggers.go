package dashboard

import (
	"context"

	"sallyport/api"
)

func (s *Server) triggerRoutes() {
	s.eventProviderRoutes()
	handle(s, api.ListTriggers, func(ctx context.Context, p *Principal, in *api.OfAutomation) (api.List[api.TriggerView], error) {
		views, err := s.triggers(ctx, p, in.Automation)
		return listOf(views), err
	})
	handle(s, api.CreateTrigger, func(ctx context.Context, p *Principal, in *api.Body[api.NewTrigger]) (api.MintedTrigger, error) {
		return s.addTrigger(ctx, p, in.Body)
	})
	s.triggerOneRoutes("/api/v1/triggers/{id}")
	s.triggerSecretRoutes("/api/v1/triggers/{id}")
	handle(s, api.ListPollGroups, func(ctx context.Context, p *Principal, _ *api.None) (api.List[api.PollGroupView], error) {
		views, err := s.pollGroups(ctx, p.Organization)
		return listOf(views), err
	})
}

func (s *Server) triggerOneRoutes(one string) {
	handle(s, api.GetTrigger, func(ctx context.Context, p *Principal, in *api.ByID) (api.TriggerView, error) {
		t, err := s.Inbound.Trigger(ctx, p.Organization, in.ID)
		if err != nil {
			return api.TriggerView{}, err
		}
		return s.viewTrigger(ctx, p, t)
	})
	handle(s, api.UpdateTrigger, func(ctx context.Context, p *Principal, in *api.ByIDWith[api.TriggerChange]) (api.TriggerView, error) {
		return s.changeTrigger(ctx, p, in.ID, in.Body)
	})
	handleNone(s, api.DeleteTrigger, func(ctx context.Context, p *Principal, in *api.ByID) error {
		return s.removeTrigger(ctx, p, in.ID)
	})
}

func (s *Server) triggerSecretRoutes(one string) {
	handle(s, api.ListTriggerSecrets, func(ctx context.Context, p *Principal, in *api.ByID) (api.List[api.SigningSecret], error) {
		if _, err := s.Inbound.Trigger(ctx, p.Organization, in.ID); err != nil {
			return api.List[api.SigningSecret]{}, err
		}
		list, err := s.Inbound.SigningSecrets(ctx, p.Organization, in.ID)
		return listOf(signingSecrets(list)), err
	})
	handle(s, api.RotateTrigger, func(ctx context.Context, p *Principal, in *api.ByIDWith[*api.Rotation]) (api.MintedSecret, error) {
		return s.rotateTrigger(ctx, p, in.ID, in.Body)
	})
}

func (s *Server) eventProviderRoutes() {
	handle(s, api.ListEventProviders, func(context.Context, *Principal, *api.None) (api.List[api.EventProvider], error) {
		return listOf(s.EventProviders), nil
	})
	handle(s, api.GetEventProvider, func(_ context.Context, _ *Principal, in *api.GetEventProviderInput,
	) (api.EventProvider, error) {
		provider, err := s.eventProvider(in.ID, "")
		if err != nil {
			return api.EventProvider{}, err
		}
		return *provider, nil
	})
}
