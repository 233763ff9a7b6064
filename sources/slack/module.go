// Package slack implements the Slack module: posting messages to the channels
// of a workspace.
//
// A message is never retried automatically, it is posted as the approver read
// it, without link previews unless the params request them, and a call succeeds
// only if Slack says so. The module calls five Web API methods directly,
// because a client library would apply its own retry policy. Triggers report
// what people do and skip the app's own events.
package slack

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"net/url"
	"strings"

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

// account returns the workspace, or the enterprise for an enterprise install.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	var who struct {
		Team         string `json:"team"`
		TeamID       string `json:"team_id"`
		EnterpriseID string `json:"enterprise_id"`
		Enterprise   bool   `json:"is_enterprise_install"`
	}
	header, err := callAPI(ctx, c, call{method: "auth.test", body: []byte("{}"), repeatable: true}, &who)
	if err != nil {
		return sources.Account{}, err
	}
	a := sources.Account{ID: who.TeamID, Name: who.Team}
	for scope := range strings.SplitSeq(header.Get("X-OAuth-Scopes"), ",") {
		if scope = strings.TrimSpace(scope); scope != "" {
			a.Scopes = append(a.Scopes, scope)
		}
	}
	if who.Enterprise && who.EnterpriseID != "" {
		a.ID = who.EnterpriseID
	}
	return a, nil
}

// revoke revokes a token issued through OAuth. A bot token that a person
// configured may be in use elsewhere, and revoking it removes the app's bot
// from every channel.
func revoke(ctx context.Context, c *sources.Conn) error {
	if c.Kind != action.KindOAuth2 {
		return &sources.Refusal{Code: "not_ours", Message: "The bot token was made at Slack; revoke it there."}
	}
	var done struct {
		Revoked bool `json:"revoked"`
	}
	_, err := callAPI(ctx, c, call{method: "auth.revoke", repeatable: true}, &done)
	if r := new(sources.Refusal); errors.As(err, &r) && r.Credential {
		return nil // already revoked
	}
	if err == nil && !done.Revoked {
		return &sources.Refusal{Code: "not_revoked", Status: http.StatusOK, Message: "Slack did not revoke the token; remove the app in the workspace's settings."}
	}
	return err
}

// Pagination of the channel list.
const (
	maxPages = 10
	perPage  = "200"
)

type channel struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Private bool   `json:"private"`
	Member  bool   `json:"member"` // the app is a member
}

// metadata lists the unarchived channels that are visible to the app.
func metadata(ctx context.Context, c *sources.Conn, _ url.Values) (any, error) {
	channels, incomplete := []channel{}, []string{}
	query := url.Values{"types": {"public_channel,private_channel"}, "exclude_archived": {"true"}, "limit": {perPage}}
	for page := 0; ; page++ {
		if page == maxPages {
			incomplete = append(incomplete, "channels")
			break
		}
		list, next, err := listChannels(ctx, c, query)
		if err != nil {
			return nil, err
		}
		if channels = append(channels, list...); next == "" {
			break
		}
		query.Set("cursor", next)
	}
	return map[string]any{"channels": channels, "incomplete": incomplete}, nil
}

func listChannels(ctx context.Context, c *sources.Conn, query url.Values) (list []channel, next string, err error) {
	var page struct {
		Channels []struct {
			ID      string `json:"id"`
			Name    string `json:"name"`
			Private bool   `json:"is_private"`
			Member  bool   `json:"is_member"`
		} `json:"channels"`
		Metadata struct {
			Next string `json:"next_cursor"`
		} `json:"response_metadata"`
	}
	if _, err := callAPI(ctx, c, call{method: "conversations.list", query: query, repeatable: true}, &page); err != nil {
		return nil, "", err
	}
	for _, ch := range page.Channels {
		list = append(list, channel(ch))
	}
	return list, page.Metadata.Next, nil
}
