// Package gmail is the module of Gmail: what it takes to connect a mailbox, so
// that triggers can watch it. Agents get no actions by it.
package gmail

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

const scope = "https://www.googleapis.com/auth/gmail.readonly"

// Module returns the module.
func Module() *sources.Module {
	return &sources.Module{
		ID:      "gmail",
		Title:   "Gmail",
		About:   "Watches a mailbox for triggers that start runs on new mail; agents get no actions by it.",
		Guide:   "Gmail has no actions. A connected mailbox is watched by triggers, which start a run when mail arrives; the mail comes with the run.",
		BaseURL: "https://gmail.googleapis.com",
		Needs: []sources.Need{{
			Kind: action.KindOAuth2, Users: true, Preset: "google", Scopes: []string{scope},
			Hint: "Sign in with the Google account whose mail is to be watched, and allow that it is read.",
		}},
		Account: account,
	}
}

// account returns the mailbox of a credential; its address is its id.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	resp, err := c.HTTP.Do(ctx, &outbound.Request{
		Method:     http.MethodGet,
		Path:       "/gmail/v1/users/me/profile",
		Header:     http.Header{"Authorization": {"Bearer " + c.Token}, "Accept": {"application/json"}},
		Repeatable: true,
		Limited:    limited,
	})
	if err != nil {
		return sources.Account{}, err
	}
	if resp.Status != http.StatusOK {
		return sources.Account{}, refusal(resp)
	}
	var profile struct {
		Address string `json:"emailAddress"`
	}
	if err := json.Unmarshal(resp.Body, &profile); err != nil || profile.Address == "" {
		return sources.Account{}, &action.Error{
			Kind: action.ErrUnavailable, Code: sources.FaultProtocol,
			Message: fmt.Sprintf("What answered at %s is not Gmail's API; check the base URL.", c.HTTP.Base().Host),
		}
	}
	return sources.Account{ID: profile.Address, Name: profile.Address}, nil
}
