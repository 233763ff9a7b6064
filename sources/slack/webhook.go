package slack

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// defaultTolerance is the clock skew that Slack recommends.
const defaultTolerance = 5 * time.Minute

// maxChallenge bounds the echoed challenge, in characters.
const maxChallenge = 1000

// verify checks the signature, which covers the timestamp, and then the
// timestamp.
func verify(d *event.Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	signature, signed := event.Header(d.Header, "X-Slack-Signature")
	sent, _ := event.Header(d.Header, "X-Slack-Request-Timestamp")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if !signed || err != nil {
		return event.ErrSignature
	}
	err = event.VerifyHex(signature, "v0=", secrets, []byte("v0:"+sent+":"), d.Body)
	if err != nil {
		return err
	}
	return event.CheckTimestamp(time.Unix(seconds, 0), now, tolerance)
}

// delivery is the body of a request from the Events API.
type delivery struct {
	Type           string          `json:"type"`
	Challenge      string          `json:"challenge"`
	TeamID         string          `json:"team_id"`
	AppID          string          `json:"api_app_id"`
	EventID        string          `json:"event_id"`
	EventTime      int64           `json:"event_time"` // seconds
	Authorizations []authorization `json:"authorizations"`
	Event          json.RawMessage `json:"event"`
}

// authorization is an installation of the app that can see the event. Slack
// sends at most one.
type authorization struct {
	EnterpriseID string `json:"enterprise_id"`
	TeamID       string `json:"team_id"`
	UserID       string `json:"user_id"`
	Bot          bool   `json:"is_bot"`
	Enterprise   bool   `json:"is_enterprise_install"`
}

func parse(d *event.Delivery) (event.Parsed, error) {
	var in delivery
	if err := sources.ReadDelivery(d.Body, &in); err != nil {
		return event.Parsed{}, err
	}
	switch in.Type {
	case "event_callback":
		return in.callback()
	}
	return event.Parsed{Account: in.account()}, nil
}

// challenge returns the text to echo when Slack verifies a new URL.
func challenge(d *event.Delivery) []byte {
	var in delivery
	if !bytes.Contains(d.Body, []byte("url_verification")) { // fast path for ordinary events
		return nil
	}
	if sources.ReadDelivery(d.Body, &in) != nil || in.Challenge == "" || in.Type != "url_verification" || sources.Printable(in.Challenge, maxChallenge) != in.Challenge {
		return nil
	}
	return []byte(in.Challenge)
}

func (d delivery) callback() (event.Parsed, error) {
	out := event.Parsed{ID: sources.ValidID(d.EventID), Signed: true, Account: d.account()}
	if out.ID == "" {
		return event.Parsed{}, errors.New("an event of Slack without an id that could be kept")
	}
	// Only event types with a trigger are known to have this form.
	var kind struct {
		Type string `json:"type"`
	}
	if err := sources.ReadDelivery(d.Event, &kind); err != nil {
		return event.Parsed{}, err
	}
	switch kind.Type {
	case "app_uninstalled":
		out.Lifecycle = event.Uninstalled
	case messageEvent, mentionEvent, reactionEvent:
		var h innerEvent
		if err := sources.ReadDelivery(d.Event, &h); err != nil {
			return event.Parsed{}, err
		}
		if h.supported() && !d.fromThisApp(h) {
			out.Events = []event.Event{d.event(h, out.ID)}
		}
	}
	return out, nil
}

// account returns the account of the installation. In channels shared between
// workspaces, the team may be another one.
func (d delivery) account() string {
	id := d.TeamID
	for _, a := range d.Authorizations {
		switch {
		case a.Enterprise && a.EnterpriseID != "":
			id = a.EnterpriseID
		case a.TeamID != "":
			id = a.TeamID
		}
	}
	return sources.ValidID(id)
}

// fromThisApp reports whether the app itself caused the event. Handling it
// could loop forever.
func (d delivery) fromThisApp(h innerEvent) bool {
	for _, a := range d.Authorizations {
		if a.Bot && a.UserID != "" && a.UserID == h.User {
			return true
		}
	}
	return d.AppID != "" && (h.AppID == d.AppID || h.Profile.AppID == d.AppID)
}
