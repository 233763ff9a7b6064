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
	"slices"
	"time"

	"sallyport/action"
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
	Wait       time.Duration `env:"-" placeholder:"D" help:"Wait this long for the call to end, and print its result."`
	Grant      string        `env:"-" enum:"session,org,organization," default:"" placeholder:"SCOPE" help:"Let later calls of the action through too: session (of this one) or org (of all)."`
	Unreviewed bool          `env:"-" help:"With --grant: grant it although the tool is not as it was reviewed."`
	Reveal     bool          `env:"-" help:"Show the params with nothing redacted, before approving; it is recorded that you did."`
	Pin        []string      `sep:"none" env:"-" placeholder:"/PARAM" help:"With --grant: only calls with the value that this param has here; again for more."`
}

// grant is what is granted beside the call; nil: nothing.
func (c *approveCommand) grant() (map[string]any, error) {
	if c.Grant == "" {
		if c.given() || c.Pin != nil || c.Unreviewed {
			return nil, wrongUse("--max-calls, --expires, --pin and --unreviewed go with --grant session or --grant org; without it, the call runs once")
		}
		return nil, nil
	}
	for i, pointer := range c.Pin {
		if slices.Contains(c.Pin[:i], pointer) {
			return nil, wrongUse("--pin %s is there twice; once is enough", visible(pointer))
		}
	}
	grant := map[string]any{"scope": c.Grant}
	if c.Pin != nil {
		grant["pin"] = c.Pin
	}
	if c.Unreviewed {
		grant["unreviewed"] = true
	}
	c.into(grant)
	return grant, nil
}

// Run shows what will run, and then approves that and nothing else: the hashes
// of what it showed go along. Only --reveal shows what is redacted.
func (c *approveCommand) Run(ctx context.Context, std *stdio) error {
	grant, err := c.grant()
	if err != nil {
		return err
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	shown, who, err := c.show(ctx, std, server, c.Reveal)
	if err != nil {
		return err
	}
	path := c.path() + "/approve"
	if c.Wait > 0 {
		path += "?" + url.Values{"wait": {c.Wait.String()}}.Encode()
		server.http.Timeout += c.Wait
	}
	body := shown.seen()
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

// show tells a person what he decides on, before he does, and returns it with
// his name. With --json that is no part of the answer. Revealing is recorded.
func (v *verdict) show(ctx context.Context, std *stdio, server *client, reveal bool) (row invocationRow, who string, err error) {
	if _, err = server.read(ctx, v.path(), nil, &row); err != nil {
		return row, "", err
	}
	params := "params " + string(row.Params)
	if reveal {
		var full struct {
			Params json.RawMessage `json:"params"`
			Full   bool            `json:"full"`
		}
		if _, err = server.read(ctx, v.path()+"/params", nil, &full); err != nil {
			return row, "", err
		}
		if full.Full { // of a call that ended, nobody has them
			params = "params in clear " + string(full.Params)
		}
	}
	if who, err = server.whoami(ctx); err != nil {
		return row, "", err
	}
	out := std.Out
	if v.JSON {
		out = std.Err
	}
	row.show(out, server.whose(ctx, row), params)
	return row, who, nil
}

// seen says which params of which tool the row showed.
func (i *invocationRow) seen() map[string]any {
	return given{"params_hash": i.ParamsHash, "tool_hash": i.ToolHash}.set()
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
	i := &o.Invocation
	switch {
	case i.Error != nil:
		return errors.New(visible(i.Error.Message))
	case i.Status == string(action.StatusDenied):
		return fmt.Errorf("it was denied (%s): %s", visible(i.Denied), visible(cmp.Or(i.DeniedNote, "no reason was given")))
	case i.Status == string(action.StatusExpired):
		return errors.New("it expired before it ran; the agent may call again")
	}
	return nil
}

type denyCommand struct {
	verdict
	Reason string `env:"-" placeholder:"TEXT" help:"Why; the agent reads it."`
}

// Run shows what it denies, and denies that: the hashes go along.
func (c *denyCommand) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	shown, who, err := c.show(ctx, std, server, false)
	if err != nil {
		return err
	}
	body := shown.seen()
	if c.Reason != "" {
		body["reason"] = c.Reason
	}
	var done outcome
	raw, err := server.change(ctx, http.MethodPost, c.path()+"/deny", body, &done)
	if err != nil {
		return err
	}
	return c.print(std, raw, done.decided("denied", who))
}
