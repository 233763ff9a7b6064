package slack

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

// account is the workspace, or the enterprise that the app is installed in.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	var who struct {
		Team         string `json:"team"`
		TeamID       string `json:"team_id"`
		EnterpriseID string `json:"enterprise_id"`
		Enterprise   bool   `json:"is_enterprise_install"`
	}
	header, err := ask(ctx, c, call{method: "auth.test", body: []byte("{}"), repeatable: true}, &who)
	if err != nil {
		return sources.Account{}, err
	}
	a := sources.Account{ID: who.TeamID, Name: who.Team, Scopes: granted(header)}
	if who.Enterprise && who.EnterpriseID != "" {
		a.ID = who.EnterpriseID
	}
	return a, nil
}

// granted are the scopes of the token, which stand in a header.
func granted(h http.Header) (scopes []string) {
	for scope := range strings.SplitSeq(h.Get("X-OAuth-Scopes"), ",") {
		if scope = strings.TrimSpace(scope); scope != "" {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// revoke ends a token that was given to the gateway. One that a person made
// and brought may be in use elsewhere, and revoking it takes the app's bot out
// of all its channels.
func revoke(ctx context.Context, c *sources.Conn) error {
	if c.Kind != action.KindOAuth2 {
		return &sources.Refusal{Code: "not_ours", Message: "The bot token was made at Slack; revoke it there."}
	}
	var done struct {
		Revoked bool `json:"revoked"`
	}
	_, err := ask(ctx, c, call{method: "auth.revoke", repeatable: true}, &done)
	if r := new(sources.Refusal); errors.As(err, &r) && r.Credential {
		return nil // it is no credential any more
	}
	if err == nil && !done.Revoked {
		return &sources.Refusal{Code: "not_revoked", Status: http.StatusOK, Message: "Slack did not revoke the token; remove the app in the workspace's settings."}
	}
	return err
}

// How many channels are listed at most, and at a time.
const (
	maxPages = 10
	perPage  = "200"
)

type channel struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Private bool   `json:"private"`
	Member  bool   `json:"member"` // the app is in it
}

// metadata lists the channels that the app sees and that are not archived.
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
	if _, err := ask(ctx, c, call{method: "conversations.list", query: query, repeatable: true}, &page); err != nil {
		return nil, "", err
	}
	for _, ch := range page.Channels {
		list = append(list, channel(ch))
	}
	return list, page.Metadata.Next, nil
}
