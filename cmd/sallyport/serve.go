package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"sallyport/internal/agent"
)

type serveCommand struct {
	options
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, std *stdio) error {
	g, link, err := startGateway(ctx, c.options, std, (*gateway).openInbound)
	if err != nil {
		return err
	}
	g.greet(std.Out, link)
	return g.run(ctx)
}

// startGateway opens a gateway, with further steps, and returns a link with which
// the local owner signs in.
func startGateway(ctx context.Context, o options, std *stdio, more ...step) (*gateway, string, error) {
	g, err := openGateway(ctx, o, newLogger(std.Err, o.LogLevel, o.LogFormat), more...)
	if err != nil {
		return nil, "", err
	}
	link, err := g.welcome(ctx)
	if err != nil {
		g.close()
		return nil, "", err
	}
	return g, link, nil
}

// greet tells the person at the terminal how to go on.
func (g *gateway) greet(w io.Writer, link string) {
	power, add := "", `Add a service in the dashboard, under Integrations or Connectors. Commands that add one need
an administrator's API key in SALLYPORT_API_KEY, or a server with --local-admin`
	if g.options.LocalAdmin {
		add = fmt.Sprintf("Add a service with \"sallyport integration connect PROVIDER%[1]s\", or any MCP server\nwith \"sallyport connector add NAME URL%[1]s\"", g.dataFlag())
		power = fmt.Sprintf("\nLocal admin is on: every program of this user, including an agent's shell, can approve calls and change settings with the key in %s", endpointPath(g.options.Data))
	}
	fmt.Fprintf(w, `Sallyport is ready at %[1]s%[5]s

1. Sign in to approve calls (this link works once, for 10 minutes):
   %[2]s

2. Create a session for an agent; this prints its token:
   sallyport session create%[4]s

3. Give the agent the token in SALLYPORT_TOKEN, and this in its opencode.json
   (sallyport opencode-config --session ID%[4]s --write DIR merges it, for other clients too):
%[3]s

%[6]s; "sallyport --help" lists all commands.
`, g.url, link, openCodeConfig(g.url+"/mcp", "   "), g.dataFlag(), power, add)
}

// openCodeConfig is what OpenCode's configuration must say, each line indented.
func openCodeConfig(mcpURL, indent string) string {
	config, err := agent.ClientConfig(agent.OpenCode, agent.Setup{MCPURL: mcpURL})
	if err != nil {
		return "" // of a client that is known: cannot be
	}
	text, err := config.JSON()
	if err != nil {
		return "" // of values that are texts: cannot be
	}
	return indent + strings.ReplaceAll(text, "\n", "\n"+indent)
}

// dataFlag is what commands need to find this server.
func (g *gateway) dataFlag() string {
	if g.options.Data == dataFolder() {
		return ""
	}
	return " --data " + word(g.options.Data)
}
