package slack

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

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
	e.URL = link(d.TeamID, n.Channel)
	e.Context = sources.EventContext(n)
	return e
}

// link returns the URL of the channel. Events carry no permalink to the
// message.
func link(team, channel string) string {
	if sources.ValidID(channel) == "" || sources.ValidID(team) == "" {
		return ""
	}
	return "https://slack.com/app_redirect?" + url.Values{"channel": {channel}, "team": {team}}.Encode()
}

// eventTime converts Unix seconds, or returns zero if the year does not have
// four digits.
func eventTime(seconds int64) time.Time {
	if t := time.Unix(seconds, 0).UTC(); seconds > 0 && seconds < 1<<37 && t.Year() < 10_000 {
		return t
	}
	return time.Time{}
}
