package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
	"sallyport/internal/shell"
	"sallyport/mcpserver"
	"sallyport/sources/platform"
)

type clientCommand struct {
	Config clientConfig `cmd:"" help:"Print the configuration of a client, or merge it into the client's file."`
}

type clientConfig struct {
	configFlags
	Name string `arg:"" enum:"${clients}" placeholder:"NAME" help:"Client: ${clients}."`
}

func (c *clientConfig) Run(ctx context.Context, std *command.Streams) error {
	return c.run(ctx, std, agent.Client(c.Name))
}

// configCommand is the former name of client config.
type configCommand struct {
	configFlags
	Client string `env:"-" enum:"${clients}" default:"opencode" help:"Client: ${clients} (default: opencode)."`
}

func (c *configCommand) Run(ctx context.Context, std *command.Streams) error {
	return c.run(ctx, std, agent.Client(c.Client))
}

// configFlags are the flags of commands that configure a client.
type configFlags struct {
	agentFlags
	Session      string   `env:"-" placeholder:"ID" help:"Session of the agent (default: the session of SALLYPORT_TOKEN)."`
	Write        string   `env:"-" type:"path" placeholder:"FILE|DIR" xor:"file" help:"Merge into this file, or into the client's file in this project; comments and other settings stay, and the old file is kept as FILE.before-sallyport (default: print)."`
	User         bool     `env:"-" xor:"file" help:"Merge into the client's file for all projects, in your home folder."`
	Model        string   `env:"-" placeholder:"MODEL" help:"Model, by any of its names; OpenCode only (default: the session's, if none is configured)."`
	Models       bool     `env:"-" help:"Have the client reach its models through the gateway, too, with the session token in the place of an API key: OpenCode, Claude Code, Codex and Gemini CLI."`
	Git          []string `env:"-" placeholder:"HOST" help:"Have git reach this host through the gateway, with the token of SALLYPORT_TOKEN; repeatable. Written to the configuration of the repository at --write, or with --user to yours."`
	Permissions  string   `env:"-" enum:"gateway,sandbox,none," default:"" help:"OpenCode permissions to add: gateway (no prompts for gateway tools), sandbox (no prompts at all) or none (default: sandbox for unattended sessions, else gateway)."`
	Instructions *string  `env:"-" placeholder:"FILE" help:"File that OpenCode adds to its prompt; empty for none (default: .sallyport/actions-guide.md)."`
}

func (c *configFlags) run(ctx context.Context, std *command.Streams, client agent.Client) error {
	if i := slices.IndexFunc(c.Git, func(host string) bool { return strings.ContainsAny(host, "/ \t\n=") }); i >= 0 {
		return command.UsageErrorf("--git %q is not a host; pass one such as github.com", c.Git[i])
	}
	me, token, err := c.identifySession(ctx, std)
	if err != nil {
		return err
	}
	setup, err := c.setup(me, client)
	setup.Token = token
	if err != nil {
		return err
	}
	config, err := agent.ClientConfig(client, setup)
	if err != nil {
		return err
	}
	if c.Write == "" && !c.User {
		text, err := config.Text()
		if err != nil {
			return err
		}
		fmt.Fprintln(std.Out, text)
		c.printNextSteps(std.Err, &config, &setup, config.Place())
		return nil
	}
	path, err := c.path(&config)
	if err != nil {
		return err
	}
	if config.Literal && setup.Token == "" {
		return command.UsageErrorf("%s does not read environment variables, so its file contains the token: set %s to the token of the session", client.Name(), agent.TokenVariable)
	}
	if err := mergeFile(path, &config); err != nil {
		return err
	}
	printLine(std.Out, path+" configures "+string(client)+" for session "+me.Session)
	if err := c.writeGit(ctx, std, gatewayURL(setup.MCPURL)); err != nil {
		return err
	}
	c.printNextSteps(std.Err, &config, &setup, "")
	return nil
}

// identifySession returns the session to configure, with its token if the
// caller has it: the session of the token, or one that the caller can read.
func (c *configFlags) identifySession(ctx context.Context, std *command.Streams) (*api.Me, string, error) {
	token := os.Getenv(agent.TokenVariable)
	if c.Session == "" {
		if token == "" {
			return nil, "", command.UsageErrorf("name the session: pass --session ID, or set %s to its token", agent.TokenVariable)
		}
		_, me, err := c.identify(ctx, std, time.Time{})
		return me, token, err
	}
	if token != "" && os.Getenv("SALLYPORT_API_KEY") == "" { // in a sandbox
		if _, me, err := c.identify(ctx, std, time.Time{}); err == nil && me.Session == c.Session {
			return me, token, nil
		}
	}
	server, err := c.clientFlags.connect()
	if err != nil {
		return nil, "", err
	}
	me, _, err := Fetch(ctx, server, api.GetMe, api.None{})
	if err != nil {
		return nil, "", err
	}
	s, _, err := Fetch(ctx, server, api.GetSession, api.ByID{ID: c.Session})
	if err != nil {
		return nil, "", err
	}
	if s.Status.Ended() || s.RevokedAt != nil || s.ExpiresAt != nil && s.ExpiresAt.Before(time.Now()) {
		return nil, "", fmt.Errorf("session %s has ended; create another one: %s", c.Session, c.hint("session", "create"))
	}
	me.Session, me.SessionKind, me.Model = s.ID, string(s.Kind), s.Model
	return me, "", nil
}

func (c *configFlags) setup(me *api.Me, client agent.Client) (agent.Setup, error) {
	s := agent.Setup{MCPURL: me.MCPURL, Permissions: agent.Permissions(c.Permissions), Instructions: agent.GuideFile, SmallModel: me.SmallModel}
	if c.Models {
		if len(me.Models) == 0 {
			return s, command.UsageErrorf("the gateway has no providers of models; an owner or admin adds one: %s", c.hint("models", "provider", "set", "NAME"))
		}
		for _, m := range me.Models {
			s.Models = append(s.Models, agent.ModelDoor(m))
		}
	}
	if client != agent.OpenCode {
		if c.Model != "" || c.Permissions != "" || c.Instructions != nil {
			return s, command.UsageErrorf("--model, --permissions and --instructions are for opencode; %s has these settings elsewhere", client)
		}
		return s, nil
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

// path returns the file of --write or --user.
func (c *configFlags) path(config *agent.Config) (string, error) {
	name := config.Client.Name()
	switch {
	case config.Command != "":
		return "", command.UsageErrorf("%s has no configuration file; leave out --write and --user, and run the printed command", name)
	case c.User:
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		return clientFile(home, config.UserFile, config.Client == agent.OpenCode)
	}
	path, extension := c.Write, filepath.Ext(c.Write)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && extension != ".json" && extension != ".jsonc" && extension != ".toml" {
		return "", command.UsageErrorf("there is no folder %s; create it, or name a file that ends in .json, .jsonc or .toml", path)
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, nil
	}
	if config.File == "" {
		return "", command.UsageErrorf("%s has one file for all projects: pass --user for %s, or name another file", name, config.Place())
	}
	return clientFile(path, config.File, config.Client == agent.OpenCode)
}

// backupSuffix is appended to the name of a file before it is changed.
const backupSuffix = ".before-sallyport"

// mergeFile updates or creates the file of a client, and keeps the previous one.
func mergeFile(path string, config *agent.Config) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return command.UnreadableError(path, err)
	}
	text, err := config.Merge(old)
	if err != nil {
		subject := path
		if !strings.HasPrefix(err.Error(), "is ") { // of a member, not of the file
			subject += ":"
		}
		return fmt.Errorf("%s %w. Nothing is changed; correct the file, or print the configuration without --write and add it by hand", subject, err)
	}
	if bytes.Equal(text, old) {
		return nil
	}
	mode := fs.FileMode(0)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		if err := command.ReplaceFile(path+backupSuffix, old, mode); err != nil {
			return err
		}
	}
	if !config.Literal {
		return command.WriteFile(path, text)
	}
	if mode == 0 { // nobody else reads the token
		return command.ReplaceFile(path, text, 0o600)
	}
	return command.WriteFile(path, text)
}

// clientFile returns the path of a client's configuration file in a folder.
// comments tells that the client also reads a .jsonc file.
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

// printNextSteps prints the remaining steps. file is where the printed
// configuration belongs; it is empty if it was written.
func (c *configFlags) printNextSteps(w io.Writer, config *agent.Config, setup *agent.Setup, file string) {
	name := config.Client.Name()
	token := "  export " + agent.TokenVariable + "=...   # the token from session create"
	if file != "" {
		option := "--write DIR"
		if config.File == "" {
			option = "--user"
		}
		printLine(w, "add this to "+file+", or merge it with "+option+"; then:")
	}
	if config.Literal {
		if setup.Token == "" {
			printLine(w, "  replace "+agent.TokenPlaceholder+" with the token from session create: "+name+" does not read environment variables")
		}
		printLine(w, "  keep the file private: it contains the token")
		printLine(w, "  restart "+name)
		return
	}
	if config.Client != agent.VSCode {
		printLine(w, "  export SALLYPORT_URL="+shell.Quote(gatewayURL(setup.MCPURL))+"   # for sallyport commands")
		if file != "" || len(c.Git) == 0 {
			for _, line := range gitLines(c.Git) {
				printLine(w, "  "+line)
			}
		}
	}
	switch config.Client {
	case agent.OpenCode:
		printLine(w, token)
		if setup.Instructions == agent.GuideFile {
			printLine(w, "  sallyport actions guide --write "+filepath.Dir(agent.GuideFile)+"   # what the session can do, for its prompt")
		}
		printLine(w, "  opencode")
	case agent.ClaudeCode:
		printLine(w, token)
		printExports(w, config)
		printLine(w, "  claude --allowedTools mcp__"+agent.Server+"   # without it, Claude Code also asks before each tool")
	case agent.Codex:
		printLine(w, token)
		printLine(w, "  codex"+config.Options)
	case agent.GeminiCLI:
		printLine(w, token)
		printExports(w, config)
		printLine(w, "  gemini   # trust the folder when it asks")
	case agent.Cursor:
		printLine(w, token+"; start Cursor from this shell")
		printLine(w, "  cursor .")
	case agent.Windsurf:
		printLine(w, token+"; start Windsurf from this shell")
		printLine(w, "  windsurf .   # refresh its MCP servers after a change")
	case agent.VSCode:
		printLine(w, "  code .   # asks for the session token at the first start, and stores it")
	default:
		printLine(w, token)
	}
}

// gitLines are the commands that make Git use the gateway for the hosts.
func gitLines(hosts []string) (lines []string) {
	if len(hosts) == 0 {
		hosts = []string{"github.com"}
	}
	for _, host := range hosts {
		lines = append(lines, `git config --global url.$SALLYPORT_URL/git/`+host+`/.insteadOf https://`+host+`/   # git through the gateway, if it has a credential for the host`)
	}
	return append(lines, `git config --global http.$SALLYPORT_URL/.extraHeader "Authorization: Bearer $`+agent.TokenVariable+`"`)
}

// gitHelper is a credential helper that reads the token from the environment, so that no
// file contains it.
const gitHelper = `!f() { test "$1" != get || printf 'username=session\npassword=%s\n' "$` + agent.TokenVariable + `"; }; f`

// writeGit writes the settings of --git.
func (c *configFlags) writeGit(ctx context.Context, std *command.Streams, gateway string) error {
	if len(c.Git) == 0 {
		return nil
	}
	scope, place := []string{"config", "--global"}, "your configuration of git"
	if !c.User {
		dir := c.Write
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			dir = filepath.Dir(dir)
		}
		scope, place = []string{"-C", dir, "config", "--local"}, "the repository at "+dir
	}
	helper := "credential." + gateway + ".helper"
	settings := [][]string{{"--replace-all", helper, ""}, {"--add", helper, gitHelper}} // the empty one stops helpers that would store the token
	for _, host := range c.Git {
		settings = append(settings, []string{"--replace-all", "url." + gateway + "/git/" + host + "/.insteadOf", "https://" + host + "/"})
	}
	for _, setting := range settings {
		said, err := exec.CommandContext(ctx, "git", append(slices.Clone(scope), setting...)...).CombinedOutput() //nolint:gosec // the user's own configuration
		if err != nil {
			return fmt.Errorf("git cannot write to %s: %w: %s; leave out --git, or pass --user or a folder of a repository to --write", place, err, strings.TrimSpace(string(said)))
		}
	}
	printLine(std.Out, place+" leads git to the gateway for "+strings.Join(c.Git, ", "))
	return nil
}

// printExports prints the variables that the client needs besides the token.
func printExports(w io.Writer, config *agent.Config) {
	for _, e := range config.Exports {
		printLine(w, "  export "+e)
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
			return command.UsageErrorf("pass either --type or --session")
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
		return nil, nil, command.UsageErrorf("name the prompt: --session ID, --type TYPE, or a session token in %s", agent.TokenVariable)
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
