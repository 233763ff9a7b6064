package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
)

// post is a message of Slack's. All is plain text, but for the link to the call:
// nothing in it is a mention, a link or a preview that somebody else chose.
type post struct {
	Channel     string  `json:"channel,omitempty"`
	TS          string  `json:"ts,omitempty"`
	Text        string  `json:"text"` // of notices, and where blocks are not shown
	Blocks      []block `json:"blocks"`
	Parse       string  `json:"parse"`
	Markup      bool    `json:"mrkdwn"`
	UnfurlLinks bool    `json:"unfurl_links"`
	UnfurlMedia bool    `json:"unfurl_media"`
	LinkNames   bool    `json:"link_names"`
}

type block struct {
	Type     string   `json:"type"`
	Text     *words   `json:"text,omitempty"`
	Fields   []words  `json:"fields,omitempty"`
	Elements []button `json:"elements,omitempty"`
}

type words struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji bool   `json:"emoji"`
}

type button struct {
	Type string `json:"type"`
	Text words  `json:"text"`
	URL  string `json:"url"`
}

// text is a plain_text object, in which no markup is read. Its emoji stay words.
func text(s string) *words {
	return &words{Type: "plain_text", Text: escape(s)}
}

// escape keeps what Slack reads as the beginning of a mention or a link, also
// in plain text, from being one.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// post puts a message into words.
func (m *Message) post() post {
	head := fmt.Sprintf("%s › %s waits for a person", m.Source, m.Action)
	if m.Event == action.NotifySettled {
		head = fmt.Sprintf("%s › %s: %s", m.Source, m.Action, m.end())
	}
	p := headed(head)
	if m.Event == action.NotifySettled {
		p.Blocks = append(p.Blocks, link("See what became of it", m.URL))
		return p
	}
	if m.Summary != "" {
		p.Blocks = append(p.Blocks, block{Type: "section", Text: text("It would: " + m.Summary)})
	}
	facts := []words{*text("Risk: " + string(m.Risk)), *text("Time left: " + left(m.Left)), *text("Asked by " + m.Session.words()), *text("Source: " + m.SourceID)}
	if m.Why != "" {
		facts = append(facts, *text("Held: " + m.Why))
	}
	p.Blocks = append(p.Blocks, block{Type: "section", Fields: facts}, link("Look at it and decide", m.URL))
	return p
}

// headed is a message that says what it is about, also where blocks are not shown.
func headed(head string) post {
	return post{Text: escape(head), Parse: "none", Blocks: []block{{Type: "section", Text: text(head)}}}
}

// link is a button that leads to the page.
func link(words, url string) block {
	return block{Type: "actions", Elements: []button{{Type: "button", Text: *text(words), URL: url}}}
}

// end says what became of the call.
func (m *Message) end() string {
	switch {
	case m.Status == action.StatusDenied && m.Reason == action.DeniedWithdrawn:
		return "withdrawn, nobody needs to decide"
	case m.Status == action.StatusDenied:
		return "denied"
	case m.Status == action.StatusExpired:
		return "expired, nobody needs to decide"
	}
	return "approved"
}

// toSlack posts, or changes, a message.
func (s *Sender) toSlack(ctx context.Context, c *action.NotifyChannel, p post, ref string) (answer, error) {
	if c.Integration != "" {
		return s.byToken(ctx, c, p, ref)
	}
	url, err := s.Vault.Open(action.Ref{Organization: c.Organization, Table: "notify_channels", Row: string(c.Kind), Column: "sealed"}, c.Sealed)
	if err != nil {
		s.Log.ErrorContext(ctx, "the webhook of Slack could not be opened", "organization", c.Organization, "error", err)
		return answer{said: "The URL of Slack's webhook could not be opened; set it again."}, nil
	}
	body, err := json.Marshal(p)
	if err != nil {
		return answer{}, err
	}
	return s.request(ctx, string(url), body, nil)
}

// byToken posts with an integration's, whose answers tell where the message is.
func (s *Sender) byToken(ctx context.Context, c *action.NotifyChannel, p post, ref string) (answer, error) {
	method := "chat.postMessage"
	p.Channel = c.Target
	if ref != "" {
		method = "chat.update"
		p.Channel, p.TS, _ = strings.Cut(ref, "/")
	}
	body, err := json.Marshal(p)
	if err != nil {
		return answer{}, err
	}
	raw, err := s.Slack(ctx, c.Organization, c.Integration, method, body)
	if err != nil {
		return answer{said: s.failure(err, nil), wait: min(action.Public(err).RetryAfter, maxPause)}, nil
	}
	var told struct {
		OK      bool   `json:"ok"`
		Error   string `json:"error"`
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	}
	if err := json.Unmarshal(raw, &told); err != nil {
		return answer{said: "What answered is not Slack's API; look at the integration's base URL."}, nil
	}
	if !told.OK {
		said := "Slack answered " + quote(plain(told.Error, longName)) + "."
		if hint := hints[told.Error]; hint != "" {
			said += " " + hint
		}
		return answer{said: said, only: slices.Contains(onlyThese, told.Error)}, nil
	}
	return answer{ok: true, said: "Slack took the message.", ref: told.Channel + "/" + told.TS}, nil
}

// onlyThese are Slack's errors about one message.
var onlyThese = []string{
	"message_not_found", "cant_update_message", "edit_window_closed", "msg_too_long", "msg_blocks_too_long", "no_text", "invalid_blocks", "invalid_blocks_format",
}

// hints say what to do about answers of Slack's.
var hints = map[string]string{
	"channel_not_found": "Name the channel by its id, and invite the app there.",
	"not_in_channel":    "Invite the app to the channel.",
	"is_archived":       "Name another channel.",
	"missing_scope":     "Connect Slack again with the scope chat:write.",
}
