package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
)

// post is a Slack message. All of it is plain text except the link to the call,
// so that texts of others cannot form a mention, a link or a preview.
type post struct {
	Channel     string  `json:"channel,omitempty"`
	TS          string  `json:"ts,omitempty"`
	Text        string  `json:"text"` // for notifications, and where blocks are not shown
	Blocks      []block `json:"blocks"`
	Parse       string  `json:"parse"`
	Markup      bool    `json:"mrkdwn"`
	UnfurlLinks bool    `json:"unfurl_links"`
	UnfurlMedia bool    `json:"unfurl_media"`
	LinkNames   bool    `json:"link_names"`
}

type block struct {
	Type     string       `json:"type"`
	Text     *textObject  `json:"text,omitempty"`
	Fields   []textObject `json:"fields,omitempty"`
	Elements []button     `json:"elements,omitempty"`
}

type textObject struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji bool   `json:"emoji"`
}

type button struct {
	Type string     `json:"type"`
	Text textObject `json:"text"`
	URL  string     `json:"url"`
}

// plainText returns a plain_text object, in which Slack parses neither markup
// nor emoji.
func plainText(s string) *textObject {
	return &textObject{Type: "plain_text", Text: escape(s)}
}

// escape keeps what Slack reads as the beginning of a mention or a link, also
// in plain text, from being one.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// post returns the Slack message for a held or settled call.
func (m *Message) post() post {
	head := fmt.Sprintf("%s › %s needs approval", m.Source, m.Action)
	if m.Event == action.NotifySettled {
		head = fmt.Sprintf("%s › %s: %s", m.Source, m.Action, m.outcome())
	}
	p := titledPost(head)
	if m.Event == action.NotifySettled {
		p.Blocks = append(p.Blocks, linkBlock("View details", m.URL))
		return p
	}
	if m.Summary != "" {
		p.Blocks = append(p.Blocks, block{Type: "section", Text: plainText("Summary: " + m.Summary)})
	}
	facts := []textObject{*plainText("Risk: " + string(m.Risk)), *plainText("Time left: " + durationText(m.Left)), *plainText("Requested by " + m.Session.describe()), *plainText("Source: " + m.SourceID), *plainText("For: " + m.For)}
	if m.Why != "" {
		facts = append(facts, *plainText("Reason: " + m.Why))
	}
	p.Blocks = append(p.Blocks, block{Type: "section", Fields: facts}, linkBlock("Review", m.URL))
	return p
}

// titledPost returns a post with a title that is also shown where blocks are
// not.
func titledPost(head string) post {
	return post{Text: escape(head), Parse: "none", Blocks: []block{{Type: "section", Text: plainText(head)}}}
}

// linkBlock returns a button that opens a URL.
func linkBlock(words, url string) block {
	return block{Type: "actions", Elements: []button{{Type: "button", Text: *plainText(words), URL: url}}}
}

// outcome describes how the call was settled.
func (m *Message) outcome() string {
	switch {
	case m.Status == action.StatusDenied && m.Reason == action.DeniedWithdrawn:
		return "withdrawn, no decision needed"
	case m.Status == action.StatusDenied:
		return "denied"
	case m.Status == action.StatusExpired:
		return "expired"
	}
	return "approved"
}

// toSlack posts a message, or updates the one at ref.
func (s *Sender) toSlack(ctx context.Context, c *action.NotifyChannel, p post, ref string) (response, error) {
	if c.Integration != "" {
		return s.postAsIntegration(ctx, c, p, ref)
	}
	url, err := s.Vault.Open(action.Ref{Organization: c.Organization, Table: "notify_channels", Row: string(c.Kind), Column: "sealed"}, c.Sealed)
	if err != nil {
		s.Log.ErrorContext(ctx, "could not decrypt the URL of the Slack webhook", "organization", c.Organization, "error", err)
		return response{detail: "The URL of the Slack webhook could not be decrypted. Set it again."}, nil
	}
	body, err := json.Marshal(p)
	if err != nil {
		return response{}, err
	}
	return s.request(ctx, string(url), body, nil)
}

// postAsIntegration posts with an integration's token. Unlike a webhook, the
// API returns where the message is.
func (s *Sender) postAsIntegration(ctx context.Context, c *action.NotifyChannel, p post, ref string) (response, error) {
	method := "chat.postMessage"
	p.Channel = c.Target
	if ref != "" {
		method = "chat.update"
		p.Channel, p.TS, _ = strings.Cut(ref, "/")
	}
	body, err := json.Marshal(p)
	if err != nil {
		return response{}, err
	}
	raw, err := s.Slack(ctx, c.Organization, c.Integration, method, body)
	if err != nil {
		return response{detail: s.failureText(err, nil), retryAfter: min(action.Public(err).RetryAfter, maxRetryAfter)}, nil
	}
	var reply struct {
		OK      bool   `json:"ok"`
		Error   string `json:"error"`
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return response{detail: "The response is not from Slack's API. Check the integration's base URL."}, nil
	}
	if !reply.OK {
		detail := "Slack answered " + quote(plain(reply.Error, maxName)) + "."
		if hint := slackHints[reply.Error]; hint != "" {
			detail += " " + hint
		}
		return response{detail: detail, messageRejected: slices.Contains(messageErrors, reply.Error)}, nil
	}
	return response{ok: true, detail: "Slack accepted the message.", ref: reply.Channel + "/" + reply.TS}, nil
}

// messageErrors are Slack's errors about a single message.
var messageErrors = []string{
	"message_not_found", "cant_update_message", "edit_window_closed", "msg_too_long", "msg_blocks_too_long", "no_text", "invalid_blocks", "invalid_blocks_format",
}

// slackHints are the remedies for some of Slack's errors.
var slackHints = map[string]string{
	"channel_not_found": "Use the ID of the channel, and invite the app to it.",
	"not_in_channel":    "Invite the app to the channel.",
	"is_archived":       "Use another channel.",
	"missing_scope":     "Connect Slack again with the scope chat:write.",
}
