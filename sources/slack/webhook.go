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

// advised is how far a delivery's time may be from ours, as Slack has it.
const advised = 5 * time.Minute

// maxChallenge bounds what is echoed, in characters.
const maxChallenge = 1000

// verify checks the signature, which covers the time that comes with it.
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

// delivery is what Slack posts.
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

// authorization is an installation of the app that may see the event. There is
// one at most, even where several may.
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

// challenge returns the text with which Slack tries a new URL, to be echoed.
func challenge(d *event.Delivery) []byte {
	var in delivery
	if !bytes.Contains(d.Body, []byte("url_verification")) { // as are nearly all
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
	// Only what there is a trigger for is known to have this shape.
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
		var h happening
		if err := sources.ReadDelivery(d.Event, &h); err != nil {
			return event.Parsed{}, err
		}
		if h.tells() && !d.own(h) {
			out.Events = []event.Event{d.event(h, out.ID)}
		}
	}
	return out, nil
}

// account is whose installation the event is for: in channels that workspaces
// share, the team may be another.
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

// own reports whether the app did it itself. It would answer itself for ever.
func (d delivery) own(h happening) bool {
	for _, a := range d.Authorizations {
		if a.Bot && a.UserID != "" && a.UserID == h.User {
			return true
		}
	}
	return d.AppID != "" && (h.AppID == d.AppID || h.Profile.AppID == d.AppID)
}
