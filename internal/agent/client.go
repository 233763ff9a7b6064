package agent

import (
	"cmp"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/jsonc"
)

// Client is a program in which a model calls tools.
type Client string

// The supported clients.
const (
	OpenCode      Client = "opencode"
	ClaudeCode    Client = "claude-code"
	ClaudeDesktop Client = "claude-desktop"
	Codex         Client = "codex"
	GeminiCLI     Client = "gemini-cli"
	Cursor        Client = "cursor"
	VSCode        Client = "vscode"
	Windsurf      Client = "windsurf"
	Zed           Client = "zed"
	Cline         Client = "cline"
	Inspector     Client = "inspector"
)

// form is how a client is configured.
type form struct {
	client Client
	name   string
	config func(Setup) Config
}

// forms are those of all clients, in the order in which they are listed.
func forms() []form {
	return []form{
		{OpenCode, "OpenCode", openCode},
		{ClaudeCode, "Claude Code", claudeCode},
		{ClaudeDesktop, "Claude Desktop", claudeDesktop},
		{Codex, "Codex", codex},
		{GeminiCLI, "Gemini CLI", geminiCLI},
		{Cursor, "Cursor", cursor},
		{VSCode, "VS Code", vsCode},
		{Windsurf, "Windsurf", windsurf},
		{Zed, "Zed", zed},
		{Cline, "Cline", cline},
		{Inspector, "MCP Inspector", inspector},
	}
}

// Name returns the client's display name.
func (c Client) Name() string {
	for _, f := range forms() {
		if f.client == c {
			return f.name
		}
	}
	return string(c)
}

// TokenVariable is the environment variable that holds a session's token.
const TokenVariable = "SALLYPORT_TOKEN"

// Server is the gateway's name in client configurations. Clients prefix the
// names of tools with it.
const Server = "sallyport"

// GuideFile is where OpenCode reads the guide of the session's actions,
// relative to the project.
const GuideFile = ".sallyport/actions-guide.md"

// Permissions are OpenCode's own permission prompts. The gateway applies its
// policy to services in any case.
type Permissions string

// The sets of permissions.
const (
	// AllowAll allows every tool, including the shell, and stops the model from
	// asking questions: for a sandbox without a user.
	AllowAll Permissions = "sandbox"
	// AllowGateway allows the gateway's tools, which the gateway's policy
	// covers, and keeps the user's settings for the others.
	AllowGateway Permissions = "gateway"
	// KeepPermissions changes nothing.
	KeepPermissions Permissions = "none"
)

// Setup is the input of a configuration.
type Setup struct {
	MCPURL       string      // the gateway's MCP endpoint; required
	Permissions  Permissions // OpenCode's; "" is KeepPermissions
	Instructions string      // file that OpenCode adds to its prompt; "" for none
	Model        string      // in OpenCode's form; "" leaves the choice
	ModelDefault bool        // keep a configured model
	SmallModel   string      // for titles and summaries, as provider/model; "" leaves the choice
	Models       []ModelDoor // providers of models that the client is to reach through the gateway
	Token        string      // for clients that read no variables; "" is a placeholder
}

// ModelDoor is a provider of models behind the gateway.
type ModelDoor struct {
	Name    string
	Dialect action.ModelDialect
	URL     string // base URL, without the version that some clients append
}

// Config is the configuration of a client.
type Config struct {
	Client   Client
	Program  string       // command that starts the client, or its bridge
	File     string       // path in a project, relative to it; "" if the client reads none there
	UserFile string       // path for all projects, relative to the home folder; "" if there is none
	Entry    []string     // keys of the gateway's entry in the file
	Edits    []jsonc.Edit // of the file
	Command  string       // connects without a file; "" if the client has one
	Exports  []string     // assignments of environment variables that it needs besides the token
	Options  string       // of the program, as shell words with a space before them
	Literal  bool         // the file contains the token, because the client reads no variables
}

// Clients returns the supported clients, OpenCode first.
func Clients() []Client {
	clients := make([]Client, 0, len(forms()))
	for _, f := range forms() {
		clients = append(clients, f.client)
	}
	return clients
}

// ClientConfig returns the configuration with which a client connects to the
// gateway. It refers to the token, except in a Literal one.
func ClientConfig(c Client, s Setup) (Config, error) {
	names := make([]string, 0, len(forms()))
	for _, f := range forms() {
		if f.client == c {
			config := f.config(s)
			config.Client = c
			return config, nil
		}
		names = append(names, string(f.client))
	}
	e := action.NewError("unknown_client", c, strings.Join(names, ", "))
	e.Field = "/client"
	return Config{}, e
}

// Place returns the path of the client's file for a person.
func (c *Config) Place() string {
	if c.File == "" && c.UserFile != "" {
		return "~/" + c.UserFile
	}
	return c.File
}

// TOML reports whether the client's file is TOML; otherwise it is JSON, with
// comments.
func (c *Config) TOML() bool { return strings.HasSuffix(c.UserFile, ".toml") }

// Text returns the configuration as a new file, or the command.
func (c *Config) Text() (string, error) {
	if c.Command != "" {
		return c.Command, nil
	}
	text, err := c.Merge(nil)
	return strings.TrimSpace(string(text)), err
}

// Merge returns the file with the configuration added and everything else
// unchanged. Its errors name the conflicting key.
func (c *Config) Merge(file []byte) ([]byte, error) {
	if c.TOML() {
		return editTOML(file, c.Entry, c.Edits)
	}
	return jsonc.Apply(file, c.Edits)
}

// Find returns the gateway's entry in a file, or nil if it has none.
func (c *Config) Find(file []byte) (map[string]any, error) {
	if c.TOML() {
		return findTOML(file, c.Entry)
	}
	value, err := jsonc.Lookup(file, c.Entry...)
	entry, _ := value.(map[string]any)
	return entry, err
}

// entryEdits returns edits that set fields below a path.
func entryEdits(path []string, fields ...field) []jsonc.Edit {
	edits := make([]jsonc.Edit, 0, len(fields))
	for _, f := range fields {
		edits = append(edits, jsonc.Edit{Path: append(slices.Clone(path), strings.Split(f.name, " ")...), Value: f.value})
	}
	return edits
}

type field struct {
	name  string // with a space between two keys
	value any
}

// TokenPlaceholder stands for the token in a configuration without one.
const TokenPlaceholder = "TOKEN"

// literalHeader returns the Authorization header with the token itself.
func (s *Setup) literalHeader() string { return "Bearer " + cmp.Or(s.Token, TokenPlaceholder) }
