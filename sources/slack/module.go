// Package slack is the module of Slack: messages to the channels of a
// workspace.
//
// It promises that a message is never sent twice by itself, that it is posted
// as the approver read it, without previews of what its links lead to unless
// the params ask for them, and that an answer is a success only where Slack
// says so. It speaks plain HTTP to the four methods that it needs: a client
// library would decide about repeats itself. Of events it tells what people do,
// and never what the app did itself.
package slack

import (
	_ "embed"

	"sallyport/action"
	"sallyport/sources"
)

//go:embed guide.md
var guide string

// forEvents is what triggers need besides, which actions do not: it is no scope to
// ask everybody for.
const forEvents = " Triggers need more: let the app subscribe to the bot events message.channels, app_mention and reaction_added, with their scopes channels:history, app_mentions:read and reactions:read, and install it again from its own page."

// Module returns the module.
func Module() *sources.Module {
	return &sources.Module{
		ID:      "slack",
		Title:   "Slack",
		About:   "Posts messages to channels and threads of a Slack workspace.",
		Guide:   guide,
		BaseURL: "https://slack.com/api",
		Needs: []sources.Need{
			{
				Kind: action.KindOAuth2, Preset: "slack", Scopes: []string{"chat:write", "channels:read", "groups:read"},
				Hint: "Install the app in the workspace, then invite it to the channels that agents are to post to." + forEvents,
			},
			{
				Kind: action.KindBotToken, Scopes: []string{"chat:write", "channels:read", "groups:read"},
				Hint: "Copy the Bot User OAuth Token (xoxb-…) from the app's page, under OAuth & Permissions." + forEvents,
			},
		},
		Actions:  []sources.ModuleAction{sendAction()},
		Account:  account,
		Revoke:   revoke,
		Metadata: metadata,
	}
}
