package dashboard

import (
	"context"
	"net/http"

	"sallyport/action"
)

// NewQuota is how many calls a policy key lets through in a while.
type NewQuota struct {
	Per action.QuotaScope `json:"per" enum:"session,group,creator,organization" doc:"Whose calls are counted together." example:"session"`
	NewRate
}

// NewRate is a number of calls in a sliding window.
type NewRate struct {
	Calls   int `json:"calls" minimum:"1" maximum:"1000000000" example:"20"`
	Seconds int `json:"seconds" minimum:"1" maximum:"86400" doc:"The window." example:"3600"`
}

// QuotaView is one quota.
type QuotaView struct {
	Key       string            `json:"key" doc:"As it is stored, with the source's id."`
	Name      string            `json:"name" doc:"As people write it." example:"github:create_issue"`
	Per       action.QuotaScope `json:"per"`
	Calls     int               `json:"calls"`
	Seconds   int               `json:"seconds"`
	UpdatedBy string            `json:"updated_by"`
	Warning   string            `json:"warning,omitempty" doc:"As in the answer to a mode that is set."`
}

// SettingsChange is what may change of an organization's settings.
type SettingsChange struct {
	SelfApproval     *bool `json:"self_approval,omitempty" nullable:"false" doc:"The creator of a session may approve its calls, and make grants for it."`
	DenialLimit      *int  `json:"denial_limit,omitempty" minimum:"0" maximum:"1000" nullable:"false" doc:"After so many denials of an action in a session it is denied there for good; 0: never." example:"3"`
	UnverifiedEvents *bool `json:"unverified_events,omitempty" nullable:"false" doc:"Events start runs that a broker forwards without having verified who sent them."`
}

func (s *Server) quotaRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/policy/quotas", tag: "policy", summary: "List quotas",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[QuotaView]], error) {
		return s.quotas(ctx, p.Organization)
	})
	register(s, route{
		method: "PUT", path: "/api/v1/policy/quotas/{key}", tag: "policy", summary: "Set a quota", status: http.StatusOK, doc: keyDoc,
	}, func(ctx context.Context, p *Principal, in *struct {
		ByPolicyKey
		Body NewQuota
	},
	) (*body[QuotaView], error) {
		key, all, err := s.knownKey(ctx, p.Organization, in.Key)
		if err != nil {
			return nil, err
		}
		warning, err := s.unsure(ctx, key, all)
		if err != nil {
			return nil, err
		}
		q := action.Quota{
			Organization: p.Organization, Key: key, Per: in.Body.Per, Rate: action.Rate(in.Body.NewRate), UpdatedBy: p.By(),
		}
		if err := s.Quotas.SetQuota(ctx, q); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "quota set", "key", key.String(), "per", q.Per, "calls", q.Calls, "seconds", q.Seconds)
		v := viewQuota(q, all)
		v.Warning = warning
		return bodyOf(v), nil
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/policy/quotas/{key}", tag: "policy", summary: "Take a quota back",
	}, func(ctx context.Context, p *Principal, in *struct {
		ByPolicyKey
		Per action.QuotaScope `query:"per" required:"true" enum:"session,group,creator,organization"`
	},
	) (*empty, error) {
		key, err := s.storedKey(ctx, p.Organization, in.Key)
		if err != nil {
			return nil, err
		}
		if err := s.Quotas.UnsetQuota(ctx, p.Organization, key, in.Per, p.By()); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "quota unset", "key", key.String(), "per", in.Per)
		return nil, nil
	})
	s.settingsRoutes()
}

func (s *Server) quotas(ctx context.Context, organization string) (*body[List[QuotaView]], error) {
	list, err := s.Quotas.ListQuotas(ctx, organization)
	if err != nil {
		return nil, err
	}
	all, err := s.Connectors.ListConnectors(ctx, organization)
	views := make([]QuotaView, len(list))
	for i, q := range list {
		views[i] = viewQuota(q, all)
	}
	return listOf(views), err
}

func viewQuota(q action.Quota, all []action.Connector) QuotaView {
	return QuotaView{Key: q.Key.String(), Name: keyName(q.Key, all), Per: q.Per, Calls: q.Calls, Seconds: q.Seconds, UpdatedBy: q.UpdatedBy}
}

func (s *Server) settingsRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/policy/settings", tag: "policy", summary: "Read the organization's settings",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[action.Settings], error) {
		got, err := s.Settings.Settings(ctx, p.Organization)
		return bodyOf(got), err
	})
	register(s, route{
		method: "PUT", path: "/api/v1/policy/settings", tag: "policy", summary: "Change the organization's settings", status: http.StatusOK,
		doc: "Fields that are absent stay.",
	}, func(ctx context.Context, p *Principal, in *struct{ Body SettingsChange }) (*body[action.Settings], error) {
		now, err := s.Settings.Settings(ctx, p.Organization)
		if err != nil {
			return nil, err
		}
		set(&now.SelfApproval, in.Body.SelfApproval)
		set(&now.DenialLimit, in.Body.DenialLimit)
		set(&now.UnverifiedEvents, in.Body.UnverifiedEvents)
		if err := s.Settings.SetSettings(ctx, p.Organization, now, p.By()); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "settings changed", "self_approval", now.SelfApproval, "denial_limit", now.DenialLimit, "unverified_events", now.UnverifiedEvents)
		return bodyOf(now), nil
	})
	register(s, route{
		method: "GET", path: "/api/v1/policy/events", tag: "policy", summary: "List changes of policy, newest first",
	}, func(ctx context.Context, p *Principal, in *struct {
		Paging
		Kind    string `query:"kind" enum:"mode,capability,gate,grant,grant_request,env_request,quota,settings,review,connector,integration,provider_app,connections,master_key,automation,trigger,schedule,run_endpoint,run,delivery,person,notify"`
		Subject string `query:"subject" doc:"What changed, as the event says it."`
		By      string `query:"by" doc:"Id of who did it."`
		From    string `query:"from" doc:"Not before this time or day." example:"2026-01-02T15:04:05Z"`
		To      string `query:"to" doc:"Before this time or day." example:"2026-02-01"`
	},
	) (*body[List[action.PolicyEvent]], error) {
		f := action.PolicyEventFilter{Organization: p.Organization, Kind: in.Kind, Subject: in.Subject, By: in.By, Limit: in.Limit, Cursor: in.Cursor}
		var err error
		if f.From, err = parseMoment("/from", in.From); err != nil {
			return nil, err
		}
		if f.To, err = parseMoment("/to", in.To); err != nil {
			return nil, err
		}
		page, err := s.History.PolicyEvents(ctx, f)
		return pageOf(page, same), err
	})
}
