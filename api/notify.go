package api

import (
	"time"

	"sallyport/action"
)

// Routes.
var (
	ListNotify = Route[None, List[NotifyView]]{Operation{
		Method: "GET", Path: "/api/v1/notify", Who: Decider, Tag: "notify",
		Summary: "List where approvers hear of held calls",
	}}
	PutNotify = Route[ByNotifyKindWith[NotifyChange], MintedNotify]{Operation{
		Method: "PUT", Path: "/api/v1/notify/{kind}", Who: Decider, Tag: "notify", Status: 200, Errors: []int{404},
		Summary: "Have approvers hear of held calls",
		Doc:     "One message for each call that waits for a person, with a link to it, and never its params. What is absent stays as it is.",
	}}
	DeleteNotify = Route[ByNotifyKind, None]{Operation{
		Method: "DELETE", Path: "/api/v1/notify/{kind}", Who: Decider, Tag: "notify", Errors: []int{404},
		Summary: "Tell nobody of held calls this way any more",
	}}
	TestNotify = Route[ByNotifyKind, NotifyTest]{Operation{
		Method: "POST", Path: "/api/v1/notify/{kind}/test", Who: Decider, Tag: "notify", Status: 200, Errors: []int{404},
		Summary: "Send a test message now",
		Doc:     "Answers what the endpoint answered, also when it refused.",
	}}
	RotateNotifySecret = Route[Body[*Rotation], MintedSecret]{Operation{
		Method: "POST", Path: "/api/v1/notify/webhook/rotate", Who: Decider, Tag: "notify", Status: 200, Errors: []int{404, 409},
		Summary: "Replace the secret that signs webhooks of held calls",
		Doc:     "Webhooks are signed with those before, too, as long as they are kept.",
	}}
	ListNotifications = Route[None, List[NotificationView]]{Operation{
		Method: "GET", Path: "/api/v1/notifications", Who: Decider, Tag: "notify",
		Summary: "List what approvers were told, newest first",
		Doc:     "The newest 100; those that ended are kept for a week.",
	}}
)

// NotifyChange is what may change of a channel. What is absent stays; of a new
// channel it is the default.
type NotifyChange struct {
	Enabled     *bool              `json:"enabled,omitempty" nullable:"false" doc:"Default true." kong:"-"`
	Wants       action.NotifyWants `json:"wants,omitempty" enum:"all,danger,unattended" doc:"Which held calls are told of: all (the default), those of the risk danger, or those of unattended sessions. Requests for environment variables are told of but with danger." kong:"enum='all,danger,unattended,',default='',help='Calls to notify about: all, danger or unattended (default: all, or unchanged).'"`
	URL         string             `json:"url,omitempty" maxLength:"2048" doc:"Of a webhook: https, or http on this machine. Of Slack: that of an incoming webhook, which is a credential and never shown again." example:"https://example.com/held-calls" kong:"-"`
	Secret      string             `json:"secret,omitempty" minLength:"16" maxLength:"512" writeOnly:"true" doc:"Of a new webhook: what it is signed with; absent: one is made and answered." kong:"-"`
	Integration string             `json:"integration,omitempty" maxLength:"100" doc:"Of Slack, instead of url: the id of an integration, by whose token messages are posted." kong:"-"`
	Channel     string             `json:"channel,omitempty" maxLength:"100" doc:"Of Slack, with integration: the channel's id, or its name." example:"C0123456789" kong:"-"`
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
	Kind action.NotifyKind `path:"kind" enum:"webhook,slack" doc:"webhook or slack." example:"webhook" kong:"arg,enum='webhook,slack',help='Channel: webhook or slack.'"`
}
