package agent

import (
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/jsonc"
)

// Client is a program that lets a model call tools.
type Client string

// The clients whose configuration is known.
const (
	OpenCode   Client = "opencode"
	ClaudeCode Client = "claude-code"
	Cursor     Client = "cursor"
	VSCode     Client = "vscode"
)

// Name is what people call the client.
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

// Server is what the gateway is called in configurations of clients. Clients
// put it before the names of tools.
const Server = "sallyport"

// GuideFile is where OpenCode looks for the guide of the session's actions,
// from the project's folder.
const GuideFile = ".sallyport/actions-guide.md"

// Permissions are what OpenCode itself asks its user before a tool runs. The
// gateway decides about services in any case.
type Permissions string

// The sets of permissions.
const (
	// AllowAll lets every tool run, the shell too, and keeps the model from
	// asking: for a sandbox, where nobody sits and nothing is at stake.
	AllowAll Permissions = "sandbox"
	// AllowGateway lets the gateway's tools run, which the gateway decides about, and
	// leaves all others as the user has them.
	AllowGateway Permissions = "gateway"
	// KeepPermissions changes nothing.
	KeepPermissions Permissions = "none"
)

// Setup is what a configuration is made for.
type Setup struct {
	MCPURL       string      // where the gateway speaks MCP; required
	Permissions  Permissions // OpenCode's; "" is AskAsBefore
	Instructions string      // file that OpenCode adds to its prompt; "" for none
	Model        string      // OpenCode's form of its name; "" leaves the choice
	ModelDefault bool        // a model that is configured already stays
}

// Config is what a client's configuration must say.
type Config struct {
	Client Client
	File   string // where it stands, from the project's folder
	Edits  []jsonc.Edit
}

// Clients returns the clients that are known, OpenCode first.
func Clients() []Client { return []Client{OpenCode, ClaudeCode, Cursor, VSCode} }

// ClientConfig returns the configuration with which a client reaches the
// gateway. It never holds a token, but how the client finds it.
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

// JSON is the configuration as a file of its own.
func (c *Config) JSON() (string, error) {
	text, err := jsonc.Apply(nil, c.Edits)
	return strings.TrimSpace(string(text)), err
}

// Merge returns a file with the configuration in it, and all else as it was.
// Its errors name the key that is in the way.
func (c *Config) Merge(file []byte) ([]byte, error) { return jsonc.Apply(file, c.Edits) }

// bearerHeader is the header with the token, in a client's way to name a variable.
func bearerHeader(reference string) string { return "Bearer " + reference }

// entryEdits puts fields of the gateway's entry below a path.
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
