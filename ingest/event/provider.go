package event

import (
	"encoding/json"
	"net/http"
	"time"
)

// Provider is the inbound half of a module: the triggers that people can set
// up, and how the service delivers what happened.
type Provider struct {
	ID    string // the module's id, or that of a service without actions
	Title string
	Types []Type
	// Webhook reads what the service posts. Nil: it is only polled.
	Webhook *Webhook
	// SupportsPolling tells that the module can look for events by itself.
	SupportsPolling bool
	// Secret tells people in a sentence whose the secret of a webhook is: chosen
	// here, or given by the service. Markdown.
	Secret string
	// IssuesSecret tells that the service makes that secret: one of ours would
	// verify nothing that it sends.
	IssuesSecret bool
	// IdentifiesAccount tells that a delivery says whose it is, in the words that an
	// integration has: only then can one URL serve many who are connected.
	IdentifiesAccount bool
}

// Type returns the provider's type of that id, or nil.
func (p *Provider) Type(id string) *Type {
	for i := range p.Types {
		if p.Types[i].ID == id {
			return &p.Types[i]
		}
	}
	return nil
}

// Type is one kind of event that a person can have start something.
type Type struct {
	ID          string // of an [Event]: "issue"
	Title       string
	Description string
	// Config is the JSON Schema of a trigger's filters, an object of which
	// nothing is required.
	Config json.RawMessage
	// Matches reports whether an event of the type passes the filters, which fit
	// Config. It asks nobody.
	Matches func(e *Event, config json.RawMessage) bool
}

// Webhook reads what one service posts. All of it is pure.
type Webhook struct {
	// Verify returns nil when the delivery was signed with one of the secrets,
	// at a time at most tolerance away from now. No secret, or an empty one,
	// verifies nothing. Errors are [ErrSignature] and [ErrStale].
	Verify func(d *Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error
	// Tolerance is what the service itself advises, for who ingests to choose
	// otherwise. Zero: it signs no time, and no delivery gets too old.
	Tolerance time.Duration
	// Challenge returns what a verified delivery wants answered at once, in place
	// of being kept; nil when it is none. Nil: the service sends no challenges.
	Challenge func(d *Delivery) []byte
	// IDHeader is the header in which the sender repeats the delivery's id when
	// it tries again. Empty: there is none.
	IDHeader string
	// MaxBody is the largest body, in bytes. Zero: 1 MiB.
	MaxBody int64
	// Parse reads a verified delivery. What the module has no type for is no
	// error: it has no events.
	Parse func(d *Delivery) (Parsed, error)
}

// Delivery is what a service posted, byte for byte.
type Delivery struct {
	Header http.Header
	Body   []byte
	// Config of the trigger at whose own URL it came in. Nil: it came to a URL
	// of the whole provider.
	Config json.RawMessage
}

// Parsed is what a delivery says.
type Parsed struct {
	// ID of the delivery, as the sender repeats it when it tries again; empty:
	// it has none.
	ID string
	// Signed tells that the signature covers what the events' keys are made of.
	// Otherwise whoever captured the delivery can change them.
	Signed bool
	// Account is whose event it is at the service, as an integration has it: an
	// installation, a workspace. Empty: the delivery does not say.
	Account string
	Events  []Event
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
	Type     string // of a [Type]: "issue"
	Native   string // as the service names it: "issues:opened"
	// Key tells this event from all others of its trigger, and is the same when
	// it is heard of again: the delivery's id, or an id with the time of its
	// last change. Empty: the delivery does not tell it from others.
	Key        string
	OccurredAt time.Time // zero: the service does not say
	Title      string    // one line, foreign
	URL        string    // for people; foreign
	// Context is a JSON object of what filters and instructions read.
	Context json.RawMessage
}

// PollResult is what a look at a service found since the one before.
type PollResult struct {
	Events []Event // the oldest first
	// Cursor is where the next look begins, never nil. It is the module's own
	// affair, and to be kept together with the events or not at all.
	Cursor json.RawMessage
	// More tells that there is more to be had at once: a look is bounded.
	More bool
	// Lost tells people in a sentence that things may have happened of which no
	// look will tell; empty: none are known of.
	Lost string
	// Wait is the least time until the next look at what comes from now on.
	// Zero: the module does not mind.
	Wait time.Duration
}
