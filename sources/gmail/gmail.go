// Package gmail implements the Gmail module: connecting a mailbox so that
// triggers can poll it. It has no actions for agents.
//
// Polling reads the mailbox's history, so every message added since the last
// poll becomes an event or is reported as lost. When Gmail no longer keeps the
// history since the cursor, polling restarts from now. A message that Gmail
// refuses to return is skipped. The module reads headers and snippets, never
// bodies.
package gmail

import (
	"context"

	"sallyport/action"
	"sallyport/sources"
)

const scope = "https://www.googleapis.com/auth/gmail.readonly"

// Module returns the Gmail module.
func Module() *sources.Module {
	return &sources.Module{
		ID:      "gmail",
		Title:   "Gmail",
		About:   "Watches a mailbox for new mail, so that triggers can start something; agents get no actions by it.",
		Guide:   "Gmail has no actions. A connection is for triggers, which watch a mailbox for new mail.",
		BaseURL: "https://gmail.googleapis.com",
		Needs: []sources.Need{{
			Kind: action.KindOAuth2, Users: true, Preset: "google", Scopes: []string{scope},
			Hint: "Sign in with the Google account whose mail triggers are to watch, and allow that it is read.",
		}},
		Account: account,
		Poll:    poll,
	}
}

// account returns the mailbox of a credential. The address is the account ID.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	p, err := getProfile(ctx, c)
	return sources.Account{ID: p.Address, Name: p.Address}, err
}
