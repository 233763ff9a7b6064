package slack

import (
	"encoding/json"
	"slices"
	"strings"

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
	return sources.MatchesFilter(f.Channels, n.Channel) && sources.MatchesFilter(f.Users, n.User, n.BotID) &&
		sources.MatchesFilter(f.Reactions, n.Reaction) && f.matchesText(n.fullText())
}

// matchesText reports whether the text contains one of the required strings.
func (f filters) matchesText(text string) bool {
	text = strings.ToLower(text)
	return len(f.Contains) == 0 || slices.ContainsFunc(f.Contains, func(part string) bool {
		return strings.Contains(text, strings.ToLower(part))
	})
}
