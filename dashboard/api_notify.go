package dashboard

import (
	"cmp"
	"context"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

func (s *Server) notifyRoutes() {
	handle(s, api.ListNotify, func(ctx context.Context, p *Principal, _ *api.None) (api.List[api.NotifyView], error) {
		views, err := s.notifyViews(ctx, p.Organization)
		return listOf(views), err
	})
	handle(s, api.PutNotify, func(ctx context.Context, p *Principal, in *api.ByNotifyKindWith[api.NotifyChange]) (api.MintedNotify, error) {
		return s.setNotify(ctx, p, in.Kind, in.Body)
	})
	handleNone(s, api.DeleteNotify, func(ctx context.Context, p *Principal, in *api.ByNotifyKind) error {
		if err := s.Policy.DeleteNotifyChannel(ctx, p.Organization, in.Kind, p.By()); err != nil {
			return err
		}
		s.changed(ctx, p, "notifications removed", "kind", in.Kind)
		return nil
	})
	handle(s, api.TestNotify, func(ctx context.Context, p *Principal, in *api.ByNotifyKind) (api.NotifyTest, error) {
		a, err := s.TestNotify(ctx, p.Organization, in.Kind)
		return api.NotifyTest{OK: a.OK, Status: a.Status, Detail: plain(a.Said)}, err
	})
	handle(s, api.RotateNotifySecret, func(ctx context.Context, p *Principal, in *api.Body[*api.Rotation]) (api.MintedSecret, error) {
		return s.rotate(ctx, p, NotifySecrets, in.Body, true)
	})
	handle(s, api.ListNotifications, func(ctx context.Context, p *Principal, _ *api.None) (api.List[api.NotificationView], error) {
		views, err := s.notifications(ctx, p.Organization, 100)
		return listOf(views), err
	})
}

func (s *Server) notifyViews(ctx context.Context, organization string) ([]api.NotifyView, error) {
	all, err := s.Policy.NotifyChannels(ctx, organization)
	if err != nil {
		return nil, err
	}
	views := make([]api.NotifyView, len(all))
	for i := range all {
		if views[i], err = s.viewNotify(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return views, nil
}

func (s *Server) viewNotify(ctx context.Context, c *action.NotifyChannel) (api.NotifyView, error) {
	v := api.NotifyView{
		Kind: c.Kind, Enabled: c.Enabled, Wants: c.Wants, URL: c.URL, Integration: c.Integration, Channel: c.Target, Secrets: []api.SigningSecret{},
		UpdatedBy: c.UpdatedBy, UpdatedAt: c.UpdatedAt, Failures: c.Failures, LastError: plain(c.LastError), LastErrorAt: c.LastErrorAt, LastSentAt: c.LastSentAt,
	}
	if c.Failures > 0 {
		v.RetryAt = c.RetryAt
	}
	if c.Kind != action.NotifyWebhook {
		return v, nil
	}
	secrets, err := s.Inbound.SigningSecrets(ctx, c.Organization, NotifySecrets)
	v.Secrets = signingSecrets(secrets)
	return v, err
}

func (s *Server) notifications(ctx context.Context, organization string, limit int) ([]api.NotificationView, error) {
	all, err := s.Policy.Notifications(ctx, organization, limit)
	views := make([]api.NotificationView, len(all))
	for i, n := range all {
		views[i] = api.NotificationView{
			ID: n.ID, Kind: n.Kind, Event: n.Event, Invocation: n.Invocation, EnvRequest: n.EnvRequest, Status: n.Status, Failures: n.Attempt,
			Error: plain(n.LastError), CreatedAt: n.CreatedAt, EndedAt: n.EndedAt,
		}
	}
	return views, err
}

func (s *Server) setNotify(ctx context.Context, p *Principal, kind action.NotifyKind, n api.NotifyChange) (api.MintedNotify, error) {
	c, known, err := s.notifyChannel(ctx, p.Organization, kind)
	if err != nil {
		return api.MintedNotify{}, err
	}
	set(&c.Enabled, n.Enabled)
	c.Wants = action.NotifyWants(cmp.Or(string(n.Wants), string(c.Wants)))
	c.UpdatedBy = p.By()
	var secret *event.Secret
	shown := ""
	if kind == action.NotifySlack {
		err = s.toSlack(ctx, p, &c, &n)
	} else {
		secret, shown, err = s.toWebhook(ctx, &c, &n, known)
	}
	if err != nil {
		return api.MintedNotify{}, err
	}
	if c, err = s.Policy.SetNotifyChannel(ctx, c, secret); err != nil {
		return api.MintedNotify{}, err
	}
	s.changed(ctx, p, "notifications set", "kind", kind, "enabled", c.Enabled, "wants", c.Wants)
	v, err := s.viewNotify(ctx, &c)
	return api.MintedNotify{NotifyView: v, Secret: shown}, err
}
