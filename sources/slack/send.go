package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

func sendAction() sources.ModuleAction {
	return sources.ModuleAction{
		Name:        "send_message",
		Title:       "Send a message",
		Description: "Posts a message to a Slack channel, or as a reply to a thread there, and returns {channel, ts, thread_ts, permalink, message}; message is what Slack stored. A repeated call posts another message.",
		Risk:        action.RiskWrite,
		Input: json.RawMessage(`{
			"type": "object",
			"required": ["channel", "text"],
			"additionalProperties": false,
			"dependentRequired": {"reply_broadcast": ["thread_ts"]},
			"properties": {
				"channel": {"type": "string", "maxLength": 100, "pattern": "^#?[^\\s#@,]+$", "description": "The channel's ID (C0123456789) or name (#releases)."},
				"text": {"type": "string", "maxLength": 40000, "pattern": "\\S", "description": "The message in Slack's mrkdwn: *bold*, _italic_, <https://example.com|words>. At most 40,000 characters."},
				"thread_ts": {"type": "string", "pattern": "^[0-9]{1,12}\\.[0-9]{6}$", "description": "ts of the first message of the thread. Default: post to the channel."},
				"reply_broadcast": {"type": "boolean", "description": "Whether to show the reply in the channel, too; requires thread_ts."},
				"unfurl_links": {"type": "boolean", "description": "Whether Slack adds previews of links. Default: false."}
			}
		}`),
		Summarize: summarize,
		Examples: []sources.Example{
			{Note: "A message to a channel", Params: json.RawMessage(`{"channel":"#releases","text":"*1.4.0* is out: <https://example.com/notes|what is new>"}`)},
			{Note: "A reply in a thread", Params: json.RawMessage(`{"channel":"C0123456789","thread_ts":"1763700000.000100","text":"The build is green again."}`)},
		},
		Run: sources.Handler(send),
	}
}

// message is the body of chat.postMessage. Every option is explicit, so that
// Slack's defaults add nothing to what the approver read.
type message struct {
	Channel     string `json:"channel"`
	Text        string `json:"text"`
	Thread      string `json:"thread_ts,omitempty"`
	Broadcast   bool   `json:"reply_broadcast,omitempty"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
	LinkNames   bool   `json:"link_names"`
}

// posted is the message as Slack stored it, without icons and blocks.
type posted struct {
	Type    string `json:"type,omitempty"`
	Subtype string `json:"subtype,omitempty"`
	User    string `json:"user,omitempty"`
	Bot     string `json:"bot_id,omitempty"`
	App     string `json:"app_id,omitempty"`
	Team    string `json:"team,omitempty"`
	Text    string `json:"text,omitempty"`
	TS      string `json:"ts,omitempty"`
	Thread  string `json:"thread_ts,omitempty"`
}

// send posts a message. Slack has no idempotency keys, so this call is never
// retried.
func send(ctx context.Context, c *sources.Conn, m message) (json.RawMessage, error) {
	m.UnfurlMedia = m.UnfurlLinks
	body, err := sources.Encode(m)
	if err != nil {
		return nil, err
	}
	var out struct {
		Channel  string  `json:"channel"`
		TS       string  `json:"ts"`
		Message  *posted `json:"message"`
		Metadata struct {
			Warnings []string `json:"warnings"`
		} `json:"response_metadata"`
	}
	if _, err := callAPI(ctx, c, call{method: "chat.postMessage", body: body}, &out); err != nil {
		return nil, err
	}
	thread := ""
	if out.Message != nil {
		thread = out.Message.Thread
	}
	return sources.Encode(struct {
		Channel   string   `json:"channel"`
		TS        string   `json:"ts"`
		Thread    string   `json:"thread_ts,omitempty"`
		Permalink string   `json:"permalink,omitempty"`
		Message   *posted  `json:"message,omitempty"`
		Warnings  []string `json:"warnings,omitempty"`
	}{out.Channel, out.TS, thread, permalink(ctx, c, out.Channel, out.TS), out.Message, out.Metadata.Warnings})
}

// permalinkTimeout bounds the request for a link: the message is already posted.
const permalinkTimeout = 5 * time.Second

// permalink returns the link of a message; empty if Slack gives none. An error must
// not hide that the message was posted.
func permalink(ctx context.Context, c *sources.Conn, channel, ts string) string {
	ctx, stop := context.WithTimeout(ctx, permalinkTimeout)
	defer stop()
	var out struct {
		Link string `json:"permalink"`
	}
	query := url.Values{"channel": {channel}, "message_ts": {ts}}
	if _, err := callAPI(ctx, c, call{method: "chat.getPermalink", query: query, repeatable: true}, &out); err != nil {
		return ""
	}
	if u, err := url.Parse(out.Link); err != nil || u.Scheme != "https" || u.Host == "" {
		return ""
	}
	return out.Link
}

// summarize returns the line that an approver reads first. Mentions precede the
// text, so that they are visible wherever they occur in it.
func summarize(params json.RawMessage) string {
	var m message
	_ = json.Unmarshal(params, &m)
	line := "Send to " + quoteID(m.Channel)
	if m.Thread != "" {
		line = fmt.Sprintf("Reply in the thread %s of %s", quoteID(m.Thread), quoteID(m.Channel))
	}
	if m.Broadcast {
		line += ", shown in the channel too"
	}
	if who := mentions(m.Text); len(who) > 0 {
		line += ", NOTIFYING " + strings.Join(who, " and ")
	}
	if hasMaskedLink(m.Text) {
		line += ", with a link behind other words"
	}
	return line + ": " + strconv.Quote(sources.Shorten(m.Text, 100))
}

// mentions lists whom a text notifies, largest audiences first.
func mentions(text string) (who []string) {
	people, groups := 0, 0
	for markup := range markups(text) {
		switch kind, of := parseMarkup(markup); {
		case kind == broadcast && !slices.Contains(who, "@"+of):
			who = append(who, "@"+of)
		case kind == group:
			groups++
		case kind == person:
			people++
		}
	}
	if groups > 0 {
		who = append(who, fmt.Sprintf("user groups (%d)", groups))
	}
	if people > 0 {
		who = append(who, fmt.Sprintf("people (%d)", people))
	}
	return who
}

// hasMaskedLink reports whether a link's label hides its target.
func hasMaskedLink(text string) bool {
	for markup := range markups(text) {
		content, _, closed := strings.Cut(markup, ">")
		shown, _, words := strings.Cut(content, "|")
		switch kind, word := parseMarkup(shown); {
		case !closed:
		case kind == date && strings.Count(shown, "^") > 2: // the third part is a link
			return true
		case (kind == person || kind == channelName) && words && len(word)+1 < len(shown): // not an ID
			return true
		case kind == other && words && shown != "":
			return true
		}
	}
	return false
}

// markups yields the text after each <.
func markups(text string) iter.Seq[string] {
	_, rest, _ := strings.Cut(text, "<")
	return func(yield func(string) bool) {
		for ; rest != "" && yield(rest); _, rest, _ = strings.Cut(rest, "<") {
		}
	}
}

// markupKind is the meaning of a piece of Slack markup.
type markupKind int

const (
	other markupKind = iota // a link, or unknown markup
	person
	channelName
	group
	broadcast // @channel, @here or @everyone
	date
)

// parseMarkup returns the kind of the markup at the start of the text and its
// first word in lower case, because Slack may ignore case.
func parseMarkup(markup string) (_ markupKind, word string) {
	if markup == "" {
		return other, ""
	}
	sign, word := markup[0], markup[1:]
	if end := strings.IndexFunc(word, notAlphanumeric); end >= 0 {
		word = word[:end]
	}
	word = strings.ToLower(word)
	switch {
	case sign == '@':
		return person, word
	case sign == '#':
		return channelName, word
	case sign == '!' && slices.Contains([]string{"channel", "here", "everyone", "group"}, word):
		return broadcast, word
	case sign == '!' && word == "subteam":
		return group, word
	case sign == '!' && word == "date":
		return date, word
	}
	return other, word
}

func notAlphanumeric(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

func quoteID(id string) string { return sources.QuoteID(id, 100) }
