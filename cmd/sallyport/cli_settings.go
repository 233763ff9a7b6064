package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"sallyport/action"
)

type policySettings struct {
	remote
	SelfApproval *bool `help:"Whether whoever made a session may approve its calls: --self-approval=true or =false."`
	Unverified   *bool `name:"unverified-events" help:"Whether events that a broker forwards without verifying who sent them may start runs: --unverified-events=true or =false."`
	DenialLimit  *int  `placeholder:"N" help:"Denials by people after which an action is denied for the session; 0: never."`
}

// Run shows the settings, after changing those that were given.
func (c *policySettings) Run(ctx context.Context, std *stdio) error {
	body := make(map[string]any)
	if c.SelfApproval != nil {
		body["self_approval"] = *c.SelfApproval
	}
	if c.DenialLimit != nil {
		body["denial_limit"] = *c.DenialLimit
	}
	if c.Unverified != nil {
		body["unverified_events"] = *c.Unverified
	}
	if len(body) == 0 {
		return show(ctx, &c.remote, std, "/api/v1/policy/settings", nil, showSettings)
	}
	return alter(ctx, &c.remote, std, http.MethodPut, "/api/v1/policy/settings", body, showSettings)
}

func showSettings(w io.Writer, s *action.Settings) {
	if s.SelfApproval {
		fmt.Fprintln(w, "whoever made a session may approve its calls")
	} else {
		fmt.Fprintln(w, "whoever made a session cannot approve its calls")
	}
	if s.DenialLimit == 0 {
		fmt.Fprintln(w, "however often people deny an action, it is asked for again")
	} else {
		fmt.Fprintf(w, "after %d denials by people, an action is denied for the rest of the session\n", s.DenialLimit)
	}
	if s.UnverifiedEvents {
		fmt.Fprintln(w, "events that a broker forwards without verifying who sent them may start runs")
	} else {
		fmt.Fprintln(w, "events that a broker forwards without verifying who sent them start nothing")
	}
}
