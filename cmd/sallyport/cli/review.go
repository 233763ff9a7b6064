package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type connectorReview struct {
	connectorRef
	Accept    []string `xor:"accept" sep:"none" env:"-" placeholder:"TOOL@HASH" help:"Accept this tool with this hash, as listed; repeat for more."`
	AcceptAll bool     `xor:"accept" env:"-" help:"Accept every listed tool; needs --digest."`
	Digest    string   `env:"-" placeholder:"D" help:"Digest printed below the tool list; required for --accept-all."`
}

func (*connectorReview) route() api.Operation { return api.ListTools.Operation }

// Run lists the tools to review, or accepts tools that were listed before.
func (c *connectorReview) Run(ctx context.Context, std *command.Streams) error {
	if c.Digest != "" && !c.AcceptAll {
		return command.UsageErrorf("--digest needs --accept-all; accept a single tool with --accept TOOL@HASH")
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	if len(c.Accept) == 0 && (!c.AcceptAll || c.Digest == "") {
		return c.list(ctx, std, server)
	}
	return c.accept(ctx, std, server)
}

// list has the gateway refresh the tools first, so that nobody reviews an
// outdated list.
func (c *connectorReview) list(ctx context.Context, std *command.Streams, server *Client) error {
	in := api.ListToolsInput{ByRef: c.ref(), Fresh: true}
	tools, raw, err := Fetch(ctx, server, api.ListTools, in)
	if p := new(problem); errors.As(err, &p) && p.Code == "role_required" {
		in.Fresh = false
		if tools, raw, err = Fetch(ctx, server, api.ListTools, in); err == nil {
			tools.Error = cmp.Or(tools.Error, "only owners and admins can refresh the list")
		}
	}
	if err != nil {
		return err
	}
	rows := unreviewed(tools.Items)
	if err := c.print(std, raw, func(w io.Writer) {
		if tools.Error != "" {
			printLine(w, fmt.Sprintf("%s cannot list its tools: %s; this list is %s", c.Ref, withoutPeriod(tools.Error), fetchedText(tools.FetchedAt)))
		}
		c.show(w, rows)
	}); err != nil || !c.AcceptAll || len(rows) == 0 {
		return err
	}
	return command.UsageErrorf("confirm that you accept these tools: %s", command.Printable(c.acceptAllCommand(rows)))
}

// fetchedText describes the age of a list.
func fetchedText(t *time.Time) string {
	if t == nil {
		return "of unknown age"
	}
	return fmt.Sprintf("from %s (%s)", t.Local().Format("15:04"), relativeTime(t))
}

// acceptAllCommand returns the command that accepts all rows.
func (c *connectorReview) acceptAllCommand(rows []api.ReviewView) string {
	return c.hint("connector", "review", c.Ref, "--accept-all", "--digest", digest(rows))
}

// unreviewed returns the tools that are new, changed or removed since their
// review.
func unreviewed(tools []api.ReviewView) []api.ReviewView {
	return slices.DeleteFunc(slices.Clone(tools), func(r api.ReviewView) bool { return r.State == action.ToolReviewed })
}

func (c *connectorReview) show(w io.Writer, rows []api.ReviewView) {
	if len(rows) == 0 {
		printLine(w, "no tools of "+c.Ref+" need a review")
		return
	}
	showReviews(w, rows)
	printLine(w, fmt.Sprintf("accept single tools with: %s, or all with: %s", c.hint("connector", "review", c.Ref, "--accept", "TOOL@HASH"), c.acceptAllCommand(rows)))
}

func showReviews(w io.Writer, rows []api.ReviewView) {
	for i := range rows {
		showReview(w, &rows[i])
	}
}

// showReview prints a tool and its unreviewed changes, in the words of its
// server.
func showReview(w io.Writer, r *api.ReviewView) {
	text := fmt.Sprintf("%s is %s", reviewTag(r), r.State)
	if r.Risk != "" {
		text += fmt.Sprintf(" (%s, %s)", r.Risk, r.Mode)
	}
	printLine(w, text)
	if r.Reviewed == nil && r.Current != nil {
		printJSON(w, "    + ", r.Current.Definition)
		return
	}
	for _, change := range r.Changes {
		printLine(w, fmt.Sprintf("    %s %s", change.Kind, change.Path))
		showValue(w, "      - ", change.Before)
		showValue(w, "      + ", change.After)
	}
}

func showValue(w io.Writer, mark string, raw json.RawMessage) {
	if len(raw) > 0 && string(raw) != "null" {
		printJSON(w, mark, raw)
	}
}

// accept accepts exactly the tools that were listed. A tool that has changed
// since is rejected here; for changes in between, the server compares the full
// hashes.
func (c *connectorReview) accept(ctx context.Context, std *command.Streams, server *Client) error {
	tools, raw, err := Fetch(ctx, server, api.ListTools, api.ListToolsInput{ByRef: c.ref()})
	if err != nil {
		return err
	}
	chosen, err := c.choose(tools.Items)
	if unconfirmed := new(unconfirmedError); errors.As(err, &unconfirmed) {
		return cmp.Or(c.print(std, raw, func(w io.Writer) { showReviews(w, unconfirmed.rows) }), err)
	}
	if err != nil {
		return err
	}
	body := api.NewReview{Tools: make([]api.SeenTool, len(chosen))}
	for i := range chosen {
		body.Tools[i] = seenTool(&chosen[i])
	}
	return perform(ctx, &c.clientFlags, std, api.ReviewTools, api.ByRefWith[api.NewReview]{ByRef: c.ref(), Body: body}, func(w io.Writer, _ *api.List[api.ReviewView]) {
		printLine(w, "accepted as shown: "+strings.Join(reviewTags(chosen), ", "))
	})
}

// choose returns the tools to accept, if none has changed since the list.
func (c *connectorReview) choose(tools []api.ReviewView) ([]api.ReviewView, error) {
	if c.AcceptAll {
		if rows := unreviewed(tools); digest(rows) == c.Digest {
			return rows, nil
		}
		return nil, c.changedError("the list of tools to review", "--digest "+c.Digest)
	}
	var chosen []api.ReviewView
	allHashed := true
	for _, text := range c.Accept {
		row, hash, err := c.find(tools, text)
		if err != nil {
			return nil, err
		}
		if allHashed = allHashed && hash; hash && reviewTag(&row) != text {
			return nil, c.changedError(row.Tool, text)
		}
		chosen = append(chosen, row)
	}
	if allHashed {
		return chosen, nil
	}
	words := []string{"connector", "review", c.Ref}
	for _, tag := range reviewTags(chosen) {
		words = append(words, "--accept", tag)
	}
	return nil, &unconfirmedError{command.UsageErrorf("confirm the definition that you accept: %s", command.Printable(c.hint(words...))), chosen}
}

// unconfirmedError rejects rows that were named without their hash.
type unconfirmedError struct {
	error
	rows []api.ReviewView
}

// Unwrap returns the cause.
func (u *unconfirmedError) Unwrap() error { return u.error }

func (c *connectorReview) changedError(what, shown string) error {
	return fmt.Errorf("%s changed since it was shown as %s, so nothing was accepted; list the tools again: %s",
		command.Printable(what), command.Printable(shown), command.Printable(c.hint("connector", "review", c.Ref)))
}

// find returns the tool that text names, and whether text has a hash. The name
// of a tool may contain "@".
func (c *connectorReview) find(tools []api.ReviewView, text string) (row api.ReviewView, hash bool, err error) {
	separator := strings.LastIndexByte(text, '@')
	for _, name := range []string{text[:max(separator, 0)], text} {
		if i := slices.IndexFunc(tools, func(r api.ReviewView) bool { return name != "" && r.Tool == name }); i >= 0 {
			return tools[i], name != text, nil
		}
	}
	return row, false, fmt.Errorf("%s lists no tool %q; it lists: %s", command.Printable(c.Ref), command.Printable(text), command.Printable(strings.Join(toolNames(tools), ", ")))
}

func toolNames(rows []api.ReviewView) []string {
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = r.Tool
	}
	return all
}

// seenTool returns a tool with its hashes; a removed tool has none.
func seenTool(r *api.ReviewView) api.SeenTool {
	if r.Current == nil {
		return api.SeenTool{Tool: r.Tool}
	}
	return api.SeenTool{Tool: r.Tool, Behaviour: r.Current.Behaviour, Text: r.Current.Text}
}

// reviewTag returns the tool with the hash of its current definition, which
// --accept takes.
func reviewTag(r *api.ReviewView) string {
	if r.Current == nil {
		return r.Tool + "@gone"
	}
	return r.Tool + "@" + shortHash(r.Current.Behaviour+r.Current.Text)
}

// digest returns a hash of the current definitions of several tools.
func digest(rows []api.ReviewView) string { return shortHash(strings.Join(reviewTags(rows), "\n")) }

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

func reviewTags(rows []api.ReviewView) []string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = reviewTag(&rows[i])
	}
	return all
}
