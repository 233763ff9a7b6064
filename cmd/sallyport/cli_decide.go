package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// verdict is what approve and deny have in common.
type verdict struct {
	remote
	ID string `arg:"" help:"Id of the held call; see sallyport pending."`
}

func (v *verdict) path() string { return "/api/v1/invocations/" + url.PathEscape(v.ID) }

// outcome is the answer of approve and deny.
type outcome struct {
	Invocation invocationRow   `json:"invocation"`
	Grant      *grantRow       `json:"grant"`
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
	bounds
	Wait  time.Duration `placeholder:"D" help:"Wait this long for the call to end, and print its result."`
	Grant string        `enum:"session,org,organization," default:"" placeholder:"SCOPE" help:"Let later calls of the action through too: session (of this one) or org (of all)."`
	Pin   []string      `sep:"none" placeholder:"/PARAM" help:"With --grant: only calls with the value that this param has here; again for more."`
}

// grant is what is granted beside the call; nil: nothing.
func (c *approveCommand) grant() (map[string]any, error) {
	if c.Grant == "" {
		if c.given() || c.Pin != nil {
			return nil, wrongUse("--max-calls, --expires and --pin go with --grant session or --grant org; without it, the call runs once")
		}
		return nil, nil
	}
	grant := map[string]any{"scope": c.Grant}
	if c.Pin != nil {
		grant["pin"] = c.Pin
	}
	c.into(grant)
	return grant, nil
}

// shownCall is what a person decides on.
type shownCall struct {
	Params     json.RawMessage `json:"params"`
	ParamsHash string          `json:"params_hash"`
	ToolHash   string          `json:"tool_hash"`
}

// Run shows what will run, and approves that and nothing else: the hashes of
// what it showed go along.
func (c *approveCommand) Run(ctx context.Context, std *stdio) error {
	grant, err := c.grant()
	if err != nil {
		return err
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	var shown shownCall
	if _, err := server.read(ctx, c.path()+"/params", nil, &shown); err != nil {
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
	body := map[string]any{"params_hash": shown.ParamsHash, "tool_hash": shown.ToolHash}
	if grant != nil {
		body["mode"], body["grant"] = "grant", grant
	}
	var done outcome
	raw, err := server.change(ctx, http.MethodPost, path, body, &done)
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) {
		done.decided("approved", who)(w)
		fmt.Fprintf(w, "params %s\n", oneLine(shown.Params))
		if g := done.Grant; g != nil {
			g.Name = cmp.Or(g.Name, done.Invocation.SourceName)
			g.report(w, &c.remote)
		}
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

// Run denies what it shows: the hashes go along.
func (c *denyCommand) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var shown shownCall
	if _, err := server.read(ctx, c.path(), nil, &shown); err != nil {
		return err
	}
	who, err := server.whoami(ctx)
	if err != nil {
		return err
	}
	body := given{"reason": c.Reason, "params_hash": shown.ParamsHash, "tool_hash": shown.ToolHash}.set()
	var done outcome
	raw, err := server.change(ctx, http.MethodPost, c.path()+"/deny", body, &done)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		done.decided("denied", who)(w)
		fmt.Fprintf(w, "params %s\n", oneLine(shown.Params))
	})
}
