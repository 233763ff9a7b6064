package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"sallyport/action"
)

type connectorReview struct {
	named
	Accept    []string `xor:"accept" placeholder:"TOOL" help:"Accept this tool as it is shown; again for more."`
	AcceptAll bool     `xor:"accept" env:"-" help:"Accept every tool that is shown, as it is shown."`
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

// Run shows what waits for a review. What it accepts is what it showed: the
// hashes go along, so that a tool which changes in between is refused.
func (c *connectorReview) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var tools list[reviewRow]
	raw, err := server.read(ctx, connectorPath(c.Name)+"/tools", nil, &tools)
	if err != nil {
		return err
	}
	chosen, err := c.choose(tools.Items)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		return c.print(std, raw, func(w io.Writer) { c.show(w, waiting(tools.Items)) })
	}
	raw, err = server.change(ctx, http.MethodPost, connectorPath(c.Name)+"/review", map[string]any{"tools": hashes(chosen)}, nil)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		for _, r := range chosen {
			r.report(w)
		}
		said(fmt.Sprintf("accepted as shown: %s", strings.Join(names(chosen), ", ")))(w)
	})
}

// waiting are the tools that are not as somebody reviewed them.
func waiting(tools []reviewRow) []reviewRow {
	return slices.DeleteFunc(slices.Clone(tools), func(r reviewRow) bool { return r.State == action.ToolReviewed })
}

// choose returns those that are to be accepted. One that is gone cannot be.
func (c *connectorReview) choose(tools []reviewRow) ([]reviewRow, error) {
	listed := slices.DeleteFunc(slices.Clone(tools), func(r reviewRow) bool { return r.Current == nil })
	if c.AcceptAll {
		return waiting(listed), nil
	}
	var chosen []reviewRow
	for _, tool := range c.Accept {
		i := slices.IndexFunc(listed, func(r reviewRow) bool { return r.Tool == tool })
		if i < 0 {
			return nil, fmt.Errorf("%s lists no tool %q; it lists: %s", visible(c.Name), visible(tool), visible(strings.Join(names(listed), ", ")))
		}
		chosen = append(chosen, listed[i])
	}
	return chosen, nil
}

func names(rows []reviewRow) []string {
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = r.Tool
	}
	return all
}

// hashes are of the tools as they were shown.
func hashes(rows []reviewRow) []map[string]string {
	all := make([]map[string]string, len(rows))
	for i, r := range rows {
		all[i] = map[string]string{"tool": r.Tool, "behaviour_hash": r.Current.Behaviour, "text_hash": r.Current.Text}
	}
	return all
}

func (c *connectorReview) show(w io.Writer, open []reviewRow) {
	if len(open) == 0 {
		said("no tool of " + c.Name + " waits for a review")(w)
		return
	}
	for _, r := range open {
		r.report(w)
	}
	if slices.ContainsFunc(open, func(r reviewRow) bool { return r.Current != nil }) {
		said(fmt.Sprintf("accept what is right with: sallyport connector review %[1]s --accept TOOL%[2]s, or all with: sallyport connector review %[1]s --accept-all%[2]s", c.Name, c.at()))(w)
	}
}

// report shows a tool and what of it nobody reviewed. All of it is the
// server's own word.
func (r *reviewRow) report(w io.Writer) {
	text := fmt.Sprintf("%s is %s", r.Tool, r.State)
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
