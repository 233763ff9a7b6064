package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sallyport/api"
)

type policyExplain struct {
	remote
	Session string `placeholder:"ID" help:"Session of the call."`
	Action  string `placeholder:"KEY" help:"source:action."`
	Params  string `placeholder:"JSON" help:"Params of the call; without them grants are not checked."`
	Key     string `arg:"" optional:"" hidden:""`
}

func (c *policyExplain) Run(ctx context.Context, std *stdio) error {
	if err := c.check(); err != nil {
		return err
	}
	return perform(ctx, &c.remote, std, api.ExplainPolicy, api.Asked{Session: c.Session, Action: c.Action, Params: c.Params}, showExplanation)
}

// check helps those who leave out a flag or its name.
func (c *policyExplain) check() error {
	switch {
	case c.Key != "" || c.Action == "" || c.Session == "":
		return wrongUse("say who would call what: %s", visible(c.hint("policy", "explain",
			"--session", cmp.Or(c.Session, "ID"), "--action", cmp.Or(c.Action, c.Key, "SOURCE:ACTION"))))
	case c.Params != "" && !json.Valid([]byte(c.Params)):
		return wrongUse("--params is not JSON; write an object, such as '{\"channel\":\"C1\"}'")
	}
	return nil
}

func showExplanation(w io.Writer, e *api.Explanation) {
	text := fmt.Sprintf("%s, says the layer %s", e.Mode, e.Source)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Refused != "" {
		said("would be refused without asking: " + cmp.Or(e.Note, e.Refused))(w)
	}
	said(text)(w)
	source := func(key string) string { return key[:strings.LastIndexByte(key, ':')+1] }
	rows := make([][]string, 0, len(e.Steps))
	for _, s := range e.Steps {
		rows = append(rows, []string{string(s.Layer), strings.Replace(s.Key, source(e.Key), source(e.Name), 1), string(s.Mode), s.Note})
	}
	table(w, []string{"LAYER", "KEY", "MODE", "WHY"}, rows)
	for _, l := range e.Limits {
		said(fmt.Sprintf("it would count against %s in %s of %s", number(l.Calls, "call"), l.Span(), l.What))(w)
	}
	if len(e.Grants) > 0 {
		said("it would use up a call of grant " + strings.Join(e.Grants, ", or of "))(w)
	}
}
