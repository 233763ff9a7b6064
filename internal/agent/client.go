package agent

import (
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/jsonc"
)

// Client is a program in which a model calls tools.
type Client string

// The supported clients.
const (
	OpenCode   Client = "opencode"
	ClaudeCode Client = "claude-code"
	Cursor     Client = "cursor"
	VSCode     Client = "vscode"
)

// Name returns the client's display name.
func (c Client) Name() string {
	switch c {
	case OpenCode:
		return "OpenCode"
	case ClaudeCode:
		return "Claude Code"
	case Cursor:
		return "Cursor"
	case VSCode:
		return "VS Code"
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
}

// Config is the configuration of a client.
type Config struct {
	Client Client
	File   string // path, relative to the project
	Edits  []jsonc.Edit
}

// Clients returns the supported clients, OpenCode first.
func Clients() []Client { return []Client{OpenCode, ClaudeCode, Cursor, VSCode} }

// ClientConfig returns the configuration with which a client connects to the
// gateway. It refers to the token and never contains it.
func ClientConfig(c Client, s Setup) (Config, error) {
	switch c {
	case OpenCode:
		return openCode(s), nil
	case ClaudeCode:
		return claudeCode(s), nil
	case Cursor:
		return cursor(s), nil
	case VSCode:
		return vsCode(s), nil
	}
	names := make([]string, 0, len(Clients()))
	for _, known := range Clients() {
		names = append(names, string(known))
	}
	e := action.NewError("unknown_client", c, strings.Join(names, ", "))
	e.Field = "/client"
	return Config{}, e
}

// JSON returns the configuration as a new file.
func (c *Config) JSON() (string, error) {
	text, err := jsonc.Apply(nil, c.Edits)
	return strings.TrimSpace(string(text)), err
}

// Merge returns the file with the configuration added and everything else
// unchanged. Its errors name the conflicting key.
func (c *Config) Merge(file []byte) ([]byte, error) { return jsonc.Apply(file, c.Edits) }

// bearerHeader returns the Authorization header for a reference to the token.
func bearerHeader(reference string) string { return "Bearer " + reference }

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
