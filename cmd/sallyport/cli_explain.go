package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type policyExplain struct {
	remote
	api.Asked
	Action string `placeholder:"KEY" help:"source:action."`
	Key    string `arg:"" optional:"" hidden:""`
}

func (c *policyExplain) Run(ctx context.Context, std *stdio) error {
	if err := c.check(); err != nil {
		return err
	}
	c.Asked.Action = c.Action
	return perform(ctx, &c.remote, std, api.ExplainPolicy, c.Asked, showExplanation)
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
	tableOf(w, "LAYER KEY MODE WHY", e.Steps, func(s *action.Step) []string {
		return []string{string(s.Layer), strings.Replace(s.Key, source(e.Key), source(e.Name), 1), string(s.Mode), s.Note}
	})
	for _, l := range e.Limits {
		said(fmt.Sprintf("it would count against %s in %s of %s", number(l.Calls, "call"), l.Span(), l.What))(w)
	}
	if len(e.Grants) > 0 {
		said("it would use up a call of grant " + strings.Join(e.Grants, ", or of "))(w)
	}
}
