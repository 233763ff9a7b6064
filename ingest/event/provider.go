// Package event has the types of inbound work: what services deliver, the
// events in it, and the triggers, schedules and runs that use them. Modules
// use them to declare their triggers; everything here is pure.
//
// A delivery is verified on its raw bytes before anything of it is parsed.
// Parsed data is untrusted: it contains no URL to follow and no instruction.
package event

import (
	"encoding/json"
	"net/http"
	"time"
)

// Provider is the inbound part of a module: its event types, and how the
// service delivers events.
type Provider struct {
	ID    string // the module's id, or that of a service without actions
	Title string
	Types []Type
	// Webhook handles the service's webhooks. Nil: only polling.
	Webhook *Webhook
	// SupportsPolling reports whether the module can poll for events.
	SupportsPolling bool
	// Secret explains where the webhook secret comes from. Markdown.
	Secret string
	// IssuesSecret reports that the service generates the webhook secret, so
	// one from the gateway would not verify.
	IssuesSecret bool
	// IdentifiesAccount reports that deliveries name their account, so that
	// one URL can serve many integrations.
	IdentifiesAccount bool
}

// Type returns the event type with the ID, or nil.
func (p *Provider) Type(id string) *Type {
	for i := range p.Types {
		if p.Types[i].ID == id {
			return &p.Types[i]
		}
	}
	return nil
}

// Type is an event type for triggers.
type Type struct {
	ID          string // of an [Event]: "issue"
	Title       string
	Description string
	// Config is the JSON Schema of a trigger's filters: an object without
	// required members.
	Config json.RawMessage
	// Matches reports whether an event passes the filters, which match
	// Config. It makes no requests.
	Matches func(e *Event, config json.RawMessage) bool
}

// Webhook handles the webhooks of a service. Its functions are pure.
type Webhook struct {
	// Verify returns nil if the delivery was signed with one of the secrets,
	// at a time within tolerance of now. An empty secret verifies nothing.
	// Errors are [ErrSignature] and [ErrStale].
	Verify func(d *Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error
	// Tolerance is the service's recommendation. Zero: the service signs no
	// time, and deliveries do not become stale.
	Tolerance time.Duration
	// Challenge returns the response to a verified challenge, which is not
	// stored; nil if the delivery is no challenge. Nil: the service sends
	// none.
	Challenge func(d *Delivery) []byte
	// IDHeader is the header with the delivery's ID, which a retry repeats.
	// Empty: none.
	IDHeader string
	// MaxBody is the maximum body size in bytes. Zero: 1 MiB.
	MaxBody int64
	// Parse parses a verified delivery. A delivery of an unknown type has no
	// events and is no error.
	Parse func(d *Delivery) (Parsed, error)
}

// Delivery is a webhook request, byte for byte.
type Delivery struct {
	Header http.Header
	Body   []byte
	// Config is the config of the trigger whose URL received it. Nil:
	// provider-wide URL.
	Config json.RawMessage
}

// Parsed is the content of a delivery.
type Parsed struct {
	// ID of the delivery, which a retry repeats; empty: none.
	ID string
	// Signed reports whether the signature covers the fields that event keys
	// are built from. Otherwise an attacker who captured a delivery can
	// change them.
	Signed bool
	// Account is the account at the service, such as an installation or
	// workspace, in the form that integrations store. Empty: unknown.
	Account string
	Events  []Event
	// Lifecycle is a change of the account's installation; empty: none.
	Lifecycle Lifecycle
}

// Lifecycle is a change of an app's installation.
type Lifecycle string

// The changes of an installation.
const (
	Installed   Lifecycle = "installed"
	Uninstalled Lifecycle = "uninstalled"
	Suspended   Lifecycle = "suspended"
	Unsuspended Lifecycle = "unsuspended"
)

// Event is an event at a service, independent of how it was received.
type Event struct {
	Provider string
	Type     string // of a [Type]: "issue"
	Native   string // type at the service
	// Key identifies the event in its trigger, however often it is received:
	// the delivery's ID, or an ID with the time of the last change. Empty:
	// not identifiable.
	Key        string
	OccurredAt time.Time // zero: unknown
	Title      string    // one line; untrusted
	URL        string    // for people; untrusted
	// Context is a JSON object for filters and instructions.
	Context json.RawMessage
}

// PollResult is the result of one poll.
type PollResult struct {
	Events []Event // oldest first
	// Cursor is the start of the next poll, in the module's own format; never
	// nil. It must be stored in the same transaction as the events.
	Cursor json.RawMessage
	// More reports that more events are available at once.
	More bool
	// Lost tells people that events may have been missed; empty: none known.
	Lost string
	// Wait is the minimum time until the next poll. Zero: no minimum.
	Wait time.Duration
}
