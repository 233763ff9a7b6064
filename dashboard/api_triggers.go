package dashboard

import (
	"context"

	"sallyport/api"
)

func (s *Server) triggerRoutes() {
	s.eventProviderRoutes()
	handle(s, api.ListTriggers, func(ctx context.Context, p *Principal, in *api.OfAutomation) (*body[api.List[api.TriggerView]], error) {
		views, err := s.triggers(ctx, p, in.Automation)
		return listOf(views), err
	})
	handle(s, api.CreateTrigger, func(ctx context.Context, p *Principal, in *api.Body[api.NewTrigger]) (*body[api.MintedTrigger], error) {
		t, err := s.addTrigger(ctx, p, in.Body)
		return bodyOf(t), err
	})
	s.triggerOneRoutes("/api/v1/triggers/{id}")
	s.triggerSecretRoutes("/api/v1/triggers/{id}")
	handle(s, api.ListPollGroups, func(ctx context.Context, p *Principal, _ *api.None) (*body[api.List[api.PollGroupView]], error) {
		views, err := s.pollGroups(ctx, p.Organization)
		return listOf(views), err
	})
}

func (s *Server) triggerOneRoutes(one string) {
	handle(s, api.GetTrigger, func(ctx context.Context, p *Principal, in *api.ByID) (*body[api.TriggerView], error) {
		t, err := s.Inbound.Trigger(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.viewTrigger(ctx, p, t)
		return bodyOf(v), err
	})
	handle(s, api.UpdateTrigger, func(ctx context.Context, p *Principal, in *api.ByIDWith[api.TriggerChange],
	) (*body[api.TriggerView], error) {
		v, err := s.changeTrigger(ctx, p, in.ID, in.Body)
		return bodyOf(v), err
	})
	handleAs(s, api.DeleteTrigger, func(ctx context.Context, p *Principal, in *api.ByID) (*empty, error) {
		return nil, s.removeTrigger(ctx, p, in.ID)
	})
}

func (s *Server) triggerSecretRoutes(one string) {
	handle(s, api.ListTriggerSecrets, func(ctx context.Context, p *Principal, in *api.ByID) (*body[api.List[api.SigningSecret]], error) {
		if _, err := s.Inbound.Trigger(ctx, p.Organization, in.ID); err != nil {
			return nil, err
		}
		list, err := s.Inbound.SigningSecrets(ctx, p.Organization, in.ID)
		return listOf(signingSecrets(list)), err
	})
	handle(s, api.RotateTrigger, func(ctx context.Context, p *Principal, in *api.ByIDWith[*api.Rotation],
	) (*body[api.MintedSecret], error) {
		secret, err := s.rotateTrigger(ctx, p, in.ID, in.Body)
		return bodyOf(secret), err
	})
}

func (s *Server) eventProviderRoutes() {
	handle(s, api.ListEventProviders, func(context.Context, *Principal, *api.None) (*body[api.List[api.EventProvider]], error) {
		return listOf(s.EventProviders), nil
	})
	handle(s, api.GetEventProvider, func(_ context.Context, _ *Principal, in *api.GetEventProviderInput,
	) (*body[api.EventProvider], error) {
		provider, err := s.eventProvider(in.ID, "")
		if err != nil {
			return nil, err
		}
		return bodyOf(*provider), nil
	})
}
