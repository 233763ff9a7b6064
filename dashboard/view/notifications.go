package view

import (
	"context"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
)

// NotifyViews lists the notification channels.
func (s *Reader) NotifyViews(ctx context.Context, organization string) ([]api.NotifyView, error) {
	all, err := s.Policy.NotifyChannels(ctx, organization)
	if err != nil {
		return nil, err
	}
	views := make([]api.NotifyView, len(all))
	for i := range all {
		if views[i], err = s.ViewNotify(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// ViewNotify returns the view of one notification channel.
func (s *Reader) ViewNotify(ctx context.Context, c *action.NotifyChannel) (api.NotifyView, error) {
	v := api.NotifyView{
		Kind: c.Kind, Enabled: c.Enabled, Wants: c.Wants, URL: c.URL, Integration: c.Integration, Channel: c.Target, Secrets: []api.SigningSecret{},
		UpdatedBy: c.UpdatedBy, UpdatedAt: c.UpdatedAt, Failures: c.Failures, LastError: render.Plain(c.LastError), LastErrorAt: c.LastErrorAt, LastSentAt: c.LastSentAt,
	}
	if c.Failures > 0 {
		v.RetryAt = c.RetryAt
	}
	if c.Kind != action.NotifyWebhook {
		return v, nil
	}
	secrets, err := s.Inbound.SigningSecrets(ctx, c.Organization, dashboard.NotifySecrets)
	v.Secrets = SigningSecrets(secrets)
	return v, err
}

// Notifications lists the newest notifications.
func (s *Reader) Notifications(ctx context.Context, organization string, limit int) ([]api.NotificationView, error) {
	all, err := s.Policy.Notifications(ctx, organization, limit)
	views := make([]api.NotificationView, len(all))
	for i, n := range all {
		views[i] = api.NotificationView{
			ID: n.ID, Kind: n.Kind, Event: n.Event, Invocation: n.Invocation, EnvRequest: n.EnvRequest, Status: n.Status, Failures: n.Attempt,
			Error: render.Plain(n.LastError), CreatedAt: n.CreatedAt, EndedAt: n.EndedAt,
		}
	}
	return views, err
}
