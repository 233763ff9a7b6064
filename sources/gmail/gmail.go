// Package gmail is the module of Gmail: what it takes to connect a mailbox, so
// that triggers can watch it by polling. Agents get no actions by it.
//
// It promises that mail which arrived since the last look is told, and read from
// the mailbox's own history, or else said to be lost: where Gmail does not keep
// that history any more, watching begins anew, and a message that Gmail refuses to
// show is left out. It reads who wrote to whom about what, and never a mail's body.
package gmail

import (
	"context"

	"sallyport/action"
	"sallyport/sources"
)

const scope = "https://www.googleapis.com/auth/gmail.readonly"

// Module returns the module.
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

// account returns the mailbox of a credential; its address is its id.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	p, err := mailbox(ctx, c)
	return sources.Account{ID: p.Address, Name: p.Address}, err
}
