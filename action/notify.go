package action

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// NotifyKind is a way in which people hear of held calls elsewhere. An
// organization has at most one of each.
type NotifyKind string

// The kinds of channel.
const (
	NotifyWebhook NotifyKind = "webhook" // a signed request to a URL
	NotifySlack   NotifyKind = "slack"   // a message in a channel of Slack
)

// Valid reports whether k is one of the kinds.
func (k NotifyKind) Valid() bool { return k == NotifyWebhook || k == NotifySlack }

// NotifyWants is which held calls a channel tells of.
type NotifyWants string

// What a channel may want.
const (
	WantsAll        NotifyWants = "all"
	WantsDanger     NotifyWants = "danger"     // those of that risk
	WantsUnattended NotifyWants = "unattended" // those of sessions where nobody sits with the agent
)

// Valid reports whether w is one of the three.
func (w NotifyWants) Valid() bool {
	return w == WantsAll || w == WantsDanger || w == WantsUnattended
}

// NotifyChannel is where an organization's approvers hear of held calls. A
// webhook has a URL; Slack has a sealed one, or an integration and Target.
type NotifyChannel struct {
	Organization string
	Kind         NotifyKind
	Enabled      bool
	Wants        NotifyWants
	URL          string // of a webhook
	Sealed       []byte // of Slack: its incoming webhook's URL, for the column notify_channels.sealed of the row Kind
	Integration  string // of Slack, by whose token messages are posted
	Target       string // the channel of Slack that the integration posts to
	UpdatedBy    string
	UpdatedAt    time.Time

	// How it goes; nobody sets these.
	Failures    int        // in a row
	LastError   string     // also of a failure before the last success
	LastErrorAt *time.Time // nil: none
	LastSentAt  *time.Time // nil: nothing was
	RetryAt     *time.Time // not before this, after a failure
}

// NotifyEvent is what a notification tells.
type NotifyEvent string

// The events.
const (
	NotifyHeld    NotifyEvent = "held"    // a call, or a request, waits for a person
	NotifySettled NotifyEvent = "settled" // one that was told of waits no more
)

// NotifyStatus is where a notification stands.
type NotifyStatus string

// The statuses. The last two are terminal.
const (
	NotifyPending NotifyStatus = "pending" // it is to be sent, maybe again
	NotifySent    NotifyStatus = "sent"    // and the call waits still, as far as is known
	NotifyDone    NotifyStatus = "done"    // it was sent, and there is nothing more to say
	NotifyVoid    NotifyStatus = "void"    // it was never sent: the call waits no more, the channel was turned off, or the endpoint did not take it
)

// Notification is one message about one held call, or about one request for
// environment variables.
type Notification struct {
	ID           string
	Organization string
	Kind         NotifyKind
	Event        NotifyEvent
	Invocation   string // empty: it is about a request
	EnvRequest   string // the id of a request for variables; empty: it is about a call
	Status       NotifyStatus
	Attempt      int    // how many failed
	Ref          string // where Slack has the message
	LastError    string
	CreatedAt    time.Time
	EndedAt      *time.Time
}

// DueNotification is a notification that is due, with all that it may tell of.
type DueNotification struct {
	Notification
	Call       Invocation
	Variables  *EnvRequest // instead of Call; nil: it is about a call
	Session    Session
	Automation string // the name; empty: the session has none
}

// SessionID is the id of the session whose agent asks.
func (w *DueNotification) SessionID() string {
	if w.Variables != nil {
		return w.Variables.Session
	}
	return w.Call.Session
}

// NotifyOutcome is what came of one attempt to send a notification.
type NotifyOutcome struct {
	Notification
	OK             bool
	Error          string    // for people, without a credential
	RetryAt        time.Time // of the notification, after a failure; zero: never
	ChannelRetryAt time.Time // of the channel, after a failure; zero: it goes on at once
}

// NotifyCursor is how far somebody looked through the calls that wait. The zero
// one is before all of them.
type NotifyCursor struct {
	At           time.Time
	ID           string // of a call
	Notification string // of a notification
}

// NotifyTestResult is what an endpoint said to a message that only tests it.
type NotifyTestResult struct {
	OK     bool
	Status int    // of HTTP; zero: there was no answer, or none of HTTP's own
	Detail string // for people
}

const (
	maxTarget   = 100  // bytes of the name of a channel of Slack
	maxEndpoint = 2000 // bytes of the URL of a webhook
)

// Check refuses a channel that could not be told of anything. Whether its URL
// shows a credential is for the rows to say.
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
