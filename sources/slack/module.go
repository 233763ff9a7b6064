// Package slack implements the Slack module: posting messages to the channels
// of a workspace.
//
// A message is never retried automatically, it is posted as the approver read
// it, without link previews unless the params request them, and a call succeeds
// only if Slack says so. The module calls four Web API methods directly,
// because a client library would apply its own retry policy. Triggers report
// what people do and skip the app's own events.
package slack

import (
	_ "embed"

	"sallyport/action"
	"sallyport/sources"
)

//go:embed guide.md
var guide string

// triggerHint lists what triggers need in addition to actions, so that
// connections without triggers do not request these scopes.
const triggerHint = " Triggers need more: let the app subscribe to the bot events message.channels, app_mention and reaction_added, with their scopes channels:history, app_mentions:read and reactions:read, and install it again from its own page."

// Module returns the Slack module.
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
				Hint: "Install the app in the workspace, then invite it to the channels that agents are to post to." + triggerHint,
			},
			{
				Kind: action.KindBotToken, Scopes: []string{"chat:write", "channels:read", "groups:read"},
				Hint: "Copy the Bot User OAuth Token (xoxb-…) from the app's page, under OAuth & Permissions." + triggerHint,
			},
		},
		Actions:  []sources.ModuleAction{sendAction()},
		Account:  account,
		Revoke:   revoke,
		Metadata: metadata,
	}
}
