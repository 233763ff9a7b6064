package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
)

type connectorReview struct {
	theConnector
	Accept    []string `xor:"accept" sep:"none" env:"-" placeholder:"TOOL@HASH" help:"Accept this tool with this hash, as listed; repeat for more."`
	AcceptAll bool     `xor:"accept" env:"-" help:"Accept every listed tool; needs --digest."`
	Digest    string   `env:"-" placeholder:"D" help:"Digest printed below the tool list; required for --accept-all."`
}

func (*connectorReview) route() api.Operation { return api.ListTools.Operation }

// Run shows what waits for a review, or accepts what was shown earlier.
func (c *connectorReview) Run(ctx context.Context, std *stdio) error {
	if c.Digest != "" && !c.AcceptAll {
		return wrongUse("--digest goes with --accept-all; a tool is accepted with --accept TOOL@HASH")
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	if len(c.Accept) == 0 && (!c.AcceptAll || c.Digest == "") {
		return c.look(ctx, std, server)
	}
	return c.accept(ctx, std, server)
}

// look asks the connector's server first, so that nobody reviews an old list
// unknowingly.
func (c *connectorReview) look(ctx context.Context, std *stdio, server *client) error {
	in := api.ListToolsInput{ByRef: c.ref(), Fresh: true}
	tools, raw, err := fetch(ctx, server, api.ListTools, in)
	if p := new(problem); errors.As(err, &p) && p.Code == "role_required" {
		in.Fresh = false
		if tools, raw, err = fetch(ctx, server, api.ListTools, in); err == nil {
			tools.Error = cmp.Or(tools.Error, "that is for owners and admins")
		}
	}
	if err != nil {
		return err
	}
	open := waiting(tools.Items)
	if err := c.print(std, raw, func(w io.Writer) {
		if tools.Error != "" {
			said(fmt.Sprintf("%s cannot be asked: %s; its list is %s", c.Ref, clause(tools.Error), dated(tools.FetchedAt)))(w)
		}
		c.show(w, open)
	}); err != nil || !c.AcceptAll || len(open) == 0 {
		return err
	}
	return wrongUse("say that these are what you accept: %s", visible(c.all(open)))
}

// dated tells when something old is from.
func dated(t *time.Time) string {
	if t == nil {
		return "of an unknown time"
	}
	return fmt.Sprintf("from %s (%s)", t.Local().Format("15:04"), since(t))
}

// all is the command that accepts rows.
func (c *connectorReview) all(rows []api.ReviewView) string {
	return c.hint("connector", "review", c.Ref, "--accept-all", "--digest", digest(rows))
}

// waiting are the tools that are not as somebody reviewed them.
func waiting(tools []api.ReviewView) []api.ReviewView {
	return slices.DeleteFunc(slices.Clone(tools), func(r api.ReviewView) bool { return r.State == action.ToolReviewed })
}

func (c *connectorReview) show(w io.Writer, open []api.ReviewView) {
	if len(open) == 0 {
		said("no tool of " + c.Ref + " waits for a review")(w)
		return
	}
	report(w, open)
	said(fmt.Sprintf("accept what is right with: %s, or all with: %s", c.hint("connector", "review", c.Ref, "--accept", "TOOL@HASH"), c.all(open)))(w)
}

func report(w io.Writer, rows []api.ReviewView) {
	for i := range rows {
		showReview(w, &rows[i])
	}
}

// showReview shows a tool and what of it nobody reviewed. All of it is the
// server's own word.
func showReview(w io.Writer, r *api.ReviewView) {
	text := fmt.Sprintf("%s is %s", tag(r), r.State)
	if r.Risk != "" {
		text += fmt.Sprintf(" (%s, %s)", r.Risk, r.Mode)
	}
	said(text)(w)
	if r.Reviewed == nil && r.Current != nil {
		block(w, "    + ", r.Current.Definition)
		return
	}
	for _, change := range r.Changes {
		said(fmt.Sprintf("    %s %s", change.Kind, change.Path))(w)
		side(w, "      - ", change.Before)
		side(w, "      + ", change.After)
	}
}

func side(w io.Writer, mark string, raw json.RawMessage) {
	if len(raw) > 0 && string(raw) != "null" {
		block(w, mark, raw)
	}
}
