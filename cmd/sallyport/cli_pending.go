package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"sallyport/action"
)

type invocationRow struct {
	ID         string          `json:"id"`
	Session    string          `json:"session_id"`
	SourceName string          `json:"source_name"`
	Source     string          `json:"source_id"`
	Action     string          `json:"action"`
	Risk       string          `json:"risk"`
	Status     string          `json:"status"`
	Summary    string          `json:"summary"` // redacted
	Params     json.RawMessage `json:"params"`  // redacted
	ParamsHash string          `json:"params_hash"`
	ToolHash   string          `json:"tool_hash"`
	ModeSource action.Layer    `json:"mode_source"`
	Steps      []action.Step   `json:"decision"`
	DecidedBy  string          `json:"approved_by"`
	Denied     string          `json:"denied_reason"`
	DeniedNote string          `json:"denied_note"`
	CreatedAt  *time.Time      `json:"created_at"`
	ExpiresAt  *time.Time      `json:"expires_at"`
	// Integration is what a module's call is for.
	Integration string `json:"integration_id"`
	Error       *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// what names the call.
func (i *invocationRow) what() string {
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

// show tells what the call is, why it waits, and what a person must know before
// he lets it run. What the source and the agent said of it is in params.
func (i *invocationRow) show(w io.Writer, of *whose, params string) {
	said(i.ID + "  " + i.what())(w)
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
	paging
}

// Run lists what is held, each call with its redacted params. With --json it is
// the calls alone; grant requests and env requests have the rest.
func (c *pendingCommand) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	query := c.query()
	query.Set("status", "pending")
	var held list[invocationRow]
	raw, err := server.read(ctx, "/api/v1/invocations", query, &held)
	if err != nil {
		return err
	}
	var asked list[requestRow]
	if !c.JSON {
		if _, err := server.read(ctx, "/api/v1/grant-requests", url.Values{"status": {"pending"}}, &asked); err != nil {
			return err
		}
	}
	var lacks list[envRequestRow]
	if !c.JSON {
		if _, err := server.read(ctx, envRequestsPath, url.Values{"status": {"pending"}}, &lacks); err != nil {
			return err
		}
	}
	return c.print(std, raw, func(w io.Writer) {
		if len(held.Items)+len(asked.Items)+len(lacks.Items) == 0 {
			fmt.Fprintln(w, "nothing waits for a decision")
		}
		c.showCalls(w, server.whose(ctx, held.Items...), held)
		c.showRequests(w, asked)
		c.showVariables(w, lacks)
	})
}

func (c *pendingCommand) showCalls(w io.Writer, of *whose, held list[invocationRow]) {
	if len(held.Items) == 0 {
		return
	}
	for k := range held.Items {
		i := &held.Items[k]
		i.show(w, of, "params "+string(i.Params))
		fmt.Fprintf(w, "    asked %s, expires %s\n", since(i.CreatedAt), since(i.ExpiresAt))
	}
	more(w, held.NextCursor)
	said("decide with: " + c.hint("approve", "ID") + " (--reveal shows what is redacted), or: " + c.hint("deny", "ID", "--reason", "TEXT"))(w)
}

func (c *pendingCommand) showRequests(w io.Writer, asked list[requestRow]) {
	if len(asked.Items) == 0 {
		return
	}
	fmt.Fprintln(w, "requests for grants:")
	for _, r := range asked.Items {
		r.report(w)
	}
	if asked.NextCursor != "" {
		said("and more; all of them: " + c.hint("grant", "requests"))(w)
	}
	c.howToGrant(w)
}

func (c *pendingCommand) showVariables(w io.Writer, lacks list[envRequestRow]) {
	if len(lacks.Items) == 0 {
		return
	}
	fmt.Fprintln(w, "requests for environment variables:")
	for _, r := range lacks.Items {
		r.report(w)
	}
	if lacks.NextCursor != "" {
		said("and more; all of them: " + c.hint("env", "requests"))(w)
	}
	c.howToGive(w)
}
