package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"sallyport/action"
	"sallyport/api"
)

// held names a call that a person decides on.
func held(i *action.Invocation) string {
	return fmt.Sprintf("%s, %s, of session %s", call(i.SourceName, i.Source, i.Action), i.Risk, i.Session)
}

// call names an action as people do, with the source's id behind it: the name
// is what somebody chose.
func call(name, source, act string) string {
	if name == "" || name == source {
		return source + ":" + act
	}
	return fmt.Sprintf("%s:%s (%s)", name, act, source)
}

// showHeld tells what the call is, why it waits, and what a person must know
// before he lets it run. What the source and the agent said of it is in params.
func showHeld(w io.Writer, i *action.Invocation, of *whose, params string) {
	said(i.ID + "  " + held(i))(w)
	of.show(w, i)
	decision := action.Decision{Source: i.ModeSource, Steps: i.Steps}
	alerts := action.Alerts(i.Steps)
	if why := decision.Why(); why != "" && !slices.Contains(alerts, why) {
		said("    " + why)(w)
	}
	for _, note := range alerts {
		said("! " + note)(w)
	}
	said("    " + params)(w)
}

type pendingCommand struct {
	remote
	api.Paging
}

// Run lists what is held, each call with its redacted params. With --json it is
// the calls alone; grant requests and env requests have the rest.
func (c *pendingCommand) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	of := api.ListInvocationsInput{Paging: c.Paging, Sought: api.Sought{Status: []action.Status{action.StatusPending}}}
	calls, raw, err := fetch(ctx, server, api.ListInvocations, of)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.printJSON(raw)
	}
	asked, _, err := fetch(ctx, server, api.ListGrantRequests, api.ListGrantRequestsInput{Status: action.RequestPending})
	if err != nil {
		return err
	}
	lacks, _, err := fetch(ctx, server, api.ListEnvRequests, api.ListEnvRequestsInput{Status: action.EnvPending})
	if err != nil {
		return err
	}
	if len(calls.Items)+len(asked.Items)+len(lacks.Items) == 0 {
		fmt.Fprintln(std.Out, "no pending approvals")
	}
	c.showCalls(ctx, std.Out, server, calls)
	c.showRequests(std.Out, asked)
	c.showVariables(std.Out, lacks)
	return nil
}

func (c *pendingCommand) showCalls(ctx context.Context, w io.Writer, server *client, calls *api.InvocationList) {
	if len(calls.Items) == 0 {
		return
	}
	all := make([]*action.Invocation, len(calls.Items))
	for k := range calls.Items {
		all[k] = &calls.Items[k].Invocation
	}
	of := server.whose(ctx, all...)
	for _, i := range all {
		showHeld(w, i, of, "params "+string(i.Params))
		fmt.Fprintf(w, "    requested %s, expires %s\n", since(&i.CreatedAt), since(i.ExpiresAt))
	}
	more(w, calls.NextCursor)
	said("to decide: " + c.hint("approve", "ID") + " (--reveal shows redacted params), or: " + c.hint("deny", "ID", "--reason", "TEXT"))(w)
}

func (c *pendingCommand) showRequests(w io.Writer, asked *api.List[api.RequestView]) {
	if len(asked.Items) == 0 {
		return
	}
	fmt.Fprintln(w, "requests for grants:")
	for i := range asked.Items {
		showRequest(w, &asked.Items[i])
	}
	if asked.NextCursor != "" {
		said("and more; all of them: " + c.hint("grant", "requests"))(w)
	}
	c.howToGrant(w)
}

func (c *pendingCommand) showVariables(w io.Writer, lacks *api.List[action.EnvRequest]) {
	if len(lacks.Items) == 0 {
		return
	}
	fmt.Fprintln(w, "requests for environment variables:")
	for i := range lacks.Items {
		reportEnv(w, &lacks.Items[i])
	}
	if lacks.NextCursor != "" {
		said("and more; all of them: " + c.hint("env", "requests"))(w)
	}
	c.howToGive(w)
}
