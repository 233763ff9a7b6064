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
	dashboard.Handle(s.Server, api.ListNotify, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[api.NotifyView], error) {
		views, err := s.NotifyViews(ctx, p.Organization)
		return view.ListOf(views), err
	})
	dashboard.Handle(s.Server, api.PutNotify, func(ctx context.Context, p *dashboard.Principal, in *api.ByNotifyKindWith[api.NotifyChange]) (api.MintedNotify, error) {
		return s.setNotify(ctx, p, in.Kind, in.Body)
	})
	dashboard.HandleNone(s.Server, api.DeleteNotify, func(ctx context.Context, p *dashboard.Principal, in *api.ByNotifyKind) error {
		if err := s.Policy.DeleteNotifyChannel(ctx, p.Organization, in.Kind, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "notifications removed", "kind", in.Kind)
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

func (s *handlers) setNotify(ctx context.Context, p *dashboard.Principal, kind action.NotifyKind, n api.NotifyChange) (api.MintedNotify, error) {
	c, known, err := s.notifyChannel(ctx, p.Organization, kind)
	if err != nil {
		return api.MintedNotify{}, err
	}
	setIfGiven(&c.Enabled, n.Enabled)
	c.Wants = action.NotifyWants(cmp.Or(string(n.Wants), string(c.Wants)))
	c.UpdatedBy = p.By()
	var secret *event.Secret
	shown := ""
	if kind == action.NotifySlack {
		err = s.slackChannel(ctx, p, &c, &n)
	} else {
		secret, shown, err = s.webhookChannel(ctx, &c, &n, known)
	}
	if err != nil {
		return api.MintedNotify{}, err
	}
	if c, err = s.Policy.SetNotifyChannel(ctx, c, secret); err != nil {
		return api.MintedNotify{}, err
	}
	s.policyChanged(ctx, p, "notifications set", "kind", kind, "enabled", c.Enabled, "wants", c.Wants)
	v, err := s.ViewNotify(ctx, &c)
	return api.MintedNotify{NotifyView: v, Secret: shown}, err
}

// notifyChannel returns the channel of a kind, or a new one with the defaults.
func (s *handlers) notifyChannel(ctx context.Context, organization string, kind action.NotifyKind) (c action.NotifyChannel, known bool, err error) {
	c, err = s.Policy.NotifyChannel(ctx, organization, kind)
	if errors.Is(err, action.ErrNotFound) {
		return action.NotifyChannel{Organization: organization, Kind: kind, Enabled: true, Wants: action.WantsAll}, false, nil
	}
	return c, err == nil, err
}

// webhookChannel applies the URL and creates the first secret of a webhook.
func (s *handlers) webhookChannel(ctx context.Context, c *action.NotifyChannel, n *api.NotifyChange, known bool) (*event.Secret, string, error) {
	if n.Integration != "" || n.Channel != "" {
		return nil, "", dashboard.Invalid("/integration", "integration and channel are of Slack; a webhook has a url.")
	}
	if c.URL = cmp.Or(n.URL, c.URL); c.URL == "" {
		return nil, "", dashboard.Invalid("/url", "Send the url that held calls are told to.")
	}
	u, err := guard.CheckURL(c.URL)
	switch {
	case err != nil:
		return nil, "", err
	case u.Scheme != "https" && !guard.Loopback(u):
		return nil, "", dashboard.Invalid("/url", "url must be https, or http on this machine: others could read what agents ask for.")
	}
	if n.URL != "" { // an earlier URL can always be disabled
		if err := s.Guard.CheckReach(ctx, u); err != nil {
			return nil, "", err
		}
	}
	switch {
	case known && n.Secret != "":
		return nil, "", dashboard.Invalid("/secret", "The webhook has a secret already; leave secret out, and replace it with POST /api/v1/notify/webhook/rotate.")
	case known:
		return nil, "", nil
	}
	secret, shown, err := s.newSecret(c.Organization, n.Secret, true)
	return &secret, shown, err
}

// slackHooks are the hosts of Slack's incoming webhooks.
var slackHooks = []string{"hooks.slack.com", "hooks.slack-gov.com"}

// slackChannel applies either the URL of an incoming webhook or an integration
// with a channel. Each replaces the other.
func (s *handlers) slackChannel(ctx context.Context, p *dashboard.Principal, c *action.NotifyChannel, n *api.NotifyChange) error {
	switch {
	case n.Secret != "":
		return dashboard.Invalid("/secret", "Messages of Slack are not signed; leave secret out.")
	case n.URL != "" && n.Integration+n.Channel != "":
		return dashboard.Invalid("/url", "Send the url of an incoming webhook, or integration and channel, and not both.")
	case n.URL != "":
		return s.slackWebhookChannel(c, n.URL)
	}
	c.Integration, c.Target = cmp.Or(n.Integration, c.Integration), cmp.Or(n.Channel, c.Target)
	switch {
	case c.Integration == "" && c.Target == "" && c.Sealed != nil:
		return nil
	case c.Integration == "":
		return dashboard.Invalid("/url", "Send the url of an incoming webhook of Slack, or the integration and the channel to post to.")
	case c.Target == "" || strings.ContainsFunc(c.Target, func(r rune) bool { return r <= ' ' || r > '~' }):
		return dashboard.Invalid("/channel", "Send the id of the channel, such as C0123456789, or its name.")
	}
	c.Sealed = nil
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(in action.Integration) bool { return in.ID == c.Integration })
	if i < 0 || all[i].Provider != "slack" || all[i].User != "" || all[i].Visibility != action.VisibleOrganization {
		return dashboard.Invalid("/integration", "integration must be the id of a Slack integration that the whole organization sees; GET /api/v1/integrations lists them.")
	}
	return nil
}

func (s *handlers) slackWebhookChannel(c *action.NotifyChannel, text string) (err error) {
	u, err := guard.CheckURL(text)
	if err != nil {
		return err
	}
	if (u.Scheme != "https" || !slices.Contains(slackHooks, u.Host)) && !guard.Loopback(u) {
		return dashboard.Invalid("/url", "The URL of an incoming webhook of Slack begins with https://hooks.slack.com/.")
	}
	c.Integration, c.Target = "", ""
	c.Sealed, err = s.Vault.Seal(action.Ref{Organization: c.Organization, Table: "notify_channels", Row: string(action.NotifySlack), Column: "sealed"}, []byte(text))
	return err
}
