// Package linear implements the Linear module: issues of a workspace, over the
// GraphQL API.
//
// Agent input is passed as GraphQL variables only. Creating an issue or a
// comment is idempotent under retries, because the client chooses its ID. A
// call succeeds only if Linear says so, whatever the HTTP status. An issue is
// returned in at most 60 KiB, with a marker where it is truncated. Triggers
// receive changes by webhook, or by polling for issues. The module keeps no
// state.
package linear

import (
	_ "embed"

	"sallyport/action"
	"sallyport/sources"
)

//go:embed guide.md
var guide string

// Module returns the Linear module.
func Module() *sources.Module {
	return &sources.Module{
		ID:        "linear",
		Workspace: true,
		Title:     "Linear",
		About:     "Reads, creates and changes issues of a Linear workspace, and comments on them.",
		Guide:     guide,
		BaseURL:   "https://api.linear.app",
		Needs: []sources.Need{
			{
				Kind: action.KindOAuth2, Users: true, Preset: "linear", Scopes: []string{"read", "write"},
				Hint: "Sign in at Linear as somebody who may see the teams that agents are to work in.",
			},
			{
				Kind: action.KindAPIKey, Users: true,
				Hint: "Make a personal API key in Linear under Settings, Security & access; it acts as the person who made it.",
			},
		},
		Actions:  []sources.ModuleAction{listAction(), getAction(), createAction(), updateAction(), commentAction()},
		Account:  account,
		Metadata: metadata,
		Poll:     poll,
	}
}
