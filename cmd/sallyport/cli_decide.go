package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

type invocationRow struct {
	ID         string          `json:"id"`
	Session    string          `json:"session_id"`
	SourceName string          `json:"source_name"`
	Source     string          `json:"source_id"`
	Action     string          `json:"action"`
	Risk       string          `json:"risk"`
	Status     string          `json:"status"`
	Params     json.RawMessage `json:"params"`
	ParamsHash string          `json:"params_hash"`
	ToolHash   string          `json:"tool_hash"`
	DecidedBy  string          `json:"approved_by"`
	CreatedAt  *time.Time      `json:"created_at"`
	ExpiresAt  *time.Time      `json:"expires_at"`
	Error      *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// what names the call. The source's id leads: its name is what somebody chose
// to call it.
func (i *invocationRow) what() string {
	return fmt.Sprintf("%s:%s (%s, source %s) of session %s", i.Source, i.Action, i.Risk, i.SourceName, i.Session)
}

type pendingCommand struct {
	remote
	paging
}

// Run lists what is held, each call with its params. Redacted parts are shown
// in full by approve.
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
	return c.print(std, raw, func(w io.Writer) {
		if len(held.Items) == 0 {
			fmt.Fprintln(w, "nothing waits for a decision")
			return
		}
		for _, i := range held.Items {
			fmt.Fprintf(w, "%s  %s\n    asked %s, expires %s\n    params %s\n",
				i.ID, visible(i.what()), since(i.CreatedAt), since(i.ExpiresAt), oneLine(i.Params))
		}
		more(w, held)
		at := ""
		if c.Data != "" {
			at = " --data " + c.Data
		}
		fmt.Fprintf(w, "decide with: sallyport approve ID%[1]s, or: sallyport deny ID%[1]s --reason TEXT\n", at)
	})
}

// verdict is what approve and deny have in common.
type verdict struct {
	remote
	ID string `arg:"" help:"Id of the held call; see sallyport pending."`
}

func (v *verdict) path() string { return "/api/v1/invocations/" + url.PathEscape(v.ID) }

// outcome is the answer of approve and deny.
type outcome struct {
	Invocation invocationRow   `json:"invocation"`
	Result     json.RawMessage `json:"result"`
	Problem    json.RawMessage `json:"problem"`
}

// decided tells who decided what.
func (o *outcome) decided(verb, who string) func(io.Writer) {
	return func(w io.Writer) {
		said(fmt.Sprintf("%s %s", verb, o.Invocation.what()))(w)
		said(fmt.Sprintf("as %s (user %s)", who, o.Invocation.DecidedBy))(w)
	}
}

// whoami returns the name behind the key.
func (c *client) whoami(ctx context.Context) (string, error) {
	var me struct {
		Name string `json:"name"`
	}
	_, err := c.read(ctx, "/api/v1/me", nil, &me)
	return me.Name, err
}

type approveCommand struct {
	verdict
	Wait time.Duration `placeholder:"D" help:"Wait this long for the call to end, and print its result."`
}

// Run shows what will run, and approves that and nothing else: the hashes of
// what it showed go along.
func (c *approveCommand) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var full struct {
		Params     json.RawMessage `json:"params"`
		ParamsHash string          `json:"params_hash"`
		ToolHash   string          `json:"tool_hash"`
	}
	if _, err := server.read(ctx, c.path()+"/params", nil, &full); err != nil {
		return err
	}
	who, err := server.whoami(ctx)
	if err != nil {
		return err
	}
	path := c.path() + "/approve"
	if c.Wait > 0 {
		path += "?" + url.Values{"wait": {c.Wait.String()}}.Encode()
		server.http.Timeout += c.Wait
	}
	var done outcome
	raw, err := server.change(ctx, http.MethodPost, path, map[string]any{"params_hash": full.ParamsHash, "tool_hash": full.ToolHash}, &done)
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) {
		done.decided("approved", who)(w)
		fmt.Fprintf(w, "params %s\n", oneLine(full.Params))
		done.report(w, c.Wait > 0)
	}); err != nil {
		return err
	}
	return done.failed()
}

// report tells how the call ended, for those who waited.
func (o *outcome) report(w io.Writer, waited bool) {
	switch {
	case !waited:
	case o.Result != nil:
		fmt.Fprintf(w, "%s: %s\n", o.Invocation.Status, oneLine(o.Result))
	case o.Problem != nil:
		fmt.Fprintf(w, "%s: %s\n", o.Invocation.Status, oneLine(o.Problem))
	default:
		fmt.Fprintln(w, visible(o.Invocation.Status))
	}
}

// failed is an error when the call that was approved did not end well.
func (o *outcome) failed() error {
	if o.Invocation.Error == nil {
		return nil
	}
	return errors.New(visible(o.Invocation.Error.Message))
}

type denyCommand struct {
	verdict
	Reason string `placeholder:"TEXT" help:"Why; the agent reads it."`
}

func (c *denyCommand) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	who, err := server.whoami(ctx)
	if err != nil {
		return err
	}
	var done outcome
	raw, err := server.change(ctx, http.MethodPost, c.path()+"/deny", given{"reason": c.Reason}.set(), &done)
	if err != nil {
		return err
	}
	return c.print(std, raw, done.decided("denied", who))
}
