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
	entry := func(list, reference string, fields ...field) []jsonc.Edit {
		return entryEdits([]string{list, Server}, append(fields, field{"url", s.MCPURL}, field{"headers Authorization", "Bearer " + reference})...)
	}
	switch c {
	case OpenCode:
		return openCode(s), nil
	case ClaudeCode: // https://code.claude.com/docs/en/mcp, "Environment variable expansion"
		return Config{c, ".mcp.json", entry("mcpServers", "${"+TokenVariable+"}", field{"type", "http"})}, nil
	case Cursor: // https://cursor.com/docs/mcp
		return Config{c, ".cursor/mcp.json", entry("mcpServers", "${env:"+TokenVariable+"}")}, nil
	case VSCode:
		// https://code.visualstudio.com/docs/copilot/reference/mcp-configuration. An
		// editor that is started from a menu has no variables of a shell, so it asks
		// for the token once and keeps it.
		const id = "sallyport-token"
		return Config{c, ".vscode/mcp.json", append(entry("servers", "${input:"+id+"}", field{"type", "http"}), jsonc.Edit{
			Path: []string{"inputs"}, Kind: jsonc.Element, Identity: "id", Value: input{"promptString", id, "Token of the Sallyport session", true},
		})}, nil
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

// openCode is OpenCode 1.x: https://opencode.ai/v1/docs/mcp-servers/. Its
// version 2 has servers one level deeper. OAuth is off, because OpenCode would
// else send the token to every URL of a discovery when the gateway refuses it.
// No timeout is set: held calls report progress, which its own clock follows.
func openCode(s Setup) Config {
	edits := []jsonc.Edit{{Path: []string{"$schema"}, Value: "https://opencode.ai/config.json", Kind: jsonc.Default}}
	if s.Model != "" {
		e := jsonc.Edit{Path: []string{"model"}, Value: s.Model}
		if s.ModelDefault {
			e.Kind = jsonc.Default
		}
		edits = append(edits, e)
	}
	edits = append(edits, entryEdits(
		[]string{"mcp", Server},
		field{"type", "remote"}, field{"url", s.MCPURL}, field{"enabled", true},
		field{"headers Authorization", "Bearer {env:" + TokenVariable + "}"}, field{"oauth", false},
	)...)
	edits = append(edits, permissionEdits(s.Permissions)...)
	if s.Instructions != "" {
		edits = append(edits, jsonc.Edit{Path: []string{"instructions"}, Value: s.Instructions, Kind: jsonc.Element})
	}
	return Config{OpenCode, "opencode.json", edits}
}

// permissionEdits are OpenCode's rules. The last one that fits counts, so the rule
// for everything goes before those that a user has, and the one for our tools
// behind them, but for those that may be of single tools of ours. A rule that is
// there stays.
func permissionEdits(p Permissions) []jsonc.Edit {
	rule := func(pattern, action string, kind jsonc.Kind) jsonc.Edit {
		return jsonc.Edit{Path: []string{"permission", pattern}, Value: action, Kind: kind, Under: "*"}
	}
	switch p {
	case AllowAll:
		return []jsonc.Edit{rule("*", "allow", jsonc.First), rule("question", "deny", jsonc.Default)}
	case AllowGateway:
		all := rule(Server+"_*", "allow", jsonc.Default)
		all.Before = func(key string) bool {
			return strings.HasPrefix(key, Server+"_") || key != "*" && strings.ContainsAny(key, "*?")
		}
		return []jsonc.Edit{all}
	}
	return nil
}

type input struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Description string `json:"description"`
	Password    bool   `json:"password"`
}
