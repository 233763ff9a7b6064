// Package demo runs a gateway over a temporary folder, with a notebook behind it,
// for a person to try or as a script that checks the whole story.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/cli"
	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/demo/notebook"
	"sallyport/cmd/sallyport/server"
	"sallyport/internal/shell"
)

// Command is `sallyport demo`.
type Command struct {
	Script bool   `help:"Play the demo story unattended and exit with 1 if a step fails."`
	Listen string `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address to listen on (default: a free loopback port)."`
}

// demo is a gateway in front of a notebook, with the session of one agent.
type demo struct {
	*command.Streams
	notebook *notebook.Notebook
	gateway  *server.Gateway
	login    string
	data     string
	admin    *cli.Client // the local owner, over the API
	session  mintedSession
}

// mintedSession is the created session of the agent.
type mintedSession struct {
	ID    string `json:"session_id"`
	Token string `json:"token"`
	MCP   string `json:"mcp_url"`
}

// demoSlug is the prefix of the notebook's tools.
const demoSlug = "notes"

// Run runs a gateway on a temporary folder, which it removes at the end.
func (c *Command) Run(ctx context.Context, std *command.Streams) (err error) {
	data, err := os.MkdirTemp("", "sallyport-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	d := &demo{Streams: std, notebook: notebook.New("Buy milk", "The gate has two doors"), data: data}
	upstream, stop, err := notebook.Serve(ctx, d.notebook)
	if err != nil {
		return err
	}
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served, err := d.open(ctx, c.Listen)
	if err != nil {
		return err
	}
	defer func() {
		cancel()
		err = errors.Join(err, <-served)
	}()
	if err := d.prepare(ctx, upstream); err != nil {
		return err
	}
	if c.Script {
		return d.play(ctx)
	}
	d.explain(std.Out)
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		served <- nil // for the deferred wait
		return err
	}
}

// open starts the gateway. The channel receives its result when it ends.
func (d *demo) open(ctx context.Context, listen string) (chan error, error) {
	options := server.Options{Listen: listen, Data: d.data, LocalAdmin: true}
	g, err := server.Open(ctx, options, server.NewLogger(d.Err, "warn", "text"))
	if err != nil {
		return nil, err
	}
	if d.login, err = g.Welcome(ctx); err != nil {
		g.Close()
		return nil, err
	}
	d.gateway = g
	served := make(chan error, 1)
	go func() { served <- g.Run(ctx) }()
	return served, nil
}

// prepare adds the notebook as a connector and creates the session of the agent.
func (d *demo) prepare(ctx context.Context, upstream string) (err error) {
	at, err := command.ReadEndpoint(d.data)
	if err != nil {
		return err
	}
	if d.admin, err = cli.NewClient(at.URL, at.APIKey); err != nil {
		return err
	}
	body := api.NewConnector{Name: "Notebook", Slug: new(demoSlug), Profile: action.ProfileStrict, Upstream: api.Upstream{URL: &upstream}}
	if _, _, err := cli.Fetch(ctx, d.admin, api.CreateConnector, api.Body[api.NewConnector]{Body: body}); err != nil {
		return fmt.Errorf("adding the demo's upstream: %w", err)
	}
	made, _, err := cli.Fetch(ctx, d.admin, api.CreateSession, api.CreateSessionInput{Body: api.NewSession{Title: "demo"}})
	d.session = mintedSession{ID: made.SessionID, Token: made.Token, MCP: made.MCPURL}
	return err
}

// explain prints the steps to an approval.
func (d *demo) explain(w io.Writer) {
	snippet, _ := json.Marshal(map[string]any{ // strings alone: cannot fail
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{
			"name": demoSlug + "_add", "arguments": map[string]any{"text": "Call the plumber"},
			"_meta": map[string]any{
				"progressToken": 1,
				"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
				"io.modelcontextprotocol/clientCapabilities": map[string]any{},
			},
		},
	})
	program, folder := called(os.Args[0]), ""
	if program == fromSource {
		folder = " in this folder"
	}
	fmt.Fprintf(w, `A gateway is running at %[1]s, in front of a notebook with three tools:
%[5]s_list (read) is allowed, %[5]s_add (write) needs your approval, %[5]s_wipe (danger) is denied.

1. Sign in (this link works once, for 10 minutes):

   %[2]s

2. In another terminal, play the agent. This call is pending until you decide, and reports progress:

   curl -N %[3]s -H 'Authorization: Bearer %[4]s' \
     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: %[5]s_add' \
     -d '%[6]s'

   Or use OpenCode: export SALLYPORT_TOKEN=%[4]s, and put this into opencode.json

%[8]s

3. Approve it in the dashboard, or in another terminal%[10]s:

   %[9]s pending --data %[7]s
   %[9]s approve ID --data %[7]s

Ctrl-C stops the demo and deletes its data.
`, d.gateway.URL, d.login, d.session.MCP, d.session.Token, demoSlug, snippet, shell.Quote(d.data), server.OpenCodeConfig(d.session.MCP, "   "), program, folder)
}

// fromSource is the command of a program that `go run` built and will remove.
const fromSource = "go run ./cmd/sallyport"

// builtByRun matches the paths of programs that `go run` built: in its work folder, or
// in the build cache.
var builtByRun = regexp.MustCompile(`/go-build(\d+/b\d+|/[0-9a-f]{2}/[0-9a-f]+-d)/`)

// called returns the command that runs this program again, from any folder.
func called(program string) string {
	switch {
	case builtByRun.MatchString(program):
		return fromSource
	case strings.ContainsRune(program, filepath.Separator):
		if whole, err := filepath.Abs(program); err == nil {
			program = whole
		}
	}
	return shell.Quote(program)
}
