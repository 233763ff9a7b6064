package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"sallyport/action"
)

type policySettings struct {
	remote
	SelfApproval *bool `help:"Whether whoever made a session may approve its calls: --self-approval=true or =false."`
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
}

type policyLog struct {
	remote
	paging
	Kind    string `enum:"mode,capability,gate,grant,grant_request,quota,settings,review,connector," default:"" help:"Only changes of this kind: mode, capability, gate, grant, grant_request, quota, settings, review or connector."`
	Subject string `help:"Only changes of this key, group and provider, or id, as the list shows it."`
}

func (c *policyLog) Run(ctx context.Context, std *stdio) error {
	query := c.query()
	for name, value := range queryOf(given{"kind": c.Kind, "subject": c.Subject}) {
		query[name] = value
	}
	return show(ctx, &c.remote, std, "/api/v1/policy/events", query, func(w io.Writer, all *list[action.PolicyEvent]) {
		rows := make([][]string, 0, len(all.Items))
		for _, e := range all.Items {
			rows = append(rows, []string{since(&e.At), e.By, e.Kind, e.Subject, change(e.Before, e.After)})
		}
		table(w, []string{"WHEN", "BY", "KIND", "SUBJECT", "CHANGE"}, rows)
		more(w, *all)
	})
}

// change tells from what to what, in a line: of two objects, the members that
// differ.
func change(before, after json.RawMessage) string {
	var from, to map[string]json.RawMessage
	if json.Unmarshal(before, &from) != nil || json.Unmarshal(after, &to) != nil || from == nil || to == nil {
		return whole(before) + " → " + whole(after)
	}
	names := maps.Clone(from)
	maps.Copy(names, to)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(from[name], to[name]) {
			parts = append(parts, name+": "+whole(from[name])+" → "+whole(to[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// whole shows a value, also one that is not there.
func whole(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return "nothing"
	}
	return string(raw)
}
