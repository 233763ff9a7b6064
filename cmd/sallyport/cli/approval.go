package cli

import (
	"cmp"
	"context"
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
	"sallyport/internal/gitpush"
)

// callSummary describes a pending call in a line.
func callSummary(i *action.Invocation) string {
	return fmt.Sprintf("%s, %s, of session %s", actionLabel(i.SourceName, i.Source, i.Action), i.Risk, i.Session)
}

// actionLabel names an action with the name of its source. The source ID
// follows because the name is chosen by users.
func actionLabel(name, source, action string) string {
	if name == "" || name == source {
		return source + ":" + action
	}
	return fmt.Sprintf("%s:%s (%s)", name, action, source)
}

// showPendingCall prints what the call does, why it needs approval, and the
// alerts. The source and the agent provide params.
func showPendingCall(w io.Writer, i *api.InvocationView, callCtx *callContext, params string) {
	printLine(w, i.ID+"  "+callSummary(&i.Invocation))
	callCtx.show(w, i)
	decision := action.Decision{Source: i.ModeSource, Steps: i.Steps}
	alerts := action.Alerts(i.Steps)
	if reason := decision.Why(); reason != "" && !slices.ContainsFunc(alerts, func(s action.Step) bool { return s.Note == reason }) {
		printLine(w, "    "+reason)
	}
	for _, alert := range alerts {
		printLine(w, "! "+alert.Note)
	}
	for _, line := range describeParams(&i.Invocation, params) {
		printLine(w, "    "+line)
	}
}

// describeParams returns the lines for params, which follow a label: what a push
// contains and its diff, or else the params as they are.
func describeParams(i *action.Invocation, params string) []string {
	_, raw, _ := strings.Cut(params, "params ")
	push, ok := gitpush.Parse(i.Source, i.Action, json.RawMessage(raw))
	if !ok {
		return []string{params}
	}
	text := push.Overview()
	if push.Diff != "" {
		text += "\n\n" + strings.TrimSuffix(push.Diff, "\n")
	}
	if push.DiffCut {
		text += "\n(the diff is truncated)"
	}
	return strings.Split(text, "\n")
}

// showCall prints a call.
func showCall(ctx context.Context, w io.Writer, c *clientFlags, i *api.InvocationView) {
	names := c.loadLabels(ctx, actorLists()...)
	printLine(w, i.ID+"  "+callSummary(&i.Invocation))
	status := "status: " + string(i.Status)
	if i.ApprovedBy != "" {
		status += ", decided by " + names.name(i.ApprovedBy)
	}
	for _, note := range []string{failureCode(&i.Invocation), i.DeniedNote} {
		if note != "" {
			status += ", " + note
		}
	}
	printLine(w, "    "+status)
	for _, line := range describeParams(&i.Invocation, "params "+string(i.Params)) {
		printLine(w, "    "+line)
	}
	if len(i.Result) > 0 {
		printLine(w, "    result "+string(i.Result))
	}
}

type pendingCommand struct {
	clientFlags
	api.Paging
	Kind string `enum:"calls,grants,variables,runs," env:"-" default:"" placeholder:"KIND" help:"Only one kind: calls, grants, variables or runs. --json prints that list, and without --kind the calls."`
}

// Run lists the pending calls with redacted params, the requests of agents, and the
// runs that need attention.
func (c *pendingCommand) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	calls, grants, variables, runs := &api.InvocationList{}, &api.List[api.RequestView]{}, &api.List[action.EnvRequest]{}, &api.List[api.RunView]{}
	for _, kind := range []struct {
		name string
		list func() (json.RawMessage, error)
	}{
		{"calls", func() (raw json.RawMessage, err error) {
			query := api.ListInvocationsInput{Paging: c.Paging, CallFilters: api.CallFilters{Status: []action.Status{action.StatusPending}}}
			calls, raw, err = Fetch(ctx, server, api.ListInvocations, query)
			return raw, err
		}},
		{"grants", func() (raw json.RawMessage, err error) {
			grants, raw, err = Fetch(ctx, server, api.ListGrantRequests, api.ListGrantRequestsInput{Status: action.RequestPending})
			return raw, err
		}},
		{"variables", func() (raw json.RawMessage, err error) {
			variables, raw, err = Fetch(ctx, server, api.ListEnvRequests, api.ListEnvRequestsInput{Status: action.EnvPending})
			return raw, err
		}},
		{"runs", func() (raw json.RawMessage, err error) {
			runs, raw, err = Fetch(ctx, server, api.ListRuns, api.RunQuery{Attention: true})
			return raw, err
		}},
	} {
		if c.Kind != "" && c.Kind != kind.name {
			continue
		}
		raw, err := kind.list()
		if err != nil {
			return err
		}
		if c.JSON {
			return std.PrintJSON(raw)
		}
	}
	if len(calls.Items)+len(grants.Items)+len(variables.Items)+len(runs.Items) == 0 {
		fmt.Fprintln(std.Out, "no pending approvals")
	}
	c.showCalls(ctx, std.Out, server, calls)
	c.showGrantRequests(std.Out, grants)
	c.showEnvRequests(std.Out, variables)
	c.showRuns(std.Out, runs)
	return nil
}

// showRuns prints the runs that need attention.
func (c *pendingCommand) showRuns(w io.Writer, runs *api.List[api.RunView]) {
	if len(runs.Items) == 0 {
		return
	}
	fmt.Fprintln(w, "runs that need attention:")
	for i := range runs.Items {
		r := &runs.Items[i]
		printLine(w, fmt.Sprintf("%s  %s of %s: %s", r.ID, cmp.Or(r.Title, "run"), cmp.Or(r.AutomationName, "a removed automation"), runState(r)))
		if r.Message != "" {
			printLine(w, "    "+r.Message)
		}
		printLine(w, "    "+runTimes(r))
	}
	if runs.NextCursor != "" {
		printLine(w, "there are more; list all with: "+c.hint("run", "list", "--attention"))
	}
	printLine(w, "to act: "+c.hint("run", "redrive", "ID")+" repeats a run; "+c.hint("run", "resolve", "ID", "succeeded")+" sets its result (failed dismisses a failed run)")
}

func (c *pendingCommand) showCalls(ctx context.Context, w io.Writer, server *Client, calls *api.InvocationList) {
	if len(calls.Items) == 0 {
		return
	}
	callCtx := server.callContext(ctx, calls.Items...)
	for k := range calls.Items {
		i := &calls.Items[k]
		showPendingCall(w, i, callCtx, "params "+string(i.Params))
		fmt.Fprintf(w, "    requested %s, expires %s\n", relativeTime(&i.CreatedAt), relativeTime(i.ExpiresAt))
	}
	printNextPage(w, calls.NextCursor)
	printLine(w, "to decide: "+c.hint("approve", "ID")+" (--reveal shows redacted params), or: "+c.hint("deny", "ID", "--reason", "TEXT"))
}

func (c *pendingCommand) showGrantRequests(w io.Writer, requests *api.List[api.RequestView]) {
	if len(requests.Items) == 0 {
		return
	}
	fmt.Fprintln(w, "grant requests:")
	for i := range requests.Items {
		showGrantRequest(w, &requests.Items[i])
	}
	if requests.NextCursor != "" {
		printLine(w, "there are more; list all with: "+c.hint("grant", "requests"))
	}
	c.showGrantHint(w)
}

func (c *pendingCommand) showEnvRequests(w io.Writer, requests *api.List[action.EnvRequest]) {
	if len(requests.Items) == 0 {
		return
	}
	fmt.Fprintln(w, "environment variable requests:")
	for i := range requests.Items {
		showEnvRequest(w, &requests.Items[i])
	}
	if requests.NextCursor != "" {
		printLine(w, "there are more; list all with: "+c.hint("env", "requests"))
	}
	c.showEnvHint(w)
}

// pendingCall is the argument of approve and deny.
type pendingCall struct {
	clientFlags
	ID string `arg:"" help:"ID of the pending call; see sallyport pending."`
}

// showDecision prints the decision and the user who made it.
func showDecision(w io.Writer, verb, user string, o *api.Outcome) {
	printLine(w, fmt.Sprintf("%s %s", verb, callSummary(&o.Invocation)))
	printLine(w, fmt.Sprintf("as %s (user %s)", user, o.Invocation.ApprovedBy))
}

type approveCommand struct {
	pendingCall
	grantLimits
	Wait       time.Duration `env:"-" placeholder:"D" help:"Wait for the call to end and print its result."`
	Grant      api.ScopeName `env:"-" enum:"session,org,organization," default:"" placeholder:"SCOPE" help:"Also approve later calls of the action: session (this session) or org (all sessions)."`
	Unreviewed bool          `env:"-" help:"Grant even if the tool changed since its review; needs --grant."`
	Reveal     bool          `env:"-" help:"Show redacted params before approving; this is recorded."`
	Pin        []string      `sep:"none" env:"-" placeholder:"/PARAM" help:"Limit --grant to the value this param has here; repeat for more."`
}

// grant returns the grant to create with the approval, or nil.
func (c *approveCommand) grant() (*api.ApprovalGrant, error) {
	if c.Grant == "" {
		if c.isSet() || c.Pin != nil || c.Unreviewed {
			return nil, command.UsageErrorf("--max-calls, --expires, --pin and --unreviewed need --grant session or --grant org; without --grant, only this call is approved")
		}
		return nil, nil
	}
	for i, pointer := range c.Pin {
		if slices.Contains(c.Pin[:i], pointer) {
			return nil, command.UsageErrorf("--pin %s is given twice; remove one", command.Printable(pointer))
		}
	}
	return &api.ApprovalGrant{Scope: c.Grant, Pin: c.Pin, Unreviewed: c.Unreviewed, MaxCalls: c.MaxCalls, Lifetime: c.Expires.Lifetime}, nil
}

// Run shows the pending call, then approves exactly that: the request carries
// the hashes of what it showed. Only --reveal shows redacted params.
func (c *approveCommand) Run(ctx context.Context, std *command.Streams) error {
	grant, err := c.grant()
	if err != nil {
		return err
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	shown, user, err := c.showCall(ctx, std, server, c.Reveal)
	if err != nil {
		return err
	}
	in := api.ByIDWaitWith[*api.Approval]{Body: &api.Approval{ParamsHash: shown.ParamsHash, ToolHash: shown.ToolHash, Grant: grant}}
	in.ID = c.ID
	if c.Wait > 0 {
		in.Wait = c.Wait.String()
		server.HTTP.Timeout += c.Wait
	}
	if grant != nil {
		in.Body.Mode = "grant"
	}
	outcome, raw, err := Fetch(ctx, server, api.ApproveInvocation, in)
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) {
		showDecision(w, "approved", user, outcome)
		if g := outcome.Grant; g != nil {
			g.Name = cmp.Or(g.Name, outcome.Invocation.SourceName)
			showGrant(w, g, &c.clientFlags)
		}
		if c.Wait > 0 {
			showOutcome(w, outcome)
		}
	}); err != nil {
		return err
	}
	return outcomeError(&outcome.Invocation)
}

// showCall prints the call before the decision, and returns it with the name of
// the user. With --json it prints to standard error. The server logs a reveal.
func (v *pendingCall) showCall(ctx context.Context, std *command.Streams, server *Client, reveal bool) (*api.InvocationView, string, error) {
	id := api.ByID{ID: v.ID}
	i, _, err := Fetch(ctx, server, api.GetInvocation, id)
	if err != nil {
		return nil, "", err
	}
	params := "params " + string(i.Params)
	if reveal {
		all, _, err := Fetch(ctx, server, api.GetInvocationParams, id)
		if err != nil {
			return nil, "", err
		}
		if all.Full { // the params of an ended call are deleted
			params = "unredacted params " + string(all.Params)
		}
	}
	me, _, err := Fetch(ctx, server, api.GetMe, api.None{})
	if err != nil {
		return nil, "", err
	}
	out := std.Out
	if v.JSON {
		out = std.Err
	}
	showPendingCall(out, i, server.callContext(ctx, *i), params)
	return i, me.Name, nil
}

// showOutcome prints the result of a call, for --wait.
func showOutcome(w io.Writer, o *api.Outcome) {
	text := string(o.Invocation.Status)
	if answer := cmp.Or(string(o.Result), string(o.Problem)); answer != "" {
		text += ": " + answer
	}
	printLine(w, text)
}

// outcomeError returns an error if the approved call did not complete.
func outcomeError(i *action.Invocation) error {
	switch {
	case i.Error != nil:
		return errors.New(command.Printable(i.Error.Message))
	case i.Status == action.StatusDenied:
		return fmt.Errorf("the call was denied (%s): %s", command.Printable(i.DeniedReason), command.Printable(cmp.Or(i.DeniedNote, "no reason was given")))
	case i.Status == action.StatusExpired:
		return errors.New("the call expired before it ran; the agent can call again")
	}
	return nil
}

type denyCommand struct {
	pendingCall
	api.Denial
}

// Run shows the pending call, then denies exactly that, by its hashes.
func (c *denyCommand) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	shown, user, err := c.showCall(ctx, std, server, false)
	if err != nil {
		return err
	}
	c.ParamsHash, c.ToolHash = shown.ParamsHash, shown.ToolHash
	in := api.ByIDWith[*api.Denial]{ByID: api.ByID{ID: c.ID}, Body: &c.Denial}
	return perform(ctx, &c.clientFlags, std, api.DenyInvocation, in, func(w io.Writer, outcome *api.Outcome) { showDecision(w, "denied", user, outcome) })
}
