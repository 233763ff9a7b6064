// Package linear is the module of Linear: issues of a workspace, over its
// GraphQL API.
//
// It promises that what an agent says travels in variables only, that a new
// issue or comment is made once however often the request is sent, and that an
// answer is a success only where Linear says so, whatever the HTTP status. An
// issue is told within 60 KiB, and says where something was left out. What
// changed is heard of by webhook, or by polling for issues. It keeps nothing.
package linear

import (
	_ "embed"

	"sallyport/action"
	"sallyport/sources"
)

//go:embed guide.md
var guide string

// Module returns the module.
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
