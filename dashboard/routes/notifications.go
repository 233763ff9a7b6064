package routes

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
	"sallyport/internal/guard"
)

func (s *handlers) notifyRoutes() {
	dashboard.Handle(s.Server, api.ListNotify, listAll(s.NotifyViews))
	dashboard.Handle(s.Server, api.PutNotify, s.setNotify)
	dashboard.HandleNone(s.Server, api.DeleteNotify, func(ctx context.Context, p *dashboard.Principal, in *api.ByNotifyKind) error {
		if err := s.Policy.DeleteNotifyChannel(ctx, p.Organization, in.Kind, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "notification channel removed", "kind", in.Kind)
		return nil
	})
	dashboard.Handle(s.Server, api.TestNotify, func(ctx context.Context, p *dashboard.Principal, in *api.ByNotifyKind) (api.NotifyTest, error) {
		a, err := s.TestNotify(ctx, p.Organization, in.Kind)
		return api.NotifyTest{OK: a.OK, Status: a.Status, Detail: render.Plain(a.Detail)}, err
	})
	dashboard.Handle(s.Server, api.RotateNotifySecret, func(ctx context.Context, p *dashboard.Principal, in *api.Body[*api.Rotation]) (api.MintedSecret, error) {
		return s.rotate(ctx, p, dashboard.NotifySecrets, in.Body, true)
	})
	dashboard.Handle(s.Server, api.ListNotifications, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[api.NotificationView], error) {
		views, err := s.Notifications(ctx, p.Organization, 100)
		return view.ListOf(views), err
	})
}

func (s *handlers) setNotify(ctx context.Context, p *dashboard.Principal, in *api.ByNotifyKindWith[api.NotifyChange]) (api.MintedNotify, error) {
	c, err := s.Policy.NotifyChannel(ctx, p.Organization, in.Kind)
	known := err == nil
	switch {
	case errors.Is(err, action.ErrNotFound):
		c = action.NotifyChannel{Organization: p.Organization, Kind: in.Kind, Enabled: true, Wants: action.WantsAll}
	case err != nil:
		return api.MintedNotify{}, err
	}
	setIfGiven(&c.Enabled, in.Body.Enabled)
	c.Wants = action.NotifyWants(cmp.Or(string(in.Body.Wants), string(c.Wants)))
	c.UpdatedBy = p.By()
	var secret *event.Secret
	shown := ""
	if in.Kind == action.NotifySlack {
		err = s.slackChannel(ctx, p, &c, &in.Body)
	} else {
		secret, shown, err = s.webhookChannel(ctx, &c, &in.Body, known)
	}
	if err != nil {
		return api.MintedNotify{}, err
	}
	if c, err = s.Policy.SetNotifyChannel(ctx, c, secret); err != nil {
		return api.MintedNotify{}, err
	}
	s.policyChanged(ctx, p, "notification channel set", "kind", in.Kind, "enabled", c.Enabled, "wants", c.Wants)
	v, err := s.ViewNotify(ctx, &c)
	return api.MintedNotify{NotifyView: v, Secret: shown}, err
}

// webhookChannel applies the URL and creates the first secret of a webhook.
func (s *handlers) webhookChannel(ctx context.Context, c *action.NotifyChannel, n *api.NotifyChange, known bool) (*event.Secret, string, error) {
	if n.Integration != "" || n.Channel != "" {
		return nil, "", dashboard.Invalid("/integration", "integration and channel are for Slack. For a webhook, send url.")
	}
	if c.URL = cmp.Or(n.URL, c.URL); c.URL == "" {
		return nil, "", dashboard.Invalid("/url", "Send the url that receives the notifications.")
	}
	u, err := guard.CheckURL(c.URL)
	switch {
	case err != nil:
		return nil, "", err
	case u.Scheme != "https" && !guard.Loopback(u):
		return nil, "", dashboard.Invalid("/url", "url must be https, or http on this machine, because notifications describe what agents do.")
	}
	if n.URL != "" { // an earlier URL can always be disabled
		if err := s.Guard.CheckReach(ctx, u); err != nil {
			return nil, "", err
		}
	}
	switch {
	case known && n.Secret != "":
		return nil, "", dashboard.Invalid("/secret", "The webhook already has a secret. Leave secret out; to replace it, use POST /api/v1/notify/webhook/rotate.")
	case known:
		return nil, "", nil
	}
	secret, shown, err := s.newSecret(c.Organization, n.Secret, true)
	return &secret, shown, err
}

// slackChannel applies either the URL of an incoming webhook or an integration
// with a channel. Each replaces the other.
func (s *handlers) slackChannel(ctx context.Context, p *dashboard.Principal, c *action.NotifyChannel, n *api.NotifyChange) error {
	switch {
	case n.Secret != "":
		return dashboard.Invalid("/secret", "Slack messages are not signed. Leave secret out.")
	case n.URL != "" && n.Integration+n.Channel != "":
		return dashboard.Invalid("/url", "Send either url, or integration and channel, not both.")
	case n.URL != "":
		u, err := guard.CheckURL(n.URL)
		if err != nil {
			return err
		}
		if (u.Scheme != "https" || u.Host != "hooks.slack.com" && u.Host != "hooks.slack-gov.com") && !guard.Loopback(u) {
			return dashboard.Invalid("/url", "The URL of an incoming Slack webhook starts with https://hooks.slack.com/.")
		}
		c.Integration, c.Target = "", ""
		c.Sealed, err = s.Vault.Seal(action.Ref{Organization: c.Organization, Table: "notify_channels", Row: string(action.NotifySlack), Column: "sealed"}, []byte(n.URL))
		return err
	}
	c.Integration, c.Target = cmp.Or(n.Integration, c.Integration), cmp.Or(n.Channel, c.Target)
	switch {
	case c.Integration == "" && c.Target == "" && c.Sealed != nil:
		return nil
	case c.Integration == "":
		return dashboard.Invalid("/url", "Send the url of an incoming Slack webhook, or an integration and a channel.")
	case c.Target == "" || strings.ContainsFunc(c.Target, func(r rune) bool { return r <= ' ' || r > '~' }):
		return dashboard.Invalid("/channel", "Send the ID of the channel, such as C0123456789, or its name.")
	}
	c.Sealed = nil
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(in action.Integration) bool { return in.ID == c.Integration })
	if i < 0 || all[i].Provider != "slack" || all[i].User != "" || all[i].Visibility != action.VisibleOrganization {
		return dashboard.Invalid("/integration", "integration must be the ID of a Slack integration that is visible to the organization. GET /api/v1/integrations lists them.")
	}
	return nil
}
