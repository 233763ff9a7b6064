package agent

import (
	"strings"

	"sallyport/internal/jsonc"
)

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
		field{"headers Authorization", bearerHeader("{env:" + TokenVariable + "}")}, field{"oauth", false},
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

// claudeCode is a project's .mcp.json: https://code.claude.com/docs/en/mcp,
// "Environment variable expansion".
func claudeCode(s Setup) Config {
	return Config{ClaudeCode, ".mcp.json", entryEdits(
		[]string{"mcpServers", Server},
		field{"type", "http"}, field{"url", s.MCPURL}, field{"headers Authorization", bearerHeader("${" + TokenVariable + "}")},
	)}
}

// cursor is a project's .cursor/mcp.json: https://cursor.com/docs/mcp.
func cursor(s Setup) Config {
	return Config{Cursor, ".cursor/mcp.json", entryEdits(
		[]string{"mcpServers", Server},
		field{"url", s.MCPURL}, field{"headers Authorization", bearerHeader("${env:" + TokenVariable + "}")},
	)}
}

// vsCode is a workspace's .vscode/mcp.json:
// https://code.visualstudio.com/docs/copilot/reference/mcp-configuration. An
// editor that is started from a menu has no variables of a shell, so it asks
// for the token once and keeps it.
func vsCode(s Setup) Config {
	const id = "sallyport-token"
	edits := entryEdits(
		[]string{"servers", Server},
		field{"type", "http"}, field{"url", s.MCPURL}, field{"headers Authorization", bearerHeader("${input:" + id + "}")},
	)
	return Config{VSCode, ".vscode/mcp.json", append(edits, jsonc.Edit{
		Path: []string{"inputs"}, Kind: jsonc.Element, Identity: "id", Value: input{"promptString", id, "Token of the Sallyport session", true},
	})}
}

type input struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Description string `json:"description"`
	Password    bool   `json:"password"`
}
