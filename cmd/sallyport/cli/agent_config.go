package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
	"sallyport/mcpserver"
	"sallyport/sources/platform"
)

type configCommand struct {
	agentFlags
	Session      string  `env:"-" placeholder:"ID" help:"Session of the agent (default: the session of SALLYPORT_TOKEN)."`
	Client       string  `env:"-" enum:"opencode,claude-code,cursor,vscode" default:"opencode" help:"Client: opencode, claude-code, cursor or vscode (default: opencode)."`
	Write        string  `env:"-" type:"path" placeholder:"FILE|DIR" help:"Merge into this file, or into the client's file in this folder; comments and other settings stay (default: print)."`
	Model        string  `env:"-" placeholder:"MODEL" help:"Model, by any of its names; OpenCode only (default: the session's, if none is configured)."`
	Permissions  string  `env:"-" enum:"gateway,sandbox,none," default:"" help:"OpenCode permissions to add: gateway (no prompts for gateway tools), sandbox (no prompts at all) or none (default: sandbox for unattended sessions, else gateway)."`
	Instructions *string `env:"-" placeholder:"FILE" help:"File that OpenCode adds to its prompt; empty for none (default: .sallyport/actions-guide.md)."`
}

func (c *configCommand) Run(ctx context.Context, std *command.Streams) error {
	me, err := c.identifySession(ctx, std)
	if err != nil {
		return err
	}
	setup, err := c.setup(me)
	if err != nil {
		return err
	}
	config, err := agent.ClientConfig(agent.Client(c.Client), setup)
	if err != nil {
		return err
	}
	if c.Write == "" {
		text, err := config.JSON()
		if err != nil {
			return err
		}
		fmt.Fprintln(std.Out, text)
		c.printNextSteps(std.Err, config.File, &setup)
		return nil
	}
	path, err := c.merge(&config)
	if err != nil {
		return err
	}
	printLine(std.Out, path+" configures "+c.Client+" for session "+me.Session)
	c.printNextSteps(std.Err, "", &setup)
	return nil
}

// identifySession returns the session to configure: the session of the token,
// or one that the caller can read.
func (c *configCommand) identifySession(ctx context.Context, std *command.Streams) (*api.Me, error) {
	if c.Session == "" {
		if os.Getenv(agent.TokenVariable) == "" {
			return nil, command.UsageErrorf("say for which session: --session ID, or its token in %s", agent.TokenVariable)
		}
		_, me, err := c.identify(ctx, std, time.Time{})
		return me, err
	}
	if os.Getenv(agent.TokenVariable) != "" && os.Getenv("SALLYPORT_API_KEY") == "" { // in a sandbox
		if _, me, err := c.identify(ctx, std, time.Time{}); err == nil && me.Session == c.Session {
			return me, nil
		}
	}
	server, err := c.clientFlags.connect()
	if err != nil {
		return nil, err
	}
	me, _, err := Fetch(ctx, server, api.GetMe, api.None{})
	if err != nil {
		return nil, err
	}
	s, _, err := Fetch(ctx, server, api.GetSession, api.ByID{ID: c.Session})
	if err != nil {
		return nil, err
	}
	if s.Status.Ended() || s.RevokedAt != nil || s.ExpiresAt != nil && s.ExpiresAt.Before(time.Now()) {
		return nil, fmt.Errorf("session %s has ended; mint another one with: %s", c.Session, c.hint("session", "create"))
	}
	me.Session, me.SessionKind, me.Model = s.ID, string(s.Kind), s.Model
	return me, nil
}

func (c *configCommand) setup(me *api.Me) (agent.Setup, error) {
	s := agent.Setup{MCPURL: me.MCPURL, Permissions: agent.Permissions(c.Permissions), Instructions: agent.GuideFile}
	if agent.Client(c.Client) != agent.OpenCode {
		if c.Model != "" || c.Permissions != "" || c.Instructions != nil {
			return s, command.UsageErrorf("--model, --permissions and --instructions go with --client opencode; %s has them elsewhere", c.Client)
		}
		return agent.Setup{MCPURL: me.MCPURL}, nil
	}
	if c.Instructions != nil {
		s.Instructions = *c.Instructions
	}
	if s.Permissions == "" {
		s.Permissions = agent.AllowGateway
		if me.SessionKind == string(action.Unattended) {
			s.Permissions = agent.AllowAll
		}
	}
	name := c.Model
	if name == "" {
		name, s.ModelDefault = me.Model, true
	}
	if name == "" {
		return s, nil
	}
	model, err := agent.FindModel(name)
	if err != nil {
		return s, command.UsageErrorf("%w", errors.New(action.Public(err).Message))
	}
	s.Model = model.OpenCode
	return s, nil
}

// merge updates or creates the file of --write, and returns its path.
func (c *configCommand) merge(config *agent.Config) (string, error) {
	path := c.Write
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && filepath.Ext(path) != ".json" && filepath.Ext(path) != ".jsonc" {
		return "", command.UsageErrorf("there is no folder %s; make it, or name a file that ends in .json or .jsonc", path)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if path, err = clientFile(path, config.File, config.Client == agent.OpenCode); err != nil {
			return "", err
		}
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", command.UnreadableError(path, err)
	}
	text, err := config.Merge(old)
	if err != nil {
		return "", fmt.Errorf("%s: %w. Nothing is changed; mend it, or print the configuration without --write and add it by hand", path, err)
	}
	return path, command.WriteFile(path, text)
}

// clientFile returns the path of a client's configuration file in a project
// folder. comments tells that the client also reads a .jsonc file.
func clientFile(folder, name string, comments bool) (string, error) {
	path := filepath.Join(folder, filepath.FromSlash(name))
	if _, err := os.Lstat(path); comments && errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path + "c"); err == nil {
			return path + "c", nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", command.UnwritableError(filepath.Dir(path), err)
	}
	return path, nil
}

// printNextSteps prints the remaining steps. No file that this command writes
// contains the token.
func (c *configCommand) printNextSteps(w io.Writer, file string, setup *agent.Setup) {
	if file != "" {
		printLine(w, "add this to "+file+" in your project, or merge it with --write DIR; then:")
	}
	if agent.Client(c.Client) != agent.VSCode {
		printLine(w, "  export SALLYPORT_URL="+command.ShellQuote(gatewayURL(setup.MCPURL))+"   # for sallyport commands")
	}
	switch agent.Client(c.Client) {
	case agent.OpenCode:
		printLine(w, "  export "+agent.TokenVariable+"=...   # the token from session create")
		if setup.Instructions == agent.GuideFile {
			printLine(w, "  sallyport actions guide --write "+filepath.Dir(agent.GuideFile)+"   # what the session can do, for its prompt")
		}
		printLine(w, "  opencode")
	case agent.ClaudeCode:
		printLine(w, "  export "+agent.TokenVariable+"=...   # the token from session create")
		printLine(w, "  claude")
	case agent.Cursor:
		printLine(w, "  export "+agent.TokenVariable+"=...   # the token from session create; start Cursor from this shell")
		printLine(w, "  cursor .")
	case agent.VSCode:
		printLine(w, "  code .   # asks for the session token at the first start, and stores it")
	}
}

type promptCommand struct {
	agentFlags
	Session string `env:"-" placeholder:"ID" help:"Session (default: the session of SALLYPORT_TOKEN)."`
	Type    string `env:"-" enum:"coding,setup,automation," default:"" help:"Session type instead of a session: coding, setup or automation; needs no server."`
}

func (c *promptCommand) Run(ctx context.Context, std *command.Streams) error {
	if c.Type != "" {
		if c.Session != "" {
			return command.UsageErrorf("--type is for any session of a type; leave out it or --session")
		}
		return c.printForType(std)
	}
	p, raw, err := c.fetch(ctx, std)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) { printText(w, p.Text) })
}

func (c *promptCommand) fetch(ctx context.Context, std *command.Streams) (*api.PromptView, json.RawMessage, error) {
	if c.Session != "" {
		server, err := c.clientFlags.connect()
		if err != nil {
			return nil, nil, err
		}
		return Fetch(ctx, server, api.GetPrompt, api.GetPromptInput{InSession: api.InSession{Session: c.Session}})
	}
	if os.Getenv(agent.TokenVariable) == "" {
		return nil, nil, command.UsageErrorf("say whose prompt: --session ID, --type TYPE, or a session's token in %s", agent.TokenVariable)
	}
	a, err := c.connect(ctx, std)
	if err != nil {
		return nil, nil, err
	}
	_, p, raw, err := fetchAs(ctx, a, api.GetPrompt, api.GetPromptInput{InSession: a.sessionParam()})
	return p, raw, err
}

// printForType prints the prompt of a session type, with all its tools listed.
func (c *promptCommand) printForType(std *command.Streams) error {
	t := action.SessionType(c.Type)
	text := agent.Prompt(t, func(tool string) bool { return tool != "actions_search" && slices.Contains(builtinTools(t), tool) })
	raw, err := json.Marshal(api.PromptView{Type: t, Text: text})
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) { printText(w, text) })
}

// builtinTools returns the gateway's own tools in sessions of a type.
func builtinTools(t action.SessionType) []string {
	tools := append(mcpserver.BuiltinTools(), platform.VerifyTool, platform.VariablesTool)
	switch t {
	case action.TypeSetup:
		return append(tools, platform.CommandsTool, platform.FilesTool)
	case action.TypeAutomation:
		return append(tools, platform.CompleteTool)
	}
	return tools
}

type modelsCommand struct {
	JSON bool `help:"Print JSON."`
}

// Run needs no server: the table is part of the program.
func (c *modelsCommand) Run(_ context.Context, std *command.Streams) error {
	models := agent.Models()
	if c.JSON {
		raw, err := json.Marshal(map[string]any{"items": models, "total": len(models), "next_cursor": ""})
		if err != nil {
			return err
		}
		return std.PrintJSON(raw)
	}
	printTable(std.Out, "MODEL OPENCODE API PROVIDER", models, func(m *agent.Model) []string {
		return []string{m.ID, m.OpenCode, m.API, m.Provider}
	})
	return nil
}
