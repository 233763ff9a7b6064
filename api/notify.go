package api

import (
	"time"

	"sallyport/action"
)

// Routes.
var (
	ListNotify = Route[None, List[NotifyView]]{Operation{
		Method: "GET", Path: "/api/v1/notify", Who: Decider, Tag: "notify",
		Summary: "List notification channels",
	}}
	PutNotify = Route[ByNotifyKindWith[NotifyChange], MintedNotify]{Operation{
		Method: "PUT", Path: "/api/v1/notify/{kind}", Who: Decider, Tag: "notify", Status: 200, Errors: []int{404},
		Summary: "Set a notification channel",
		Doc:     "One message for each pending call, with a link and without params. Missing fields stay unchanged.",
	}}
	DeleteNotify = Route[ByNotifyKind, None]{Operation{
		Method: "DELETE", Path: "/api/v1/notify/{kind}", Who: Decider, Tag: "notify", Errors: []int{404},
		Summary: "Delete a notification channel",
	}}
	TestNotify = Route[ByNotifyKind, NotifyTest]{Operation{
		Method: "POST", Path: "/api/v1/notify/{kind}/test", Who: Decider, Tag: "notify", Status: 200, Errors: []int{404},
		Summary: "Send a test notification",
		Doc:     "Returns the answer of the endpoint, even a refusal.",
	}}
	RotateNotifySecret = Route[Body[*Rotation], MintedSecret]{Operation{
		Method: "POST", Path: "/api/v1/notify/webhook/rotate", Who: Decider, Tag: "notify", Status: 200, Errors: []int{404, 409},
		Summary: "Replace the signing secret of the notification webhook",
		Doc:     "Webhooks are also signed with the previous secrets, as long as they are kept.",
	}}
	ListNotifications = Route[None, List[NotificationView]]{Operation{
		Method: "GET", Path: "/api/v1/notifications", Who: Decider, Tag: "notify",
		Summary: "List notifications, newest first",
		Doc:     "The last 100; finished ones are kept for a week.",
	}}
)

// NotifyChange changes a channel. Missing fields stay unchanged; in a new
// channel they get their default.
type NotifyChange struct {
	Enabled     *bool              `json:"enabled,omitempty" nullable:"false" doc:"Default true." kong:"-"`
	Wants       action.NotifyWants `json:"wants,omitempty" enum:"all,danger,unattended" doc:"Calls to notify about: all (default), risk danger, or unattended sessions. Requests for environment variables are sent except with danger." kong:"enum='all,danger,unattended,',default='',help='Calls to notify about: all, danger or unattended (default: all, or unchanged).'"`
	URL         string             `json:"url,omitempty" maxLength:"2048" doc:"Webhook: https, or http on this machine. Slack: the URL of an incoming webhook, a credential that is never shown again." example:"https://example.com/held-calls" kong:"-"`
	Secret      string             `json:"secret,omitempty" minLength:"16" maxLength:"512" writeOnly:"true" doc:"Signing secret of a new webhook; missing: generated and returned." kong:"-"`
	Integration string             `json:"integration,omitempty" maxLength:"100" doc:"Slack, instead of url: ID of the integration that posts the messages." kong:"-"`
	Channel     string             `json:"channel,omitempty" maxLength:"100" doc:"Slack with integration: ID or name of the channel." example:"C0123456789" kong:"-"`
}

// NotifyView is a notification channel.
type NotifyView struct {
	Kind        action.NotifyKind  `json:"kind" enum:"webhook,slack"`
	Enabled     bool               `json:"enabled"`
	Wants       action.NotifyWants `json:"wants" enum:"all,danger,unattended"`
	URL         string             `json:"url,omitempty" doc:"Of a webhook; the Slack URL is not shown." example:"https://example.com/held-calls"`
	Integration string             `json:"integration,omitempty" doc:"Slack with integration: the channel."`
	Channel     string             `json:"channel,omitempty"`
	Secrets     []SigningSecret    `json:"secrets" nullable:"false" doc:"Signing secrets of a webhook, newest first, without their values."`
	UpdatedBy   string             `json:"updated_by"`
	UpdatedAt   time.Time          `json:"updated_at"`
	Failures    int                `json:"failures" doc:"Consecutive failures; 0: the last message succeeded, or none was sent."`
	LastError   string             `json:"last_error,omitempty" doc:"The last failure, even if later messages succeeded."`
	LastErrorAt *time.Time         `json:"last_error_at,omitempty"`
	LastSentAt  *time.Time         `json:"last_sent_at,omitempty"`
	RetryAt     *time.Time         `json:"retry_at,omitempty" doc:"Time of the next attempt, while it fails."`
}

// MintedNotify is a channel with its generated secret.
type MintedNotify struct {
	NotifyView
	Secret string `json:"secret,omitempty" doc:"A new secret, shown once." example:"whsec_…"`
}

// NotifyTest is the response of an endpoint to a test.
type NotifyTest struct {
	OK     bool   `json:"ok"`
	Status int    `json:"status,omitempty" doc:"HTTP status; missing: no answer, or an error text from Slack."`
	Detail string `json:"detail" example:"The endpoint answered 204."`
}

// NotificationView is a message about a pending call or a request for
// environment variables.
type NotificationView struct {
	ID         string              `json:"id" doc:"Of a webhook: its webhook-id."`
	Kind       action.NotifyKind   `json:"kind" enum:"webhook,slack"`
	Event      action.NotifyEvent  `json:"event" enum:"held,settled"`
	Invocation string              `json:"invocation_id,omitempty" doc:"Missing: the message is about a request for variables."`
	EnvRequest string              `json:"env_request_id,omitempty" doc:"The request for variables."`
	Status     action.NotifyStatus `json:"status" enum:"pending,sent,done,void" doc:"sent: its call is pending; done: complete; void: never sent, because its call ended first or the endpoint did not accept it."`
	Failures   int                 `json:"failures"`
	Error      string              `json:"error,omitempty"`
	CreatedAt  time.Time           `json:"created_at"`
	EndedAt    *time.Time          `json:"ended_at,omitempty"`
}

// ByNotifyKind is the parameter of a route about a channel.
type ByNotifyKind struct {
	Kind action.NotifyKind `path:"kind" enum:"webhook,slack" doc:"webhook or slack." example:"webhook" kong:"arg,enum='webhook,slack',help='Channel: webhook or slack.'"`
}
