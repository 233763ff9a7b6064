package action

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// NotifyKind is a kind of notification channel. An organization has at most
// one of each.
type NotifyKind string

// The kinds of channel.
const (
	NotifyWebhook NotifyKind = "webhook" // a signed request to a URL
	NotifySlack   NotifyKind = "slack"   // a message in a channel of Slack
)

// Valid reports whether k is one of the kinds.
func (k NotifyKind) Valid() bool { return k == NotifyWebhook || k == NotifySlack }

// NotifyWants is which pending calls a channel is notified of.
type NotifyWants string

// The choices of calls.
const (
	WantsAll        NotifyWants = "all"
	WantsDanger     NotifyWants = "danger"     // dangerous calls only
	WantsUnattended NotifyWants = "unattended" // calls of unattended sessions only
)

// Valid reports whether w is one of the three.
func (w NotifyWants) Valid() bool {
	return w == WantsAll || w == WantsDanger || w == WantsUnattended
}

// NotifyChannel is a channel that notifies approvers of pending calls. A
// webhook has a URL; Slack has an encrypted one, or an integration and
// Target.
type NotifyChannel struct {
	Organization string     `bun:"organization_id,pk"`
	Kind         NotifyKind `bun:",pk"`
	Enabled      bool
	Wants        NotifyWants
	URL          string `bun:",nullzero"`               // of a webhook
	Sealed       []byte `json:"-"`                      // of Slack: its incoming webhook's URL, for the column notify_channels.sealed of the row Kind
	Integration  string `bun:"integration_id,nullzero"` // of Slack, by whose token messages are posted
	Target       string `bun:",nullzero"`               // the channel of Slack that the integration posts to
	UpdatedBy    string
	UpdatedAt    time.Time

	// Delivery status, maintained by the gateway.
	Failures    int        // in a row
	LastError   string     `bun:",nullzero"` // the last failure, even if later messages succeeded
	LastErrorAt *time.Time // nil: none
	LastSentAt  *time.Time // nil: never
	RetryAt     *time.Time // next attempt after a failure
}

// NotifyEvent is the event of a notification.
type NotifyEvent string

// The events.
const (
	NotifyHeld    NotifyEvent = "held"    // a call, request or run needs a person
	NotifySettled NotifyEvent = "settled" // a notified call, request or run needs nobody any more
)

// NotifyStatus is the status of a notification.
type NotifyStatus string

// The statuses. The last two are terminal.
const (
	NotifyPending NotifyStatus = "pending" // not sent yet, or to be retried
	NotifySent    NotifyStatus = "sent"    // sent; the call is pending as far as is known
	NotifyDone    NotifyStatus = "done"    // sent, and its call has ended
	NotifyVoid    NotifyStatus = "void"    // never sent: the call ended first, the channel was disabled, or the endpoint did not accept it
)

// Notification is a message about one pending call, one request, or one run that
// needs attention: one of the IDs is set.
type Notification struct {
	ID           string
	Organization string
	Kind         NotifyKind
	Event        NotifyEvent
	Invocation   string
	EnvRequest   string // a request for environment variables
	GrantRequest string
	Run          string
	Status       NotifyStatus
	Attempt      int    // failed attempts
	Ref          string // reference of the message in Slack
	LastError    string
	CreatedAt    time.Time
	EndedAt      *time.Time
}

// DueNotification is a notification to send, with everything it may mention.
type DueNotification struct {
	Notification
	Call        Invocation
	Variables   *EnvRequest   // instead of Call
	Grant       *GrantRequest // instead of Call
	Ended       *EndedRun     // instead of Call
	GrantSource string        // name of the source of Grant
	Session     Session       // of a run, only the ID if it was deleted
	Automation  string        // the name; empty: the session has none
	For         []string      // names of the people whom the automation names; empty: owners and admins
}

// EndedRun is the run of a notification.
type EndedRun struct {
	ID             string
	Title          string // of its event
	Session        string
	Automation     string // ID
	Status         string // a status of event.Run
	Code           string
	Message        string // redacted
	NeedsAttention bool   // again, if the notification is of its settlement
	CreatedAt      time.Time
	EndedAt        *time.Time
}

// SessionID returns the ID of the session that the notification is about.
func (w *DueNotification) SessionID() string {
	switch {
	case w.Variables != nil:
		return w.Variables.Session
	case w.Grant != nil:
		return w.Grant.Session
	case w.Ended != nil:
		return w.Ended.Session
	}
	return w.Call.Session
}

// NotifyOutcome is the result of an attempt to send a notification.
type NotifyOutcome struct {
	Notification
	OK             bool
	Error          string    // for people, without a credential
	RetryAt        time.Time // next attempt of the notification, after a failure; zero: none
	ChannelRetryAt time.Time // earliest next attempt of the channel, after a failure; zero: at once
}

// NotifyCursor is the position of a scan of pending calls. The zero value is
// the beginning.
type NotifyCursor struct {
	At           time.Time
	ID           string // of a call
	Notification string // of a notification
}

// NotifyTestResult is the response of an endpoint to a test message.
type NotifyTestResult struct {
	OK     bool
	Status int    // of HTTP; zero: there was no answer, or none of HTTP's own
	Detail string // for people
}

const (
	maxTarget   = 100  // bytes of the name of a channel of Slack
	maxEndpoint = 2000 // bytes of the URL of a webhook
)

// Check validates the channel, except whether its URL contains a credential,
// which depends on stored rows.
func (c *NotifyChannel) Check() error {
	slack := c.Kind == NotifySlack
	switch {
	case c.UpdatedBy == "":
		return errors.New("setting a channel needs the person who does it")
	case !c.Kind.Valid():
		return invalid("/kind", "The kind of a channel is webhook or slack.")
	case !c.Wants.Valid():
		return invalid("/wants", "wants must be all, danger or unattended.")
	case slack && (len(c.Sealed) == 0) == (c.Integration == ""):
		return invalid("/url", "Slack needs the URL of an incoming webhook, or an integration and a channel, and not both.")
	case slack && (c.Target == "") != (c.Integration == "") || len(c.Target) > maxTarget:
		return invalid("/channel", fmt.Sprintf("An integration needs a Slack channel, by ID or name of at most %d bytes; a URL has none.", maxTarget))
	case slack:
		return nil
	case len(c.URL) > maxEndpoint || !AbsoluteURL(c.URL):
		return invalid("/url", fmt.Sprintf("A webhook is an absolute http or https URL of at most %d bytes without user and fragment.", maxEndpoint))
	case Unencrypted(c.URL):
		return invalid("/url", "The webhook URL must use https, or http on this machine, because messages show what agents request.")
	}
	return nil
}

// Unencrypted reports whether others could read what is sent to a URL.
func Unencrypted(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.Scheme != "https" && !Loopback(u.Hostname())
}
