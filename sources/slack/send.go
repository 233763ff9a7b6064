package slack

import (
	"context"
	"encoding/json"

	"sallyport/action"
	"sallyport/sources"
)

func sendAction() sources.ModuleAction {
	return sources.ModuleAction{
		Name:        "send_message",
		Title:       "Send a message",
		Description: "Posts a message to a Slack channel, or as a reply to a thread there, and returns {channel, ts, thread_ts}. Each call posts once more.",
		Risk:        action.RiskWrite,
		Input: json.RawMessage(`{
			"type": "object",
			"required": ["channel", "text"],
			"additionalProperties": false,
			"dependentRequired": {"reply_broadcast": ["thread_ts"]},
			"properties": {
				"channel": {"type": "string", "maxLength": 100, "pattern": "^#?[^\\s#@,]+$", "description": "The channel's id (C0123456789), or its name (#releases)."},
				"text": {"type": "string", "maxLength": 40000, "pattern": "\\S", "description": "The message in Slack's mrkdwn: *bold*, _italic_, <https://example.com|words>. At most 40,000 characters."},
				"thread_ts": {"type": "string", "pattern": "^[0-9]{1,12}\\.[0-9]{6}$", "description": "The ts of the message that begins the thread; absent: the message stands in the channel."},
				"reply_broadcast": {"type": "boolean", "description": "Show the reply in the channel, too. Only with thread_ts."},
				"unfurl_links": {"type": "boolean", "description": "Let Slack add previews of what links lead to; none when absent."}
			}
		}`),
		Summarize: summarize,
		Examples: []sources.Example{
			{Note: "A message to a channel", Params: json.RawMessage(`{"channel":"#releases","text":"*1.4.0* is out: <https://example.com/notes|what is new>"}`)},
			{Note: "An answer in a thread", Params: json.RawMessage(`{"channel":"C0123456789","thread_ts":"1763700000.000100","text":"The build is green again."}`)},
		},
		Run: send,
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

// send posts a message. Slack has no idempotency keys, so this call is never
// retried.
func send(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var m message
	if err := json.Unmarshal(params, &m); err != nil {
		return nil, err
	}
	m.UnfurlMedia = m.UnfurlLinks
	body, err := sources.Encode(m)
	if err != nil {
		return nil, err
	}
	var posted struct {
		Channel string `json:"channel"`
		TS      string `json:"ts"`
		Message struct {
			Thread string `json:"thread_ts"`
		} `json:"message"`
		Metadata struct {
			Warnings []string `json:"warnings"`
		} `json:"response_metadata"`
	}
	if _, err := callAPI(ctx, c, call{method: "chat.postMessage", body: body}, &posted); err != nil {
		return nil, err
	}
	return sources.Encode(struct {
		Channel  string   `json:"channel"`
		TS       string   `json:"ts"`
		Thread   string   `json:"thread_ts,omitempty"`
		Warnings []string `json:"warnings,omitempty"`
	}{posted.Channel, posted.TS, posted.Message.Thread, posted.Metadata.Warnings})
}
