package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type connectorOnboard struct {
	theConnector
	Mode     map[string]action.Mode `mapsep:"none" env:"-" placeholder:"TOOL=MODE" help:"Mode of a tool: allow, require_approval or deny; repeat for more. resources/read and prompts/get count as tools."`
	AllReads action.Mode            `enum:"allow,require_approval,deny," default:"" env:"-" placeholder:"MODE" help:"Mode of all read-only tools that --mode does not name."`
	Digest   string                 `env:"-" placeholder:"D" help:"Digest printed below the tool list; required to set modes, and marks the tools as reviewed."`
}

// Run shows the tools. With the digest of what was shown it sets modes and
// takes the tools as reviewed, and nothing else: neither tools that are new
// since, nor definitions that are others by now.
func (c *connectorOnboard) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	all, gone, raw, err := c.tools(ctx, server)
	if err != nil {
		return err
	}
	if err := c.check(all); err != nil {
		return err
	}
	shown := digest(all)
	if c.Digest == "" {
		if err := c.print(std, raw, func(w io.Writer) { c.show(w, all, gone) }); err != nil {
			return err
		}
		if len(c.Mode) > 0 || c.AllReads != "" {
			return wrongUse("nothing is changed: say that you decide about what was just shown with --digest %s", shown)
		}
		return nil
	}
	if c.Digest != shown {
		return fmt.Errorf("the tools of %s changed since the list with digest %s, so nothing was changed; list them again: %s",
			visible(c.Ref), visible(c.Digest), visible(c.hint("connector", "onboard", c.Ref)))
	}
	in := api.ByRefWith[api.Onboarding]{ByRef: c.ref(), Body: api.Onboarding{Tools: c.decided(all)}}
	return perform(ctx, &c.remote, std, api.OnboardTools, in, func(w io.Writer, _ *api.List[api.ReviewView]) {
		said(fmt.Sprintf("set the modes of %s of %s and marked the tools as reviewed", number(len(all), "action"), c.Ref))(w)
		c.left(w, gone)
	})
}

// tools are what the server lists when it is asked now, and beside them how
// its resources are read and its prompts gotten, for which nobody reviews. Gone
// are those that it listed once.
func (c *connectorOnboard) tools(ctx context.Context, server *client) (all, gone []api.ReviewView, raw json.RawMessage, err error) {
	known, raw, err := fetch(ctx, server, api.ListTools, api.ListToolsInput{ByRef: c.ref(), Fresh: true})
	if err != nil {
		return nil, nil, nil, err
	}
	if known.Error != "" {
		return nil, nil, nil, fmt.Errorf("%s cannot be asked: %s; see: %s", visible(c.Ref), clause(known.Error), visible(c.hint("connector", "validate", c.Ref)))
	}
	connector, _, err := fetch(ctx, server, api.GetConnector, c.ref())
	if err != nil {
		return nil, nil, nil, err
	}
	for _, r := range known.Items {
		if r.Current == nil {
			gone = append(gone, r)
		} else {
			all = append(all, r)
		}
	}
	for _, b := range connector.Beside {
		all = append(all, api.ReviewView{Tool: b.Name, Risk: b.Risk, Mode: b.Mode})
	}
	return all, gone, raw, nil
}

// check refuses modes of tools that are not there, and those that are none.
func (c *connectorOnboard) check(all []api.ReviewView) error {
	for tool, mode := range c.Mode {
		if !slices.ContainsFunc(all, func(r api.ReviewView) bool { return r.Tool == tool }) {
			return fmt.Errorf("%s lists no tool %q; it lists: %s", visible(c.Ref), visible(tool), visible(strings.Join(names(all), ", ")))
		}
		if !mode.Valid() {
			return wrongUse("--mode %s=%s: a mode is allow, require_approval or deny", visible(tool), visible(string(mode)))
		}
	}
	return nil
}

// left says what a digest does not decide about: nothing runs of a tool that
// is gone, and to forget it takes a look of its own.
func (c *connectorOnboard) left(w io.Writer, gone []api.ReviewView) {
	if len(gone) > 0 {
		said(fmt.Sprintf("no longer listed: %s; remove their reviews: %s",
			strings.Join(names(gone), ", "), c.hint("connector", "review", c.Ref)))(w)
	}
}

// show lists the tools with what would become of them.
func (c *connectorOnboard) show(w io.Writer, all, gone []api.ReviewView) {
	tableOf(w, "TOOL RISK MODE REVIEW NEW_MODE DESCRIPTION", all, func(r *api.ReviewView) []string {
		return []string{r.Tool, string(r.Risk), string(r.Mode), string(r.State), string(c.mode(r)), words(r)}
	})
	c.left(w, gone)
	said("full definitions: " + c.hint("connector", "review", c.Ref))(w)
	said("to decide: " + c.hint("connector", "onboard", c.Ref, "--digest", digest(all)) + ", and --mode TOOL=MODE or --all-reads allow")(w)
}

// mode is the one that is asked for; empty: what policy says stays.
func (c *connectorOnboard) mode(r *api.ReviewView) action.Mode {
	if mode, ok := c.Mode[r.Tool]; ok || r.Risk != action.RiskRead {
		return mode
	}
	return c.AllReads
}

// words are the beginning of a tool's description.
func words(r *api.ReviewView) string {
	var said struct {
		Description string `json:"description"`
	}
	if r.Current == nil || json.Unmarshal(r.Current.Definition, &said) != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(said.Description), "\n")
	if text := []rune(line); len(text) > 80 {
		line = string(text[:80]) + "…"
	}
	return line
}

// decided is what goes to the server: each tool as it was shown.
func (c *connectorOnboard) decided(all []api.ReviewView) []api.OnboardedTool {
	tools := make([]api.OnboardedTool, len(all))
	for i := range all {
		tools[i] = api.OnboardedTool{SeenTool: seen(&all[i]), Mode: c.mode(&all[i])}
	}
	return tools
}
