package dashboard

import (
	"context"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) quotaRoutes() {
	handle(s, api.ListQuotas, func(ctx context.Context, p *Principal, _ *api.None) (api.List[api.QuotaView], error) {
		return s.quotas(ctx, p.Organization)
	})
	handle(s, api.PutQuota, func(ctx context.Context, p *Principal, in *api.ByPolicyKeyWith[api.NewQuota]) (api.QuotaView, error) {
		key, all, err := s.knownKey(ctx, p.Organization, in.Key)
		if err != nil {
			return api.QuotaView{}, err
		}
		warning, err := s.unsure(ctx, key, all)
		if err != nil {
			return api.QuotaView{}, err
		}
		q := action.Quota{
			Organization: p.Organization, Key: key, Per: in.Body.Per, Rate: action.Rate(in.Body.NewRate), UpdatedBy: p.By(),
		}
		if err := s.Policy.SetQuota(ctx, q); err != nil {
			return api.QuotaView{}, err
		}
		s.changed(ctx, p, "quota set", "key", key.String(), "per", q.Per, "calls", q.Calls, "seconds", q.Seconds)
		v := viewQuota(q, all)
		v.Warning = warning
		return v, nil
	})
	handleNone(s, api.DeleteQuota, func(ctx context.Context, p *Principal, in *api.DeleteQuotaInput) error {
		key, err := s.storedKey(ctx, p.Organization, in.Key)
		if err != nil {
			return err
		}
		if err := s.Policy.UnsetQuota(ctx, p.Organization, key, in.Per, p.By()); err != nil {
			return err
		}
		s.changed(ctx, p, "quota unset", "key", key.String(), "per", in.Per)
		return nil
	})
	s.settingsRoutes()
}

func (s *Server) quotas(ctx context.Context, organization string) (api.List[api.QuotaView], error) {
	list, err := s.Policy.ListQuotas(ctx, organization)
	if err != nil {
		return api.List[api.QuotaView]{}, err
	}
	all, err := s.Sources.ListConnectors(ctx, organization)
	views := make([]api.QuotaView, len(list))
	for i, q := range list {
		views[i] = viewQuota(q, all)
	}
	return listOf(views), err
}

func viewQuota(q action.Quota, all []action.Connector) api.QuotaView {
	return api.QuotaView{Key: q.Key.String(), Name: keyName(q.Key, all), Per: q.Per, Calls: q.Calls, Seconds: q.Seconds, UpdatedBy: q.UpdatedBy}
}

func (s *Server) settingsRoutes() {
	handle(s, api.GetSettings, func(ctx context.Context, p *Principal, _ *api.None) (action.Settings, error) {
		return s.Policy.Settings(ctx, p.Organization)
	})
	handle(s, api.UpdateSettings, func(ctx context.Context, p *Principal, in *api.Body[api.SettingsChange]) (action.Settings, error) {
		now, err := s.Policy.Settings(ctx, p.Organization)
		if err != nil {
			return action.Settings{}, err
		}
		apply(&now, &in.Body)
		if err := s.Policy.SetSettings(ctx, p.Organization, now, p.By()); err != nil {
			return action.Settings{}, err
		}
		s.changed(ctx, p, "settings changed", "self_approval", now.SelfApproval, "denial_limit", now.DenialLimit, "unverified_events", now.UnverifiedEvents)
		return now, nil
	})
	handle(s, api.ListPolicyEvents, func(ctx context.Context, p *Principal, in *api.ListPolicyEventsInput) (api.List[action.PolicyEvent], error) {
		f := action.PolicyEventFilter{Organization: p.Organization, Kind: in.Kind, Subject: in.Subject, By: in.By, Limit: in.Limit, Cursor: in.Cursor}
		var err error
		if f.From, err = parseMoment("/from", in.From); err != nil {
			return api.List[action.PolicyEvent]{}, err
		}
		if f.To, err = parseMoment("/to", in.To); err != nil {
			return api.List[action.PolicyEvent]{}, err
		}
		page, err := s.Policy.PolicyEvents(ctx, f)
		return pageOf(page, same), err
	})
}
