package event

import (
	"encoding/json"
	"net/http"
	"time"
)

// Provider is the inbound half of a module: the triggers that people can set
// up, and how the service delivers what happened.
type Provider struct {
	ID       string // the module's id, or that of a service without actions
	Title    string
	Triggers []Trigger
	// Webhook reads what the service posts. Nil: it is only polled.
	Webhook *Webhook
}

// Trigger is one kind of event that a person can have start something.
type Trigger struct {
	ID          string // the [Event] type that it is about, such as "issue"
	Title       string
	Description string
	// Config is the JSON Schema of a trigger's filters, an object of which
	// nothing is required.
	Config json.RawMessage
	// Matches reports whether an event of the trigger's type passes the filters,
	// which fit Config. It asks nobody.
	Matches func(e *Event, config json.RawMessage) bool
}

// Webhook reads what one service posts. Both are pure.
type Webhook struct {
	// Verify returns nil when the delivery was signed with one of the secrets,
	// at a time at most tolerance away from now. No secret, or an empty one,
	// verifies nothing. Errors are [ErrSignature] and [ErrStale].
	Verify func(d *Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error
	// Tolerance is what the service itself advises, for who ingests to choose
	// otherwise. Zero: it signs no time, and no delivery gets too old.
	Tolerance time.Duration
	// Parse reads a verified delivery. What the module has no trigger for is no
	// error: it has no events.
	Parse func(d *Delivery) (Parsed, error)
}

// Delivery is what a service posted, byte for byte.
type Delivery struct {
	Header http.Header
	Body   []byte
}

// Parsed is what a delivery says.
type Parsed struct {
	// ID of the delivery, as the sender repeats it when it tries again; empty:
	// it has none.
	ID string
	// Signed tells that the signature covers ID. Otherwise whoever captured the
	// delivery can change it.
	Signed bool
	// Account is whose event it is at the service, as an integration has it: an
	// installation, a workspace. Empty: the delivery does not say.
	Account string
	Events  []Event
	// Challenge is to be answered at once, in place of anything else. Nil: none.
	Challenge []byte
	// Lifecycle of the account's installation; empty: nothing happened to it.
	Lifecycle Lifecycle
}

// Lifecycle is what happened to an app's installation.
type Lifecycle string

// What can happen to an installation.
const (
	Installed   Lifecycle = "installed"
	Uninstalled Lifecycle = "uninstalled"
	Suspended   Lifecycle = "suspended"
	Unsuspended Lifecycle = "unsuspended"
)

// Event is one thing that happened, in words that do not depend on how it was
// heard of.
type Event struct {
	Provider string
	Type     string // of a [Trigger]: "issue"
	Native   string // as the service names it: "issues:opened"
	// Key tells this event from all others of its trigger, and is the same when
	// it is heard of again: the delivery's id, or an id with the time of its
	// last change.
	Key        string
	OccurredAt time.Time // zero: the service does not say
	Title      string    // one line, foreign
	URL        string    // for people; foreign
	// Context is a JSON object of what filters and instructions read.
	Context json.RawMessage
}
