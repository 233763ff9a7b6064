package dashboard

import (
	"context"
	"net/http"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// NotifyChange is what may change of a channel. What is absent stays; of a new
// channel it is the default.
type NotifyChange struct {
	Enabled     *bool              `json:"enabled,omitempty" nullable:"false" doc:"Default true."`
	Wants       action.NotifyWants `json:"wants,omitempty" enum:"all,danger,unattended" doc:"Which held calls are told of: all (the default), those of the risk danger, or those of unattended sessions. Requests for environment variables are told of but with danger."`
	URL         string             `json:"url,omitempty" maxLength:"2048" doc:"Of a webhook: https, or http on this machine. Of Slack: that of an incoming webhook, which is a credential and never shown again." example:"https://example.com/held-calls"`
	Secret      string             `json:"secret,omitempty" minLength:"16" maxLength:"512" writeOnly:"true" doc:"Of a new webhook: what it is signed with; absent: one is made and answered."`
	Integration string             `json:"integration,omitempty" maxLength:"100" doc:"Of Slack, instead of url: the id of an integration, by whose token messages are posted."`
	Channel     string             `json:"channel,omitempty" maxLength:"100" doc:"Of Slack, with integration: the channel's id, or its name." example:"C0123456789"`
}

// NotifyView is where held calls are told of.
type NotifyView struct {
	Kind        action.NotifyKind  `json:"kind" enum:"webhook,slack"`
	Enabled     bool               `json:"enabled"`
	Wants       action.NotifyWants `json:"wants" enum:"all,danger,unattended"`
	URL         string             `json:"url,omitempty" doc:"Of a webhook; that of Slack is not shown." example:"https://example.com/held-calls"`
	Integration string             `json:"integration,omitempty" doc:"Of Slack, where messages are posted by its token."`
	Channel     string             `json:"channel,omitempty"`
	Secrets     []SigningSecret    `json:"secrets" nullable:"false" doc:"Of a webhook: those that sign, the newest first, without their values."`
	UpdatedBy   string             `json:"updated_by"`
	UpdatedAt   time.Time          `json:"updated_at"`
	Failures    int                `json:"failures" doc:"In a row; 0: the last message was taken, or none was sent."`
	LastError   string             `json:"last_error,omitempty" doc:"Of the last failure, also when a message was taken since."`
	LastErrorAt *time.Time         `json:"last_error_at,omitempty"`
	LastSentAt  *time.Time         `json:"last_sent_at,omitempty"`
	RetryAt     *time.Time         `json:"retry_at,omitempty" doc:"When it is tried again, while it fails."`
}

// MintedNotify is a channel, with the secret that was made for it.
type MintedNotify struct {
	NotifyView
	Secret string `json:"secret,omitempty" doc:"Shown once, where it is new." example:"whsec_…"`
}

// NotifyTest is what an endpoint answered to a test.
type NotifyTest struct {
	OK     bool   `json:"ok"`
	Status int    `json:"status,omitempty" doc:"Of HTTP; absent: there was no answer, or Slack said it in words."`
	Detail string `json:"detail" example:"The endpoint answered 204."`
}

// NotificationView is one message about one held call, or about one request for
// environment variables.
type NotificationView struct {
	ID         string              `json:"id" doc:"Of a webhook, its webhook-id."`
	Kind       action.NotifyKind   `json:"kind" enum:"webhook,slack"`
	Event      action.NotifyEvent  `json:"event" enum:"held,settled"`
	Invocation string              `json:"invocation_id,omitempty" doc:"Absent: it is about a request for variables."`
	EnvRequest string              `json:"env_request_id,omitempty" doc:"The request for variables that it is about."`
	Status     action.NotifyStatus `json:"status" enum:"pending,sent,done,void" doc:"sent: and its call waits; done: and all is said; void: it was never sent, since its call ended before, or the endpoint never took it."`
	Failures   int                 `json:"failures"`
	Error      string              `json:"error,omitempty"`
	CreatedAt  time.Time           `json:"created_at"`
	EndedAt    *time.Time          `json:"ended_at,omitempty"`
}

// ByNotifyKind is the parameter of a route about a channel.
type ByNotifyKind struct {
	Kind action.NotifyKind `path:"kind" enum:"webhook,slack" doc:"webhook or slack." example:"webhook"`
}

func (s *Server) notifyRoutes() {
	const path = "/api/v1/notify"
	register(s, route{
		method: "GET", path: path, tag: "notify", summary: "List where approvers hear of held calls",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[NotifyView]], error) {
		views, err := s.notifyViews(ctx, p.Organization)
		return listOf(views), err
	})
	register(s, route{
		method: "PUT", path: path + "/{kind}", tag: "notify", summary: "Have approvers hear of held calls", status: http.StatusOK,
		doc:    "One message for each call that waits for a person, with a link to it, and never its params. What is absent stays as it is.",
		errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByNotifyKind
		Body NotifyChange
	},
	) (*body[MintedNotify], error) {
		v, err := s.setNotify(ctx, p, in.Kind, in.Body)
		return bodyOf(v), err
	})
	register(s, route{
		method: "DELETE", path: path + "/{kind}", tag: "notify", summary: "Tell nobody of held calls this way any more", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, p *Principal, in *ByNotifyKind) (*empty, error) {
		if err := s.Notify.DeleteNotifyChannel(ctx, p.Organization, in.Kind, p.By()); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "notifications removed", "kind", in.Kind)
		return nil, nil
	})
	register(s, route{
		method: "POST", path: path + "/{kind}/test", tag: "notify", summary: "Send a test message now", status: http.StatusOK,
		doc: "Answers what the endpoint answered, also when it refused.", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, p *Principal, in *ByNotifyKind) (*body[NotifyTest], error) {
		a, err := s.TestNotify(ctx, p.Organization, in.Kind)
		return bodyOf(NotifyTest{OK: a.OK, Status: a.Status, Detail: plain(a.Said)}), err
	})
	register(s, route{
		method: "POST", path: path + "/webhook/rotate", tag: "notify", summary: "Replace the secret that signs webhooks of held calls", status: http.StatusOK,
		doc: "Webhooks are signed with those before, too, as long as they are kept.", errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct{ Body *Rotation }) (*body[MintedSecret], error) {
		secret, err := s.rotate(ctx, p, NotifySecrets, in.Body, true)
		return bodyOf(secret), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/notifications", tag: "notify", summary: "List what approvers were told, newest first",
		doc: "The newest 100; those that ended are kept for a week.",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[NotificationView]], error) {
		views, err := s.notifications(ctx, p.Organization, 100)
		return listOf(views), err
	})
}

func (s *Server) notifyViews(ctx context.Context, organization string) ([]NotifyView, error) {
	all, err := s.Notify.NotifyChannels(ctx, organization)
	if err != nil {
		return nil, err
	}
	views := make([]NotifyView, len(all))
	for i := range all {
		if views[i], err = s.viewNotify(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return views, nil
}

func (s *Server) viewNotify(ctx context.Context, c *action.NotifyChannel) (NotifyView, error) {
	v := NotifyView{
		Kind: c.Kind, Enabled: c.Enabled, Wants: c.Wants, URL: c.URL, Integration: c.Integration, Channel: c.Target, Secrets: []SigningSecret{},
		UpdatedBy: c.UpdatedBy, UpdatedAt: c.UpdatedAt, Failures: c.Failures, LastError: plain(c.LastError), LastErrorAt: c.LastErrorAt, LastSentAt: c.LastSentAt,
	}
	if c.Failures > 0 {
		v.RetryAt = c.RetryAt
	}
	if c.Kind != action.NotifyWebhook {
		return v, nil
	}
	secrets, err := s.Triggers.SigningSecrets(ctx, c.Organization, NotifySecrets)
	v.Secrets = signingSecrets(secrets)
	return v, err
}

func (s *Server) notifications(ctx context.Context, organization string, limit int) ([]NotificationView, error) {
	all, err := s.Notify.Notifications(ctx, organization, limit)
	views := make([]NotificationView, len(all))
	for i, n := range all {
		views[i] = NotificationView{
			ID: n.ID, Kind: n.Kind, Event: n.Event, Invocation: n.Invocation, EnvRequest: n.EnvRequest, Status: n.Status, Failures: n.Attempt,
			Error: plain(n.LastError), CreatedAt: n.CreatedAt, EndedAt: n.EndedAt,
		}
	}
	return views, err
}

func (s *Server) setNotify(ctx context.Context, p *Principal, kind action.NotifyKind, n NotifyChange) (MintedNotify, error) {
	c, known, err := s.notifyChannel(ctx, p.Organization, kind)
	if err != nil {
		return MintedNotify{}, err
	}
	set(&c.Enabled, n.Enabled)
	c.Wants = action.NotifyWants(or(string(n.Wants), string(c.Wants)))
	c.UpdatedBy = p.By()
	var secret *event.Secret
	shown := ""
	if kind == action.NotifySlack {
		err = s.toSlack(ctx, p, &c, &n)
	} else {
		secret, shown, err = s.toWebhook(ctx, &c, &n, known)
	}
	if err != nil {
		return MintedNotify{}, err
	}
	if c, err = s.Notify.SetNotifyChannel(ctx, c, secret); err != nil {
		return MintedNotify{}, err
	}
	s.changed(ctx, p, "notifications set", "kind", kind, "enabled", c.Enabled, "wants", c.Wants)
	v, err := s.viewNotify(ctx, &c)
	return MintedNotify{NotifyView: v, Secret: shown}, err
}
