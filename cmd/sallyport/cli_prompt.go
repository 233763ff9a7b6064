package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/agent"
	"sallyport/mcpserver"
	"sallyport/sources/platform"
)

type promptCommand struct {
	inSession
	Session string `env:"-" placeholder:"ID" help:"Session (default: the session of SALLYPORT_TOKEN)."`
	Type    string `env:"-" enum:"coding,setup,automation," default:"" help:"Session type instead of a session: coding, setup or automation; needs no server."`
}

func (c *promptCommand) Run(ctx context.Context, std *stdio) error {
	if c.Type != "" {
		if c.Session != "" {
			return wrongUse("--type is for any session of a type; leave out it or --session")
		}
		return c.ofType(std)
	}
	p, raw, err := c.read(ctx, std)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) { page(w, p.Text) })
}

func (c *promptCommand) read(ctx context.Context, std *stdio) (*api.PromptView, json.RawMessage, error) {
	if c.Session != "" {
		server, err := c.remote.connect()
		if err != nil {
			return nil, nil, err
		}
		return fetch(ctx, server, api.GetPrompt, api.GetPromptInput{InSession: api.InSession{Session: c.Session}})
	}
	if os.Getenv(agent.TokenVariable) == "" {
		return nil, nil, wrongUse("say whose prompt: --session ID, --type TYPE, or a session's token in %s", agent.TokenVariable)
	}
	a, err := c.connect(ctx, std)
	if err != nil {
		return nil, nil, err
	}
	_, p, raw, err := fetchAs(ctx, a, api.GetPrompt, api.GetPromptInput{InSession: a.in()})
	return p, raw, err
}

// ofType prints the prompt of a type of session whose tools are all listed.
func (c *promptCommand) ofType(std *stdio) error {
	t := action.SessionType(c.Type)
	text := agent.Prompt(t, func(tool string) bool { return tool != "actions_search" && slices.Contains(toolsOf(t), tool) })
	raw, err := json.Marshal(api.PromptView{Type: t, Text: text})
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) { page(w, text) })
}

// toolsOf are the gateway's own tools in sessions of a type.
func toolsOf(t action.SessionType) []string {
	tools := append(mcpserver.BuiltinTools(), platform.VerifyTool, platform.VariablesTool)
	switch t {
	case action.TypeSetup:
		return append(tools, platform.CommandsTool, platform.FilesTool)
	case action.TypeAutomation:
		return append(tools, platform.CompleteTool)
	}
	return tools
}
