package slack

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// The event types, with Slack's names.
const (
	messageEvent  = "message"
	mentionEvent  = "app_mention"
	reactionEvent = "reaction_added"
)

// Triggers returns the trigger provider of Slack's Events API.
func Triggers() event.Provider {
	return event.Provider{
		ID:    "slack",
		Title: "Slack",
		Types: []event.Type{
			{
				ID: messageEvent, Title: "Message posted",
				Description: "Somebody posted a message where the app is a member. Edits and what Slack itself writes (who joined, who left) are no messages. The app needs the message events that fit, and their scopes, such as channels:history.",
				Config:      json.RawMessage(messageConfig), Matches: matches,
			},
			{
				ID: mentionEvent, Title: "App mentioned",
				Description: "Somebody mentioned the app in a message. The app needs the event app_mention and the scope app_mentions:read.",
				Config:      json.RawMessage(messageConfig), Matches: matches,
			},
			{
				ID: reactionEvent, Title: "Reaction added",
				Description: "Somebody added an emoji to a message where the app is a member. The app needs the event reaction_added and the scope reactions:read.",
				Config: json.RawMessage(`{
					"type": "object",
					"additionalProperties": false,
					"properties": {
						"reactions": {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": "^[^:\\s]{1,100}(::[^:\\s]{1,100})?$"}, "description": "Names of emoji without colons, such as eyes."},
						"channels": {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": "^[A-Za-z0-9]{1,30}$"}, "description": "Ids of channels, such as C024BE91L."},
						"users": {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": "^[A-Za-z0-9]{1,30}$"}, "description": "Ids of who reacted, such as U024BE7LH."}
					}
				}`),
				Matches: matches,
			},
		},
		Secret:       "Slack makes the secret: enter the **Signing Secret** of the app (**Basic Information** on its page), and this URL as request URL of its **Event Subscriptions**.",
		IssuesSecret: true, IdentifiesAccount: true,
		Webhook: &event.Webhook{Verify: verify, Tolerance: defaultTolerance, Parse: parse, Challenge: challenge},
	}
}

// messageConfig is the config schema of messages and mentions.
const messageConfig = `{
	"type": "object",
	"additionalProperties": false,
	"properties": {
		"channels": {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": "^[A-Za-z0-9]{1,30}$"}, "description": "Ids of channels, such as C024BE91L."},
		"users": {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": "^[A-Za-z0-9]{1,30}$"}, "description": "Ids of who wrote it, such as U024BE7LH, or B024BE7LH for a bot."},
		"contains": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 300}, "description": "Only with one of these texts in it or its attachments; upper and lower case are the same."},
		"bots": {"type": "boolean", "description": "Also what other bots write, which is left out otherwise. What the app itself writes never counts."}
	}
}`

// filters is the config of a trigger. Each type uses a subset.
type filters struct {
	Channels  []string `json:"channels"`
	Users     []string `json:"users"`
	Contains  []string `json:"contains"`
	Reactions []string `json:"reactions"`
	Bots      bool     `json:"bots"`
}

func matches(e *event.Event, config json.RawMessage) bool {
	var f filters
	var n eventContext
	if len(config) > 0 && json.Unmarshal(config, &f) != nil || json.Unmarshal(e.Context, &n) != nil {
		return false
	}
	if n.Bot && !f.Bots && e.Type != reactionEvent {
		return false
	}
	text := strings.ToLower(n.fullText())
	return sources.MatchesFilter(f.Channels, n.Channel) && sources.MatchesFilter(f.Users, n.User, n.BotID) &&
		sources.MatchesFilter(f.Reactions, n.Reaction) && (len(f.Contains) == 0 || slices.ContainsFunc(f.Contains, func(part string) bool { return strings.Contains(text, strings.ToLower(part)) }))
}

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
	if in.Type == "event_callback" {
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

// innerEvent is the event in a delivery: a message, or a reaction to one.
type innerEvent struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	User    string `json:"user"`
	BotID   string `json:"bot_id"`
	AppID   string `json:"app_id"`
	Profile struct {
		AppID string `json:"app_id"`
	} `json:"bot_profile"`
	Text        string       `json:"text"`
	Channel     string       `json:"channel"`
	ChannelType string       `json:"channel_type"`
	TS          string       `json:"ts"`
	ThreadTS    string       `json:"thread_ts"`
	Attachments []attachment `json:"attachments"`
	Files       []file       `json:"files"`
	Reaction    string       `json:"reaction"`
	ItemUser    string       `json:"item_user"`
	Item        struct {
		Type    string `json:"type"`
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	} `json:"item"`
}

// attachment is a message attachment, which bots use beside or instead of text.
type attachment struct {
	Title    string `json:"title,omitempty"`
	Text     string `json:"text,omitempty"`
	Fallback string `json:"fallback,omitempty"`
}

// file describes an attached file. The content stays at Slack.
type file struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MIMEType string `json:"mimetype"`
}

// eventContext is the context of an event, with Slack's field names.
type eventContext struct {
	Team        string       `json:"team"`
	Channel     string       `json:"channel"`
	ChannelType string       `json:"channel_type,omitempty"`
	TS          string       `json:"ts"` // of the message
	ThreadTS    string       `json:"thread_ts,omitempty"`
	User        string       `json:"user"`
	Bot         bool         `json:"bot,omitempty"`
	BotID       string       `json:"bot_id,omitempty"`
	Text        string       `json:"text,omitempty"`
	Attachments []attachment `json:"attachments,omitempty"`
	Files       []file       `json:"files,omitempty"`
	Reaction    string       `json:"reaction,omitempty"`
	ItemUser    string       `json:"item_user,omitempty"` // author of the message with the reaction
}

// fullText returns all visible text of the message.
func (n eventContext) fullText() string {
	all := []string{n.Text}
	for _, a := range n.Attachments {
		all = append(all, a.Title, a.Text, a.Fallback)
	}
	return strings.Join(all, "\n")
}

// supported reports whether a trigger handles the event. Most message subtypes
// are not messages by people or bots.
func (h innerEvent) supported() bool {
	switch h.Type {
	case messageEvent:
		return slices.Contains([]string{"", "bot_message", "file_share", "me_message", "thread_broadcast"}, h.Subtype)
	case reactionEvent:
		return h.Item.Type == "message"
	}
	return h.Type == mentionEvent
}

// titleLength bounds an event title, in characters.
const titleLength = 200

// event converts the inner event to an event with that key.
func (d delivery) event(h innerEvent, key string) event.Event {
	n := eventContext{
		Team: d.TeamID, Channel: h.Channel, ChannelType: h.ChannelType, TS: h.TS, ThreadTS: h.ThreadTS,
		User: h.User, Bot: h.BotID != "" || h.Subtype == "bot_message", BotID: h.BotID,
		Text: h.Text, Attachments: h.Attachments, Files: h.Files,
	}
	e := event.Event{Provider: "slack", Type: h.Type, Native: h.Type, Key: key, OccurredAt: eventTime(d.EventTime)}
	switch h.Type {
	case reactionEvent:
		n.Channel, n.TS, n.Reaction, n.ItemUser = h.Item.Channel, h.Item.TS, h.Reaction, h.ItemUser
		e.Title = "Reaction :" + h.Reaction + ": in " + n.Channel
	case mentionEvent:
		e.Title = "Mention in " + n.Channel + ": " + h.Text
	default:
		e.Title = "Message in " + n.Channel + ": " + strings.TrimSpace(n.fullText())
	}
	if h.Type == messageEvent && h.Subtype != "" {
		e.Native += ":" + h.Subtype
	}
	e.Title = sources.Printable(e.Title, titleLength)
	if sources.ValidID(n.Channel) != "" && sources.ValidID(d.TeamID) != "" { // of the channel: events carry no permalink to the message
		e.URL = "https://slack.com/app_redirect?" + url.Values{"channel": {n.Channel}, "team": {d.TeamID}}.Encode()
	}
	e.Context = sources.EventContext(n)
	return e
}

// eventTime converts Unix seconds, or returns zero if the year does not have
// four digits.
func eventTime(seconds int64) time.Time {
	if t := time.Unix(seconds, 0).UTC(); seconds > 0 && seconds < 1<<37 && t.Year() < 10_000 {
		return t
	}
	return time.Time{}
}
