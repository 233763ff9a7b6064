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

// Module is a service that the gateway itself can speak to: what it takes to
// connect to it, and what can be done there. It keeps nothing: credential, URL
// and client come with each call. A module never changes.
type Module struct {
	ID    string // its source id and the prefix of its tools, [a-z0-9-]{1,16}
	Title string // as people call the service
	About string // one sentence for people
	Guide string // Markdown for agents: what to know before the first call
	// BaseURL of the service's API where an integration names none. Empty: the
	// module makes no requests.
	BaseURL string
	Needs   []Need // how to connect, the best way first
	// Settings is the JSON Schema of an integration's settings, an object. Nil:
	// there are none.
	Settings json.RawMessage
	Actions  []ModuleAction
	// Account asks the service whose the credential is. It is called before an
	// integration is saved, and to see whether one is still good. Nil: there is
	// no credential.
	Account func(ctx context.Context, c *Conn) (Account, error)
	// Revoke gives the credential back. Nil: the service knows no such thing, or
	// the broker does it.
	Revoke func(ctx context.Context, c *Conn) error
	// Metadata answers what forms need, by the query: see the module. Nil: it
	// has none.
	Metadata func(ctx context.Context, c *Conn, q url.Values) (any, error)
	// Poll looks for what happened since the cursor that the look before left.
	// Nil, or a cursor that the module cannot read, begins with what happens from
	// now on. Errors are those of Run. Nil: the service cannot be polled.
	Poll func(ctx context.Context, c *Conn, cursor json.RawMessage) (event.Polled, error)
	// Hydrate completes an event that a delivery tells too little of, by its ids
	// and never by a URL of it: it returns false, and asks nobody, when nothing is
	// missing. Errors are those of Run. Nil: deliveries say all there is.
	Hydrate func(ctx context.Context, c *Conn, e *event.Event) (changed bool, err error)
	// Workspace tells that an account is a workspace of many people, so that a
	// user's own connection stands in for the organization's only where both are
	// of the same one. Otherwise an account is a person or an installation.
	Workspace bool
	// Choose returns the one of several integrations that a call with the params
	// means, by its index, or -1. Nil: a session is bound to one at a time.
	Choose func(params json.RawMessage, among []action.Integration) int
}

// Need is a way to connect to a service.
type Need struct {
	Kind action.IntegrationKind
	// Users may connect so in their own name, beside the organization.
	Users bool
	// Preset of the OAuth endpoints, known to package credential. Of KindOAuth2
	// and KindApp.
	Preset string
	Scopes []string // that the actions need, in the service's words
	Hint   string   // where a person gets the credential, and what triggers need besides
}

// ModuleAction is one operation of a module.
type ModuleAction struct {
	Name        string
	Title       string
	Description string // for agents
	Risk        action.Risk
	Idempotent  bool // done again with the same params it changes nothing more
	// AsUser asks for the name of the session's creator on what is done: his own
	// connection is used where he has one.
	AsUser bool
	Input  json.RawMessage // JSON Schema of the params
	// Summarize says in a line what a call with the params would do.
	Summarize func(params json.RawMessage) string
	Examples  []Example
	// Guard refuses params that the integration's settings do not let run, before
	// anybody is asked about them. It asks nobody; nil: nothing is refused so.
	// Run refuses the same.
	Guard func(settings, params json.RawMessage) error
	// Run does it and returns a JSON object. Params fit Input. A service's no is
	// a [*Refusal]; other errors are those of [outbound.Client.Do].
	Run func(ctx context.Context, c *Conn, params json.RawMessage) (json.RawMessage, error)

	closed bool // it reaches nothing outside of the gateway
}

// Example is a call that makes sense, for guides.
type Example struct {
	Note   string
	Params json.RawMessage
}

// Conn is what a module works with for one call.
type Conn struct {
	Kind     action.IntegrationKind
	Token    string           // empty: there is none
	HTTP     *outbound.Client // for the integration's base URL
	Settings json.RawMessage  // of the integration; nil: none
	Account  string           // of the integration; empty while it is not known
}

// Account is whose a credential is.
type Account struct {
	ID     string   // stable, unique at the service
	Name   string   // as the service calls it
	Scopes []string // as granted; nil: the service does not say
	// Settings that follow from the account, laid under those that an admin
	// chose. Nil: none.
	Settings json.RawMessage
}

// Refusal is a service's answer that it does not do what was asked. Its text
// goes to agents: one sentence that says what to change, no credential in it.
type Refusal struct {
	Code    string // the service's own; empty: the HTTP status
	Status  int    // of the HTTP answer
	Message string // such as "There is no issue X; list the issues to see their ids."
	// Credential tells that the service does not take the credential any more,
	// and did nothing.
	Credential bool
	// Detail is the service's own text, foreign: for people, in the log.
	Detail string
}

func (r *Refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("refused (%s, %d): %s %s", r.Code, r.Status, r.Message, r.Detail))
}
