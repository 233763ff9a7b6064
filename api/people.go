package api

import (
	"time"

	"sallyport/action"
)

// Routes.
var (
	ListKeys = Route[None, List[action.APIKey]]{Operation{
		Method: "GET", Path: "/api/v1/api-keys", Who: Member, Tag: "api keys",
		Summary: "List API keys",
	}}
	CreateKey = Route[Body[NewKey], MintedKey]{Operation{
		Method: "POST", Path: "/api/v1/api-keys", Who: Decider, Tag: "api keys", Status: 201,
		Summary: "Create an API key",
		Doc:     "It acts as its creator, with at most the given role and never more than the creator's own.",
	}}
	RevokeKey = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/api-keys/{id}", Who: Decider, Tag: "api keys",
		Summary: "Revoke an API key",
	}}
	ListLogins = Route[None, List[LoginView]]{Operation{
		Method: "GET", Path: "/api/v1/me/logins", Who: Member, Tag: "users",
		Summary: "List your sign-ins",
	}}
	EndLogins = Route[None, EndedLogins]{Operation{
		Method: "DELETE", Path: "/api/v1/me/logins", Who: Member, Tag: "users", Status: 200,
		Summary: "Sign out everywhere",
		Doc:     "Ends all your sign-ins, including this one, and your unused links. API keys stay.",
	}}
	EndLogin = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/me/logins/{id}", Who: Member, Tag: "users",
		Summary: "End one of your sign-ins",
	}}
	CreateOwnLoginLink = Route[None, Link]{Operation{
		Method: "POST", Path: "/api/v1/me/login-link", Who: Hosted, Tag: "users", Status: 201,
		Summary: "Create a sign-in link for the user of a host application",
		Doc:     "For a token of a host application (`Authorization: Bearer <JWT>` with sub, org and role). The application redirects the user's browser to the link, which works once, within ten minutes.",
	}}
	EndUserLogins = Route[ByID, EndedLogins]{Operation{
		Method: "DELETE", Path: "/api/v1/users/{id}/logins", Who: Decider, Tag: "users", Status: 200,
		Summary: "Sign a person out everywhere",
		Doc:     "Ends the person's sign-ins and unused links. API keys stay.",
	}}
	ListRemovedUsers = Route[None, List[action.RemovedUser]]{Operation{
		Method: "GET", Path: "/api/v1/removed-users", Who: Decider, Tag: "users",
		Summary: "List removed people",
		Doc:     "People from an OpenID provider or host application could return at their next sign-in; removed ones cannot.",
	}}
	ReadmitUser = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/removed-users/{id}", Who: Decider, Tag: "users",
		Summary: "Let a removed person sign in again",
		Doc:     "At the next sign-in, as a new person. Only an owner can readmit an owner.",
	}}
	GetMe = Route[None, Me]{Operation{
		Method: "GET", Path: "/api/v1/me", Who: Anyone, Tag: "users",
		Summary: "Get the caller's identity",
	}}
	ListUsers = Route[None, List[action.User]]{Operation{
		Method: "GET", Path: "/api/v1/users", Who: Member, Tag: "users",
		Summary: "List people",
	}}
	CreateUser = Route[Body[NewUser], action.User]{Operation{
		Method: "POST", Path: "/api/v1/users", Who: Decider, Tag: "users", Status: 201,
		Summary: "Add a person",
	}}
	UpdateUserRole = Route[ByIDWith[RoleChange], action.User]{Operation{
		Method: "PATCH", Path: "/api/v1/users/{id}", Who: Decider, Tag: "users", Errors: []int{409},
		Summary: "Change the role of a person",
		Doc:     "The last owner cannot change.",
	}}
	DeleteUser = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/users/{id}", Who: Decider, Tag: "users", Errors: []int{409},
		Summary: "Remove a person",
		Doc:     "The person's sign-ins and API keys stop working, and integrations that only this person could use are disconnected. The last owner cannot be removed.",
	}}
	CreateLoginLink = Route[ByID, Link]{Operation{
		Method: "POST", Path: "/api/v1/users/{id}/login-link", Who: Decider, Tag: "users", Status: 201,
		Summary: "Create a sign-in link for a person",
		Doc:     "It works once, within ten minutes, in one browser.",
	}}
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

// NewKey is an API key to create.
type NewKey struct {
	Name     string          `json:"name" minLength:"1" maxLength:"120" example:"deploy script" kong:"arg,help='Name of the key.'"`
	Role     action.Role     `json:"role,omitempty" enum:"owner,admin,member" doc:"Default member; at most the creator's own role." kong:"default='member',help='Role of the key, at most your own: owner, admin or member (default: member).'"`
	Scope    action.KeyScope `json:"scope,omitempty" enum:"runs" doc:"Only for workers: the key claims and works on runs as long as its creator is an owner or admin, and does nothing else. Its role is member." kong:"enum='runs,',default='',help='Limit the key to workers: runs can be claimed, renewed and finished, nothing else.'"`
	Lifetime `kong:"-"`
}

// MintedKey is a new API key, shown once.
type MintedKey struct {
	action.APIKey
	Key string `json:"key" doc:"Shown once; only a hash is stored." example:"spk_…"`
}

// LoginView is a browser sign-in.
type LoginView struct {
	ID        string     `json:"id" example:"0199a3c4-5d6e-7f80-9123-456789abcdef"`
	Via       action.Via `json:"via" enum:"link,oidc,host" doc:"link: a one-time link; oidc: the OpenID provider; host: a token of the host application."`
	CreatedAt time.Time  `json:"created_at"`
	SeenAt    time.Time  `json:"seen_at" doc:"With a precision of a minute."`
	ExpiresAt time.Time  `json:"expires_at" doc:"Earlier if it is not used; see ends_idle_at."`
	IdleAt    time.Time  `json:"ends_idle_at" doc:"When it ends unless it is used before."`
	Current   bool       `json:"current" doc:"The sign-in of this request."`
}

// EndedLogins is the number of ended sign-ins.
type EndedLogins struct {
	Ended int `json:"ended" example:"2"`
}

// Me is the caller's identity.
type Me struct {
	Kind         string          `json:"kind" enum:"session,person" example:"person"`
	Organization string          `json:"organization_id"`
	Session      string          `json:"session_id,omitempty"`
	SessionKind  string          `json:"session_kind,omitempty" example:"interactive"`
	SessionType  string          `json:"session_type,omitempty" example:"coding"`
	Model        string          `json:"model,omitempty" doc:"Model of the session, or the organization's default." example:"claude-opus-4.6"`
	SmallModel   string          `json:"small_model,omitempty" doc:"The organization's model for titles and summaries." example:"anthropic/claude-haiku-4-5"`
	Models       []ModelDoor     `json:"models,omitempty" doc:"Providers of models that sessions reach through the gateway."`
	User         string          `json:"user_id,omitempty"`
	Name         string          `json:"name,omitempty" example:"Ada"`
	Role         action.Role     `json:"role,omitempty"`
	Scope        action.KeyScope `json:"scope,omitempty" doc:"The scope of an API key."`
	MCPURL       string          `json:"mcp_url" doc:"MCP URL of this gateway." example:"http://127.0.0.1:8787/mcp"`
}

// ModelDoor is where sessions reach a provider of models.
type ModelDoor struct {
	Name    string              `json:"name" example:"anthropic"`
	Dialect action.ModelDialect `json:"dialect" example:"anthropic"`
	URL     string              `json:"url" doc:"Base URL, to which a path such as /v1/messages is appended. The session token takes the place of the API key." example:"http://127.0.0.1:8787/llm/anthropic"`
}

// NewUser is a person to add.
type NewUser struct {
	Name string      `json:"name" minLength:"1" maxLength:"120" example:"Ada" kong:"arg,help='Name of the person.'"`
	Role action.Role `json:"role,omitempty" enum:"owner,admin,member" doc:"Default member." kong:"default='member',help='Role: owner, admin or member (default: member).'"`
}

// RoleChange is a person's new role.
type RoleChange struct {
	Role action.Role `json:"role" enum:"owner,admin,member" kong:"arg,help='Role: owner, admin or member.'"`
}

// Link is a sign-in link for a person.
type Link struct {
	URL       string    `json:"url" doc:"Works once, within ten minutes."`
	ExpiresAt time.Time `json:"expires_at"`
}

// NotifyChange changes a channel. Missing fields stay unchanged; in a new
// channel they get their default.
type NotifyChange struct {
	Enabled     *bool              `json:"enabled,omitempty" nullable:"false" doc:"Default true." kong:"-"`
	Wants       action.NotifyWants `json:"wants,omitempty" enum:"all,danger,unattended" doc:"Calls to notify about: all (default), risk danger, or unattended sessions. Requests for grants and environment variables are sent except with danger; so are runs that need attention." kong:"enum='all,danger,unattended,',default='',help='Calls to notify about: all, danger or unattended (default: all, or unchanged).'"`
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

// NotificationView is a message about a pending call, a request, or a run that needs
// attention: one of the IDs is set.
type NotificationView struct {
	ID           string              `json:"id" doc:"Of a webhook: its webhook-id."`
	Kind         action.NotifyKind   `json:"kind" enum:"webhook,slack"`
	Event        action.NotifyEvent  `json:"event" enum:"held,settled"`
	Invocation   string              `json:"invocation_id,omitempty" doc:"The call."`
	EnvRequest   string              `json:"env_request_id,omitempty" doc:"The request for variables."`
	GrantRequest string              `json:"grant_request_id,omitempty" doc:"The request for a grant."`
	Run          string              `json:"run_id,omitempty" doc:"The run that needed attention."`
	Status       action.NotifyStatus `json:"status" enum:"pending,sent,done,void" doc:"sent: its subject needs a person; done: complete; void: never sent, because its subject was settled first or the endpoint did not accept it."`
	Failures     int                 `json:"failures"`
	Error        string              `json:"error,omitempty"`
	CreatedAt    time.Time           `json:"created_at"`
	EndedAt      *time.Time          `json:"ended_at,omitempty"`
}

// ByNotifyKind is the parameter of a route about a channel.
type ByNotifyKind struct {
	Kind action.NotifyKind `path:"kind" enum:"webhook,slack" doc:"webhook or slack." example:"webhook" kong:"arg,enum='webhook,slack',help='Channel: webhook or slack.'"`
}
