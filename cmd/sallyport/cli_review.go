package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"sallyport/action"
)

type connectorReview struct {
	named
	Accept    []string `xor:"accept" sep:"none" env:"-" placeholder:"TOOL@HASH" help:"Accept this tool as it was shown with this hash; again for more."`
	AcceptAll bool     `xor:"accept" env:"-" help:"Accept every tool that was shown; needs --digest."`
	Digest    string   `env:"-" placeholder:"D" help:"With --accept-all: what was printed below the tools that are to be accepted."`
}

// reviewRow is what is known of one tool, and what differs from the review.
type reviewRow struct {
	action.ToolReview
	Risk    string `json:"risk"`
	Mode    string `json:"mode"`
	Changes []struct {
		Path   string          `json:"path"`
		Kind   string          `json:"kind"`
		Before json.RawMessage `json:"before"`
		After  json.RawMessage `json:"after"`
	} `json:"changes"`
}

// reviewList is a connector's tools, and why the server could not be asked.
type reviewList struct {
	list[reviewRow]
	Fetched *time.Time `json:"fetched_at"`
	Error   string     `json:"error"`
}

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
	var tools reviewList
	path := connectorPath(c.Name) + "/tools"
	raw, err := server.read(ctx, path, url.Values{"fresh": {"true"}}, &tools)
	if p := new(problem); errors.As(err, &p) && p.Code == "role_required" {
		if raw, err = server.read(ctx, path, nil, &tools); err == nil {
			tools.Error = cmp.Or(tools.Error, "that is for owners and admins")
		}
	}
	if err != nil {
		return err
	}
	open := waiting(tools.Items)
	if err := c.print(std, raw, func(w io.Writer) {
		if tools.Error != "" {
			said(fmt.Sprintf("%s cannot be asked: %s; its list is %s", c.Name, clause(tools.Error), dated(tools.Fetched)))(w)
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
func (c *connectorReview) all(rows []reviewRow) string {
	return c.hint("connector", "review", c.Name, "--accept-all", "--digest", digest(rows))
}

// waiting are the tools that are not as somebody reviewed them.
func waiting(tools []reviewRow) []reviewRow {
	return slices.DeleteFunc(slices.Clone(tools), func(r reviewRow) bool { return r.State == action.ToolReviewed })
}

func (c *connectorReview) show(w io.Writer, open []reviewRow) {
	if len(open) == 0 {
		said("no tool of " + c.Name + " waits for a review")(w)
		return
	}
	report(w, open)
	said(fmt.Sprintf("accept what is right with: %s, or all with: %s", c.hint("connector", "review", c.Name, "--accept", "TOOL@HASH"), c.all(open)))(w)
}

func report(w io.Writer, rows []reviewRow) {
	for i := range rows {
		rows[i].report(w)
	}
}

// report shows a tool and what of it nobody reviewed. All of it is the
// server's own word.
func (r *reviewRow) report(w io.Writer) {
	text := fmt.Sprintf("%s is %s", r.tag(), r.State)
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
