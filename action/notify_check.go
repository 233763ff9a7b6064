package action

import (
	"errors"
	"fmt"
	"net/url"
)

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
		return invalid("/kind", "Held calls are told by webhook or slack.")
	case !c.Wants.Valid():
		return invalid("/wants", "A channel tells of all calls, of danger alone, or of unattended sessions alone.")
	case slack && (len(c.Sealed) == 0) == (c.Integration == ""):
		return invalid("/url", "Slack needs the URL of an incoming webhook, or an integration and a channel, and not both.")
	case slack && (c.Target == "") != (c.Integration == "") || len(c.Target) > maxTarget:
		return invalid("/channel", fmt.Sprintf("With an integration goes a channel of Slack, by its id or name, of at most %d bytes; with a URL goes none.", maxTarget))
	case slack:
		return nil
	case len(c.URL) > maxEndpoint || !AbsoluteURL(c.URL):
		return invalid("/url", fmt.Sprintf("A webhook is an absolute http or https URL of at most %d bytes without user and fragment.", maxEndpoint))
	case Exposed(c.URL):
		return invalid("/url", "A webhook is https, or http on this machine: what is sent tells what agents ask for, which others could read.")
	}
	return nil
}

// Exposed reports whether others could read what is sent to a URL.
func Exposed(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.Scheme != "https" && !Loopback(u.Hostname())
}
