package sources

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/outbound"
)

// Module is a service with built-in support: how to connect to it, and its
// actions. It is stateless (credential, URL and client come with each call) and
// immutable.
type Module struct {
	ID    string // source ID and prefix of its tools, [a-z0-9-]{1,16}
	Title string // name of the service, for people
	About string // one sentence for people
	Guide string // Markdown for agents, to read before the first call
	// BaseURL is the URL of the service's API if an integration sets none.
	// Empty: the module makes no requests.
	BaseURL string
	Needs   []Need // ways to connect, the preferred one first
	// Settings is the JSON Schema of an integration's settings, an object. Nil:
	// none.
	Settings json.RawMessage
	Actions  []ModuleAction
	// Account asks the service for the owner of the credential. It is called
	// before an integration is saved, and to check that one still works. Nil:
	// there is no credential.
	Account func(ctx context.Context, c *Conn) (Account, error)
	// Revoke revokes the credential. Nil: the service does not support it, or
	// the broker does it.
	Revoke func(ctx context.Context, c *Conn) error
	// Metadata returns data for forms, selected by the query: see the module.
	// Nil: none.
	Metadata func(ctx context.Context, c *Conn, q url.Values) (any, error)
	// Poll returns the events since the cursor of the previous poll. With a nil
	// or unreadable cursor it starts at the present. Errors are those of Run.
	// Nil: the service cannot be polled.
	Poll func(ctx context.Context, c *Conn, cursor json.RawMessage) (event.PollResult, error)
	// Hydrate completes an event whose delivery lacks data. It uses the IDs in
	// the delivery, never its URLs. If nothing is missing it returns false and
	// makes no request. Errors are those of Run. Nil: deliveries are complete.
	Hydrate func(ctx context.Context, c *Conn, e *event.Event) (changed bool, err error)
	// Workspace says that an account is a workspace shared by many people, so
	// that a user's own connection replaces the organization's only if both
	// belong to the same one. Otherwise an account is a person or an
	// installation.
	Workspace bool
	// Choose returns the index of the integration, out of several, that the
	// params refer to, or -1. Nil: a session is bound to one at a time.
	Choose func(params json.RawMessage, among []action.Integration) int
}

// Need is a way to connect to a service.
type Need struct {
	Kind action.IntegrationKind
	// Users can connect as themselves, in addition to the organization.
	Users bool
	// Preset names the OAuth endpoints in package credential. For KindOAuth2
	// and KindApp.
	Preset string
	Scopes []string // required by the actions, as the service names them
	Hint   string   // where to get the credential, and what triggers need in addition
}

// ModuleAction is one operation of a module.
type ModuleAction struct {
	Name        string
	Title       string
	Description string // for agents
	Risk        action.Risk
	Idempotent  bool // repeating it with the same params changes nothing
	// AsUser attributes the action to the creator of the session: it uses that
	// person's own connection if there is one.
	AsUser bool
	Input  json.RawMessage // JSON Schema of the params
	// Summarize describes in one line what a call with the params would do.
	Summarize func(params json.RawMessage) string
	Examples  []Example
	// Guard rejects params that the integration's settings do not permit,
	// before an approval is requested. It makes no request. Run rejects the
	// same params. Nil: no such check.
	Guard func(settings, params json.RawMessage) error
	// Run executes the action and returns a JSON object. Params are valid
	// against Input. If the service refuses, the error is a [*Refusal]; other
	// errors are those of [outbound.Client.Do].
	Run func(ctx context.Context, c *Conn, params json.RawMessage) (json.RawMessage, error)

	closed bool // does not reach anything outside the gateway
}

// Example is an example call for guides.
type Example struct {
	Note   string
	Params json.RawMessage
}

// Conn is what a module uses for one call.
type Conn struct {
	Kind     action.IntegrationKind
	Token    string           // empty: none
	HTTP     *outbound.Client // for the integration's base URL
	Settings json.RawMessage  // of the integration; nil: none
	Account  string           // of the integration; empty while unknown
}

// Account is the owner of a credential.
type Account struct {
	ID     string   // stable, unique at the service
	Name   string   // as shown by the service
	Scopes []string // as granted; nil: unknown
	// Settings derived from the account. Settings of an admin override them.
	// Nil: none.
	Settings json.RawMessage
}

// Refusal is a service's rejection of a request. Its text is shown to agents:
// one sentence that says what to change, without any credential.
type Refusal struct {
	Code    string // the service's error code; empty: the HTTP status
	Status  int    // of the HTTP answer
	Message string // such as "There is no issue X; list the issues to see their IDs."
	// Credential says that the service refused the credential and did nothing.
	Credential bool
	// Detail is the service's own text, untrusted: for people, in the log.
	Detail string
}

// Error implements error. It includes foreign text: for logs only.
func (r *Refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("refused (%s, %d): %s %s", r.Code, r.Status, r.Message, r.Detail))
}
