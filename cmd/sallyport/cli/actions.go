package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/guide"
	"sallyport/internal/suggest"
)

type actionsCommand struct {
	List         actionsList         `cmd:"" help:"List the actions the session may run or request."`
	Capabilities actionsCapabilities `cmd:"" help:"Show what the session may do at each source: the limits of its group, and every action with its mode and the reason."`
	Guide        actionsGuide        `cmd:"" help:"Describe the actions of the session or of one source."`
	Run          actionsRun          `cmd:"" help:"Run an action, wait while it is pending, and print the result as JSON. Exit status: 0 completed, 3 denied (or the session is paused or has ended), 4 expired, 5 failed, 6 outcome unknown, 7 still pending after --wait, or the gateway is away."`
	Wait         actionsWait         `cmd:"" help:"Wait for an earlier call; same output and exit status as run."`
	Status       actionsStatus       `cmd:"" help:"Show the current status of a call."`
	Calls        actionsCalls        `cmd:"" help:"List the calls of the session."`
	Grant        actionsGrant        `cmd:"" help:"Request a grant from a person."`
	Grants       actionsGrants       `cmd:"" help:"List the grants that apply to the session."`
}

type actionsList struct {
	agentFlags
	Source string `env:"-" placeholder:"SOURCE" help:"Only actions of this source, by ID or name."`
	Search string `env:"-" placeholder:"WORDS" help:"Only actions whose name or description contains all these words."`
}

func (*actionsList) route() api.Operation { return api.ListAvailableActions.Operation }

func (c *actionsList) Run(ctx context.Context, std *command.Streams) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	// With --json, items are printed unchanged.
	type rawActions struct {
		api.List[json.RawMessage]
		Unreachable []action.Outage `json:"unreachable"`
	}
	route := api.Route[api.ListAvailableActionsInput, rawActions]{Operation: api.ListAvailableActions.Operation}
	in := api.ListAvailableActionsInput{InSession: a.sessionParam(), Paging: api.Paging{Limit: 100}}
	var all rawActions
	for more := true; more; more = in.Cursor != "" {
		_, page, _, err := fetchAs(ctx, a, route, in)
		if err != nil {
			return err
		}
		all.Items, all.Unreachable, in.Cursor = append(all.Items, page.Items...), page.Unreachable, page.NextCursor
	}
	var kept []json.RawMessage
	var rows [][]string
	var sources []string
	for _, item := range all.Items {
		var row api.AvailableAction
		if err := decode(item, &row); err != nil {
			return err
		}
		sources = append(sources, cmp.Or(row.SourceName, row.Source))
		if c.matches(&row) {
			kept, rows = append(kept, item), append(rows, actionRow(&row))
		}
	}
	if len(kept) == 0 && c.Source != "" && c.Search == "" {
		return fmt.Errorf("the session has no actions of source %q; see sallyport actions list.%s", c.Source, command.Printable(suggest.Sentence(c.Source, sources)))
	}
	if c.JSON {
		shown := map[string]any{"items": append([]json.RawMessage{}, kept...), "total": len(kept), "next_cursor": ""}
		if len(all.Unreachable) > 0 {
			shown["unreachable"] = all.Unreachable
		}
		raw, err := json.Marshal(shown)
		if err != nil {
			return err
		}
		return std.PrintJSON(raw)
	}
	command.Table(std.Out, []string{"SOURCE", "ACTION", "RISK", "MODE", "WHAT IT DOES"}, rows)
	for line := range strings.Lines(guide.OutageText(all.Unreachable)) {
		printLine(std.Out, strings.TrimSpace(line))
	}
	return nil
}

// actionRow returns the table row of an action.
func actionRow(r *api.AvailableAction) []string {
	what, _, _ := strings.Cut(strings.TrimSpace(r.Description), "\n")
	return []string{cmp.Or(r.SourceName, r.Source), r.Action, string(r.Risk), string(r.Mode), truncate(what)}
}

// matches reports whether an action passes the filters.
func (c *actionsList) matches(r *api.AvailableAction) bool {
	if c.Source != "" && c.Source != r.Source && !strings.EqualFold(c.Source, r.SourceName) {
		return false
	}
	text := strings.ToLower(strings.Join([]string{r.Source, r.SourceName, r.Action, r.Tool, r.Title, r.Description}, " "))
	for word := range strings.FieldsSeq(strings.ToLower(c.Search)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

type actionsCapabilities struct {
	agentFlags
	api.Paging
}

func (*actionsCapabilities) route() api.Operation { return api.GetSessionCapabilities.Operation }

func (c *actionsCapabilities) Run(ctx context.Context, std *command.Streams) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	in := api.GetSessionCapabilitiesInput{InSession: a.sessionParam(), Paging: c.Paging}
	return performAs(ctx, &c.agentFlags, std, a, api.GetSessionCapabilities, in, func(w io.Writer, s *action.Snapshot) {
		switch {
		case s.Group == "":
			printLine(w, "the session has no group, so no capability limits it")
		case s.Task == "":
			printLine(w, "group "+s.Group)
		default:
			printLine(w, "group "+s.Group+", task "+s.Task)
		}
		showProviders(w, s)
	})
}

type actionsStatus struct {
	agentFlags
	ID string `arg:"" help:"ID of the call."`
}

func (c *actionsStatus) Run(ctx context.Context, std *command.Streams) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	return performAs(ctx, &c.agentFlags, std, a, api.GetSessionInvocation, a.callParam(c.ID), func(w io.Writer, i *api.InvocationView) {
		printLine(w, callState(&i.Invocation))
	})
}

type actionsCalls struct {
	agentFlags
	api.Paging
}

func (*actionsCalls) route() api.Operation { return api.ListSessionInvocations.Operation }

func (c *actionsCalls) Run(ctx context.Context, std *command.Streams) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	in := api.ListSessionInvocationsInput{InSession: a.sessionParam(), Paging: c.Paging}
	return performAs(ctx, &c.agentFlags, std, a, api.ListSessionInvocations, in, func(w io.Writer, all *api.InvocationList) {
		table("ID CALL STATUS MADE", func(i *api.InvocationView) []string {
			return []string{i.ID, callName(&i.Invocation), callStatus(&i.Invocation), relativeTime(&i.CreatedAt)}
		})(w, &all.List)
	})
}

type actionsGrant struct {
	Request actionsGrantRequest `cmd:"" help:"Request a grant, so that later calls of an action run without approval. Exit status: 0 requested or not needed, 3 the action is denied."`
}

type actionsGrantRequest struct {
	agentFlags
	api.NewRequest
	Pin []pin `env:"-" sep:"none" placeholder:"/PARAM=JSON" help:"Only calls with exactly this param value; repeat for more."`
}

// Validate rejects arguments that name no action, or an action beside --any.
func (c *actionsGrantRequest) Validate() error {
	switch {
	case c.Any && c.Action != "":
		return fmt.Errorf("--any takes no action; leave out %s, or leave out --any", command.Printable(c.Action))
	case !c.Any && (c.Source == "" || c.Action == ""):
		return errors.New("name the action: sallyport actions grant request SOURCE ACTION; or pass --any for every action that is not dangerous")
	}
	return nil
}

func (c *actionsGrantRequest) Run(ctx context.Context, std *command.Streams) error {
	var err error
	if c.Pins, err = pinsByParam(c.Pin); err != nil {
		return err
	}
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	_, request, raw, err := fetchAs(ctx, a, api.RequestGrant, api.InSessionWith[api.NewRequest]{InSession: a.sessionParam(), Body: c.NewRequest})
	if p := new(problem); errors.As(err, &p) && p.Code == "already_allowed" {
		raw, err = json.Marshal(map[string]string{"status": p.Code, "detail": p.Detail})
		if err != nil {
			return err
		}
		return c.print(std, raw, lineText(p.Detail))
	}
	if err != nil {
		return deniedExit(err)
	}
	return c.print(std, raw, func(w io.Writer) {
		printLine(w, fmt.Sprintf("requested a grant for %s: %s (request %s, %s)", termsText(&request.Terms, request.Name), limitsText(&request.Terms), request.ID, request.Status))
		printLine(w, "continue to make calls; sallyport actions grants lists the grant once a person approved it")
	})
}

type actionsGrants struct {
	agentFlags
	api.Paging
}

func (c *actionsGrants) Run(ctx context.Context, std *command.Streams) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	in := api.ListSessionGrantsInput{InSession: a.sessionParam(), Paging: c.Paging}
	return performAs(ctx, &c.agentFlags, std, a, api.ListSessionGrants, in, table("ID ALLOWS SCOPE CALLS_LEFT STATE", func(g *api.CoveringGrant) []string {
		left := "any number"
		if g.CallsLeft != nil {
			left = strconv.FormatInt(*g.CallsLeft, 10)
		}
		return []string{g.ID, termsText(&g.Terms, g.Name), string(g.Scope), left, expiryText(g.ExpiresAt)}
	}))
}

type actionsGuide struct {
	agentFlags
	Source string `arg:"" optional:"" help:"ID or name of a source (default: all sources of the session)."`
	api.OfGuide
	Write string `env:"-" type:"path" placeholder:"DIR" help:"Write actions-guide.md to this folder instead of printing it."`
}

// guideFile is the name of the guide in the folder of --write.
const guideFile = "actions-guide.md"

func (c *actionsGuide) Run(ctx context.Context, std *command.Streams) error {
	switch {
	case c.Write != "" && (c.Source != "" || c.OfGuide != (api.OfGuide{})):
		return command.UsageErrorf("--write writes the guide to all actions of the session; leave out SOURCE, --action, --denied and --cursor")
	case c.Denied && c.Action != "":
		return command.UsageErrorf("--denied lists all actions that are denied; leave out --action")
	}
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	_, guide, raw, err := c.fetch(ctx, a)
	if err != nil {
		return err
	}
	if c.Write != "" {
		return writeGuide(std, c.Write, guide.Markdown)
	}
	return c.print(std, raw, func(w io.Writer) { printText(w, guide.Markdown) })
}

func (c *actionsGuide) fetch(ctx context.Context, a *agentClient) (int, *api.GuideView, json.RawMessage, error) {
	if c.Source == "" {
		return fetchAs(ctx, a, api.GetGuide, api.GetGuideInput{InSession: a.sessionParam(), OfGuide: c.OfGuide})
	}
	return fetchAs(ctx, a, api.GetSourceGuide, api.GetSourceGuideInput{InSession: a.sessionParam(), OfGuide: c.OfGuide, Source: c.Source})
}

func writeGuide(std *command.Streams, folder, text string) error {
	if strings.HasSuffix(folder, ".md") {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return command.UsageErrorf("--write takes a folder, in which the file is named %s; leave out %s", guideFile, command.Printable(filepath.Base(folder)))
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return command.UnwritableError(folder, err)
	}
	path := filepath.Join(folder, guideFile)
	if err := command.WriteFile(path, []byte(text)); err != nil {
		return err
	}
	printLine(std.Out, "wrote the guide to "+path)
	return nil
}

// printText prints text of several lines with control characters escaped.
func printText(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(w, command.Printable(strings.TrimRight(line, "\r\n")))
	}
}
