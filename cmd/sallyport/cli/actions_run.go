package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	apiclient "sallyport/client"
	"sallyport/cmd/sallyport/command"
)

// waitFlags are the flags of commands that wait for a call.
type waitFlags struct {
	Wait time.Duration `env:"-" default:"10m" placeholder:"D" help:"Time to wait for the call; 0s checks once. After it the exit status is 7 and the call stays open (default: 10m)."`
}

type actionsRun struct {
	agentFlags
	waitFlags
	Source         string `arg:"" help:"ID or name of the source; see sallyport actions list."`
	Action         string `arg:"" help:"Name of the action."`
	Params         string `env:"-" default:"{}" placeholder:"JSON|@FILE|-" help:"Params as a JSON object, a file, or - for standard input (default: {})."`
	IdempotencyKey string `env:"-" placeholder:"KEY" help:"Key that makes repeats the same call, which runs once (default: a new key)."`
}

func (c *actionsRun) Run(ctx context.Context, std *command.Streams) error {
	params, err := readParams(c.Params, std.In)
	if err != nil {
		return err
	}
	w, err := c.waiter(ctx, std, &c.agentFlags)
	if err != nil {
		return err
	}
	key := cmp.Or(c.IdempotencyKey, "cli-"+rand.Text())
	err = w.call(ctx, api.NewCall{Source: c.Source, Action: c.Action, Params: params, IdempotencyKey: key})
	if w.id == "" && (ctx.Err() != nil || errors.As(err, new(noResponseError))) {
		return command.ExitWith(fmt.Errorf("%w; the call may have been made. Run the same command with --idempotency-key %s to get its outcome: the call is never made twice", err, key), command.ExitPending)
	}
	return err
}

// readParams reads the value of --params. Anything but a JSON object is a usage
// error.
func readParams(text string, stdin io.Reader) (json.RawMessage, error) {
	raw, from := []byte(text), "--params"
	var err error
	switch path, file := strings.CutPrefix(text, "@"); {
	case file:
		raw, err = os.ReadFile(path)
		from = path
	case text == "-":
		raw, err = io.ReadAll(io.LimitReader(stdin, apiclient.MaxAnswer))
		from = "standard input"
	}
	if err != nil {
		return nil, fmt.Errorf("reading the params: %w", err)
	}
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return nil, command.UsageErrorf("%s is not valid JSON; write an object such as --params '{\"title\": \"Fix the login page\"}'", command.Printable(from))
	}
	if raw[0] != '{' {
		return nil, command.UsageErrorf("%s is JSON but not an object; params are named, as in --params '{\"title\": \"Fix the login page\"}'", command.Printable(from))
	}
	return raw, nil
}

type actionsWait struct {
	agentFlags
	waitFlags
	ID string `arg:"" help:"ID of the call."`
}

func (c *actionsWait) Run(ctx context.Context, std *command.Streams) error {
	w, err := c.waiter(ctx, std, &c.agentFlags)
	if err != nil {
		return err
	}
	w.id = c.ID
	return w.wait(ctx)
}

// waiter connects and returns a waiter, or an error with the exit status.
func (c *waitFlags) waiter(ctx context.Context, std *command.Streams, agent *agentFlags) (*waiter, error) {
	a, _, err := agent.identify(ctx, std, time.Now().Add(c.Wait))
	switch {
	case errors.As(err, new(noResponseError)) || err != nil && ctx.Err() != nil:
		return nil, command.ExitWith(err, command.ExitPending)
	case err != nil:
		return nil, deniedExit(err)
	}
	return &waiter{agentClient: a, std: std, fullOutcome: agent.JSON}, nil
}

// waiter waits for a call until the deadline of its client, reports its
// progress on standard error and prints its result on standard output.
type waiter struct {
	*agentClient
	std         *command.Streams
	fullOutcome bool   // print the full outcome
	id          string // ID of the invocation, once known

	status action.Status // last status reported
}

// The first long poll is short so that the user soon sees the status. The
// others stay below one minute, after which proxies close idle connections.
const (
	firstPollWait = time.Second
	maxPollWait   = 20 * time.Second
)

// call makes the call and waits for it.
func (w *waiter) call(ctx context.Context, call api.NewCall) error {
	status, out, raw, err := fetchAs(ctx, w.agentClient, api.Invoke, api.InvokeInput{InSession: w.sessionParam(), WaitParam: w.pollWait(firstPollWait), Body: call})
	if err != nil {
		return w.callError(ctx, err)
	}
	if done, err := w.handle(ctx, status, out, raw); done {
		return err
	}
	return w.wait(ctx)
}

// wait polls the call until it ends or the deadline passes.
func (w *waiter) wait(ctx context.Context) error {
	for {
		maxWait := maxPollWait
		if w.status == "" { // report the status before waiting
			maxWait = 0
		}
		status, out, raw, err := fetchAs(ctx, w.agentClient, api.GetSessionResult, api.GetSessionResultInput{InSessionByID: w.callParam(w.id), WaitParam: w.pollWait(maxWait)})
		if err != nil {
			return w.callError(ctx, err)
		}
		if done, err := w.handle(ctx, status, out, raw); done {
			return err
		}
	}
}

// callParam returns the path parameters of routes about a call.
func (a *agentClient) callParam(id string) api.InSessionByID {
	return api.InSessionByID{InSession: a.sessionParam(), ByID: api.ByID{ID: id}}
}

// pollWait returns how long the server may hold the request.
func (w *waiter) pollWait(maxWait time.Duration) api.WaitParam {
	d := max(0, min(time.Until(w.deadline), maxWait)).Round(time.Millisecond)
	return api.WaitParam{Wait: d.String()}
}

// handle processes a response, and reports whether it is the last one.
func (w *waiter) handle(ctx context.Context, status int, out *api.Outcome, raw json.RawMessage) (done bool, err error) {
	w.id = out.Invocation.ID
	if status != http.StatusAccepted {
		return true, w.finish(raw, out)
	}
	w.progress(&out.Invocation)
	if left := time.Until(w.deadline); left > 0 && ctx.Err() == nil {
		return false, nil
	}
	if err := w.print(raw); err != nil {
		return true, err
	}
	return true, w.pendingError(string(out.Invocation.Status))
}

// progress reports the status of the call on standard error.
func (w *waiter) progress(i *action.Invocation) {
	first := w.status == ""
	switch {
	case i.Status == action.StatusPending && first:
		printLine(w.log, "waiting for approval: "+callName(i)+" (invocation "+i.ID+")")
		if i.ApprovalURL != "" {
			printLine(w.log, "  at "+i.ApprovalURL)
		}
		printLine(w.log, "  expires "+relativeTime(i.ExpiresAt)+"; to resume: sallyport actions wait "+i.ID)
	case i.Status == action.StatusPending:
		printLine(w.log, "still waiting for approval; expires "+relativeTime(i.ExpiresAt))
	case i.Status != w.status:
		printLine(w.log, callState(i))
	}
	w.status = i.Status
}

// callName returns the name of the call as its agent knows it.
func callName(i *action.Invocation) string { return cmp.Or(i.SourceName, i.Source) + ":" + i.Action }

// finish prints the outcome and returns the error that sets the exit status.
func (w *waiter) finish(raw json.RawMessage, out *api.Outcome) error {
	i := &out.Invocation
	if out.Result == nil && i.Status == action.StatusCompleted {
		printLine(w.log, "the full result was already fetched or has expired; this is the stored result, redacted and possibly truncated")
		out.Result = i.Result
	}
	switch {
	case w.fullOutcome:
		if err := w.std.PrintJSON(raw); err != nil {
			return err
		}
	case out.Result != nil:
		if err := w.std.PrintJSON(out.Result); err != nil {
			return err
		}
	}
	switch i.Status {
	case action.StatusCompleted:
		return nil
	case action.StatusExpired:
		return command.ExitWith(errors.New(callState(i)), command.ExitExpired)
	}
	if i.Error != nil && i.Error.Code == action.FailedUnknown {
		return command.ExitWith(errors.New(callState(i)), command.ExitUnknown)
	}
	return command.ExitWith(errors.New(callState(i)), command.ExitFailed)
}

// print prints the full outcome if --json is set.
func (w *waiter) print(raw json.RawMessage) error {
	if !w.fullOutcome {
		return nil
	}
	return w.std.PrintJSON(raw)
}

// callError adds the exit status to the error of a call.
func (w *waiter) callError(ctx context.Context, err error) error {
	var p *problem
	switch {
	case ctx.Err() != nil && w.id != "":
		return w.pendingError("pending")
	case errors.As(err, &p) && p.Code == "denied":
		if p.Invocation != "" {
			err = fmt.Errorf("%w (invocation %s)", err, p.Invocation)
		}
		return command.ExitWith(errors.Join(err, w.printDenied(ctx, p.Invocation)), command.ExitDenied)
	case w.status == action.StatusPending && p != nil && p.Status == http.StatusUnauthorized:
		// The session ended between two polls and withdrew its pending calls. An
		// approver may have approved the call just before, so it may have run.
		return command.ExitWith(fmt.Errorf("the session ended and its pending call was withdrawn, unless a person had just approved it; ask a person to check invocation %s: %w", w.id, err), command.ExitUnknown)
	case w.id != "" && p != nil && p.Status == http.StatusUnauthorized:
		return command.ExitWith(fmt.Errorf("the session ended after the call was decided, so the call may or may not have happened; ask a person to check invocation %s: %w", w.id, err), command.ExitUnknown)
	case w.id != "" && errors.As(err, new(noResponseError)):
		return command.ExitWith(fmt.Errorf("%w; the call may still be open, so do not repeat it. Resume it when the gateway answers: sallyport actions wait %s", err, w.id), command.ExitPending)
	}
	return deniedExit(err)
}

// deniedExit sets the exit status of a denial if the session is paused, completed
// or has ended: a retry is of no use.
func deniedExit(err error) error {
	var p *problem
	if errors.As(err, &p) && slices.Contains([]string{"denied", action.CodePaused, action.CodeCompleted, "session_revoked", "session_expired", "unknown_session"}, p.Code) {
		return command.ExitWith(err, command.ExitDenied)
	}
	return err
}

// printDenied prints the invocation if the full outcome is wanted; the error
// response has only its ID.
func (w *waiter) printDenied(ctx context.Context, id string) error {
	if !w.fullOutcome || id == "" {
		return nil
	}
	_, _, invocation, err := fetchAs(ctx, w.agentClient, api.GetSessionInvocation, w.callParam(id))
	if err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]json.RawMessage{"invocation": invocation})
	if err != nil {
		return err
	}
	return w.std.PrintJSON(raw)
}

// pendingError ends the command while the call stays open. It does not withdraw
// the call: an approver may be deciding, and the agent can fetch the outcome
// later.
func (w *waiter) pendingError(status string) error {
	return command.ExitWith(fmt.Errorf("the call is %s and continues without this command; do not repeat it. Resume it with: sallyport actions wait %s", status, w.id), command.ExitPending)
}

// callState describes the status of a call in a sentence.
func callState(i *action.Invocation) string {
	name := callName(i) + " "
	switch i.Status {
	case action.StatusPending:
		return name + "is waiting for approval; it expires " + relativeTime(i.ExpiresAt)
	case action.StatusApproved:
		return name + "was approved and is about to run"
	case action.StatusExecuting:
		return name + "is running"
	case action.StatusExpired:
		return name + "expired before a decision; nothing was executed"
	case action.StatusDenied:
		text := name + "was denied (" + i.DeniedReason + "); nothing was executed"
		if i.DeniedNote != "" {
			text += ": " + i.DeniedNote
		}
		return text
	case action.StatusFailed:
		return name + callFailure(i)
	}
	return name + string(i.Status)
}

// callStatus returns the status of the call, or unknown if its outcome is
// unknown.
func callStatus(i *action.Invocation) string {
	if i.Error != nil && i.Error.Code == action.FailedUnknown {
		return "unknown"
	}
	return string(i.Status)
}

// callFailure describes why the call failed.
func callFailure(i *action.Invocation) string {
	switch {
	case i.Error == nil:
		return "failed"
	case i.Error.Code == action.FailedUnknown:
		return "may or may not have happened: " + i.Error.Message
	}
	return "failed: " + i.Error.Message
}
