package routes

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

func (s *handlers) modelRoutes() {
	dashboard.Handle(s.Server, api.GetModels, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.ModelsView, error) {
		settings, err := s.Models.ModelSettings(ctx, p.Organization)
		return api.ModelsView{ModelSettings: settings, Known: action.KnownModels()}, err
	})
	dashboard.Handle(s.Server, api.UpdateModels, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.ModelsChange]) (action.ModelSettings, error) {
		return s.changeModels(ctx, p, "default models set", func(m *action.ModelSettings) error {
			for at, model := range map[*string]*string{&m.Default: in.Body.Default, &m.Small: in.Body.Small} {
				if model != nil {
					*at = *model
				}
			}
			return nil
		})
	})
	s.modelProviderRoutes()
	s.modelPriceRoutes()
	dashboard.Handle(s.Server, api.GetModelUsage, s.modelUsage)
	dashboard.Handle(s.Server, api.ListModelRequests, func(ctx context.Context, p *dashboard.Principal, in *api.ListModelRequestsInput) (api.List[action.ModelRequest], error) {
		page, err := s.Models.ListModelRequests(ctx, action.ModelRequestFilter{Organization: p.Organization, Session: in.Session, Cursor: in.Cursor, Limit: in.Limit})
		return view.PageOf(page, func(r action.ModelRequest) action.ModelRequest { return r }), err
	})
}

// changeModels changes the settings of models and logs what was done.
func (s *handlers) changeModels(ctx context.Context, p *dashboard.Principal, what string, change func(*action.ModelSettings) error, args ...any) (action.ModelSettings, error) {
	settings, err := s.Models.ChangeModelSettings(ctx, p.Organization, p.By(), change)
	if err == nil {
		s.Log.InfoContext(ctx, what, append(args, "by", p.By())...)
	}
	return settings, err
}

func (s *handlers) modelProviderRoutes() {
	dashboard.Handle(s.Server, api.PutModelProvider, func(ctx context.Context, p *dashboard.Principal, in *api.ByNameWith[api.NewModelProvider]) (action.ModelSettings, error) {
		n := action.ModelProvider{Name: in.Name, Dialect: in.Body.Dialect, URL: in.Body.URL, Secret: cmp.Or(in.Body.Secret, in.Name)}
		if own := action.ModelDialect(in.Name); n.Dialect == "" && own.URL() != "" {
			n.Dialect = own
		}
		n.Dialect = cmp.Or(n.Dialect, action.DialectOpenAI)
		n.URL = cmp.Or(n.URL, n.Dialect.URL())
		return s.changeModels(ctx, p, "model provider set", func(m *action.ModelSettings) error {
			m.Providers = put(m.Providers, n, func(o action.ModelProvider) bool { return o.Name == n.Name })
			return nil
		}, "provider", n.Name, "url", n.URL)
	})
	dashboard.HandleNone(s.Server, api.DeleteModelProvider, func(ctx context.Context, p *dashboard.Principal, in *api.ByName) error {
		_, err := s.changeModels(ctx, p, "model provider removed", func(m *action.ModelSettings) error {
			if use := m.Uses(in.Name); use != "" {
				return action.NewError("model_provider_used", in.Name, use)
			}
			return remove(&m.Providers, func(o action.ModelProvider) bool { return o.Name == in.Name }, action.NewError("model_provider_not_found", in.Name))
		}, "provider", in.Name)
		return err
	})
	dashboard.Handle(s.Server, api.PutModelAlias, func(ctx context.Context, p *dashboard.Principal, in *api.ByNameWith[api.NewModelAlias]) (action.ModelSettings, error) {
		return s.changeModels(ctx, p, "model alias set", func(m *action.ModelSettings) error {
			if m.Aliases == nil {
				m.Aliases = map[string]string{}
			}
			m.Aliases[in.Name] = in.Body.Model
			return nil
		}, "alias", in.Name, "model", in.Body.Model)
	})
	dashboard.HandleNone(s.Server, api.DeleteModelAlias, func(ctx context.Context, p *dashboard.Principal, in *api.ByName) error {
		_, err := s.changeModels(ctx, p, "model alias removed", func(m *action.ModelSettings) error {
			if _, ok := m.Aliases[in.Name]; !ok {
				return action.NewError("model_alias_not_found", in.Name)
			}
			delete(m.Aliases, in.Name)
			return nil
		}, "alias", in.Name)
		return err
	})
}

func (s *handlers) modelPriceRoutes() {
	dashboard.Handle(s.Server, api.PutModelPrice, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewModelPrice]) (action.ModelSettings, error) {
		b := in.Body
		n := action.ModelPrice{Model: b.Model, Input: b.Input, Output: b.Output, Cached: b.Input, CacheWrite: b.Input}
		for at, usd := range map[*float64]*float64{&n.Cached: b.Cached, &n.CacheWrite: b.CacheWrite} {
			if usd != nil {
				*at = *usd
			}
		}
		return s.changeModels(ctx, p, "model price set", func(m *action.ModelSettings) error {
			m.Prices = put(m.Prices, n, func(o action.ModelPrice) bool { return o.Model == n.Model })
			return nil
		}, "model", n.Model)
	})
	dashboard.HandleNone(s.Server, api.DeleteModelPrice, func(ctx context.Context, p *dashboard.Principal, in *api.ByModel) error {
		_, err := s.changeModels(ctx, p, "model price removed", func(m *action.ModelSettings) error {
			return remove(&m.Prices, func(o action.ModelPrice) bool { return o.Model == in.Model }, action.NewError("model_price_not_found", in.Model))
		}, "model", in.Model)
		return err
	})
	dashboard.Handle(s.Server, api.PutModelLimit, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewModelLimit]) (action.ModelSettings, error) {
		n := action.ModelLimit(in.Body)
		n.Per = cmp.Or(n.Per, action.EachSession)
		if automation, ok := n.Automation(); ok {
			id, err := s.AutomationID(ctx, p, automation, "/scope")
			if err != nil {
				return action.ModelSettings{}, err
			}
			n.Scope = "automation:" + id
		}
		return s.changeModels(ctx, p, "model limit set", func(m *action.ModelSettings) error {
			m.Limits = put(m.Limits, n, func(o action.ModelLimit) bool { return o.Scope == n.Scope && o.Per == n.Per })
			return nil
		}, "scope", n.Scope, "per", n.Per)
	})
	dashboard.HandleNone(s.Server, api.DeleteModelLimit, func(ctx context.Context, p *dashboard.Principal, in *api.ByModelLimit) error {
		scope := in.Scope
		l := action.ModelLimit{Scope: scope}
		if automation, ok := l.Automation(); ok {
			if id, err := s.AutomationID(ctx, p, automation, "/scope"); err == nil { // limits outlive automations
				scope = "automation:" + id
			}
		}
		_, err := s.changeModels(ctx, p, "model limit removed", func(m *action.ModelSettings) error {
			return remove(&m.Limits, func(o action.ModelLimit) bool { return o.Scope == scope && o.Per == in.Per }, action.NewError("model_limit_not_found", in.Scope, in.Per))
		}, "scope", scope, "per", in.Per)
		return err
	})
}

// put replaces the item that is the same, or adds the new one.
func put[T any](list []T, item T, same func(T) bool) []T {
	if i := slices.IndexFunc(list, same); i >= 0 {
		list[i] = item
		return list
	}
	return append(list, item)
}

// remove removes an item; missing is the error without one.
func remove[T any](list *[]T, same func(T) bool, missing error) error {
	i := slices.IndexFunc(*list, same)
	if i < 0 {
		return missing
	}
	*list = slices.Delete(*list, i, i+1)
	return nil
}

func (s *handlers) modelUsage(ctx context.Context, p *dashboard.Principal, in *api.ModelUsageInput) (list api.List[action.ModelUsage], err error) {
	f := action.ModelUsageFilter{Organization: p.Organization, By: in.By, Session: in.Session}
	if f.Automation, err = s.AutomationID(ctx, p, in.Automation, "/automation"); err != nil {
		return list, err
	}
	for name, at := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		text := map[string]string{"since": in.Since, "until": in.Until}[name]
		if text == "" {
			continue
		}
		if *at, err = time.Parse(time.DateOnly, text); err != nil {
			return list, action.Errorf(action.ErrInvalid, "invalid_field", "Write the day as YYYY-MM-DD; %.40q is not of that form.", text).WithField("/" + name)
		}
	}
	rows, err := s.Models.ModelUsage(ctx, f)
	return view.ListOf(rows), err
}
