package agent

import (
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/guard"
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
		field{"headers Authorization", "Bearer {env:" + TokenVariable + "}"}, field{"oauth", false},
	)...)
	edits = append(edits, permissionEdits(s.Permissions)...)
	edits = append(edits, openCodeModels(s)...)
	if s.Instructions != "" {
		edits = append(edits, jsonc.Edit{Path: []string{"instructions"}, Value: s.Instructions, Kind: jsonc.Element})
	}
	return Config{Program: "opencode", File: "opencode.json", UserFile: ".config/opencode/opencode.json", Entry: []string{"mcp", Server}, Edits: edits}
}

// openCodeModels has OpenCode's providers of models reach them through the gateway:
// https://opencode.ai/docs/providers/#base-url. A provider that is not one of OpenCode's
// own needs a package and lists its models.
func openCodeModels(s Setup) (edits []jsonc.Edit) {
	set := func(value any, kind jsonc.Kind, path ...string) {
		edits = append(edits, jsonc.Edit{Path: path, Value: value, Kind: kind})
	}
	for _, m := range s.Models {
		version := "/v1"
		if m.Dialect == action.DialectGoogle {
			version = "/v1beta"
		}
		if m.Name != string(m.Dialect) {
			set("@ai-sdk/"+map[action.ModelDialect]string{action.DialectAnthropic: "anthropic", action.DialectOpenAI: "openai-compatible", action.DialectGoogle: "google"}[m.Dialect], jsonc.Default, "provider", m.Name, "npm")
		}
		set(m.URL+version, 0, "provider", m.Name, "options", "baseURL")
		set("{env:"+TokenVariable+"}", 0, "provider", m.Name, "options", "apiKey")
	}
	if len(s.Models) > 0 && s.SmallModel != "" {
		set(s.SmallModel, jsonc.Default, "small_model")
	}
	return edits
}

// door returns the first provider with a dialect, its own if there is one.
func (s *Setup) door(d action.ModelDialect) (door ModelDoor, ok bool) {
	for _, m := range s.Models {
		if m.Dialect == d && (!ok || m.Name == string(d)) {
			door, ok = m, true
		}
	}
	return door, ok
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

// jsonForm returns a configuration with an entry below a key.
func jsonForm(program, file, userFile, key string, fields ...field) Config {
	entry := []string{key, Server}
	return Config{Program: program, File: file, UserFile: userFile, Entry: entry, Edits: entryEdits(entry, fields...)}
}

// userConfig returns a path below the folder where desktop programs of this
// system keep their configuration.
func userConfig(linux, mac string) string {
	if runtime.GOOS == "darwin" {
		return "Library/Application Support/" + mac
	}
	return ".config/" + linux
}

// claudeCode is a project's .mcp.json: https://code.claude.com/docs/en/mcp,
// "Environment variable expansion".
func claudeCode(s Setup) Config {
	c := jsonForm("claude", ".mcp.json", ".claude.json", "mcpServers",
		field{"type", "http"}, field{"url", s.MCPURL}, field{"headers Authorization", "Bearer ${" + TokenVariable + "}"})
	if m, ok := s.door(action.DialectAnthropic); ok {
		c.Exports = []string{"ANTHROPIC_BASE_URL=" + m.URL, `ANTHROPIC_AUTH_TOKEN="$` + TokenVariable + `"`}
	}
	return c
}

// claudeDesktop starts processes: https://www.npmjs.com/package/mcp-remote. The
// header is in two parts because Claude Desktop on Windows splits arguments at
// spaces.
func claudeDesktop(s Setup) Config {
	args := []string{"-y", "mcp-remote", s.MCPURL, "--header", "Authorization:${AUTH}"}
	if u, err := url.Parse(s.MCPURL); err == nil && u.Scheme == "http" && !guard.Loopback(u) {
		args = append(args, "--allow-http")
	}
	c := jsonForm("npx", "", userConfig("Claude/claude_desktop_config.json", "Claude/claude_desktop_config.json"), "mcpServers",
		field{"command", "npx"}, field{"args", args}, field{"env AUTH", s.literalHeader()})
	c.Literal = true
	return c
}

// codex is ~/.codex/config.toml: https://developers.openai.com/codex/mcp. Without
// an approval mode it asks its user before each tool, and refuses where nobody
// can answer.
func codex(s Setup) Config {
	entry := []string{"mcp_servers", Server}
	edits := entryEdits(entry, field{"url", s.MCPURL}, field{"bearer_token_env_var", TokenVariable})
	edits = append(edits, jsonc.Edit{Path: append(slices.Clone(entry), "default_tools_approval_mode"), Value: "approve", Kind: jsonc.Default})
	var options string
	if m, ok := s.door(action.DialectOpenAI); ok {
		options = fmt.Sprintf(` -c 'model_provider=%q' -c 'model_providers.%s={name="Sallyport",base_url=%q,env_key=%q,wire_api="responses"}'`,
			Server, Server, m.URL+"/v1", TokenVariable)
	}
	return Config{Options: options, Program: "codex", File: ".codex/config.toml", UserFile: ".codex/config.toml", Entry: entry, Edits: edits}
}

// geminiCLI is .gemini/settings.json: https://geminicli.com/docs/tools/mcp-server.
// Without trust it asks its user before each tool.
func geminiCLI(s Setup) Config {
	c := jsonForm("gemini", ".gemini/settings.json", ".gemini/settings.json", "mcpServers",
		field{"httpUrl", s.MCPURL}, field{"headers Authorization", "Bearer ${" + TokenVariable + "}"})
	c.Edits = append(c.Edits, jsonc.Edit{Path: append(slices.Clone(c.Entry), "trust"), Value: true, Kind: jsonc.Default})
	if m, ok := s.door(action.DialectGoogle); ok {
		c.Exports = []string{"GOOGLE_GEMINI_BASE_URL=" + m.URL, `GEMINI_API_KEY="$` + TokenVariable + `"`}
	}
	return c
}

// cursor is a project's .cursor/mcp.json: https://cursor.com/docs/mcp.
func cursor(s Setup) Config {
	return jsonForm("cursor", ".cursor/mcp.json", ".cursor/mcp.json", "mcpServers",
		field{"url", s.MCPURL}, field{"headers Authorization", "Bearer ${env:" + TokenVariable + "}"})
}

// windsurf has one file for all projects:
// https://docs.windsurf.com/windsurf/cascade/mcp.
func windsurf(s Setup) Config {
	return jsonForm("windsurf", "", ".codeium/windsurf/mcp_config.json", "mcpServers",
		field{"serverUrl", s.MCPURL}, field{"headers Authorization", "Bearer ${env:" + TokenVariable + "}"})
}

// zed is settings.json: https://zed.dev/docs/ai/mcp.
func zed(s Setup) Config {
	c := jsonForm("zed", "", ".config/zed/settings.json", "context_servers",
		field{"url", s.MCPURL}, field{"headers Authorization", s.literalHeader()})
	c.Literal = true
	return c
}

// cline is the extension's file: https://docs.cline.bot/mcp/configuring-mcp-servers.
// Its timeout, in seconds, is else a minute, in which nobody may decide.
func cline(s Setup) Config {
	const settings = "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
	c := jsonForm("code", "", userConfig(settings, settings), "mcpServers",
		field{"type", "streamableHttp"}, field{"url", s.MCPURL}, field{"headers Authorization", s.literalHeader()}, field{"timeout", 3600})
	c.Literal = true
	return c
}

// inspector takes what it needs as arguments.
func inspector(s Setup) Config {
	return Config{Program: "npx", Command: "npx @modelcontextprotocol/inspector --cli " + s.MCPURL + ` --transport http --header "Authorization: Bearer $` + TokenVariable + `" --method tools/list`}
}

// vsCode is a workspace's .vscode/mcp.json:
// https://code.visualstudio.com/docs/copilot/reference/mcp-configuration. An
// editor that is started from a menu has no variables of a shell, so it asks
// for the token once and keeps it.
func vsCode(s Setup) Config {
	const id = "sallyport-token"
	edits := entryEdits(
		[]string{"servers", Server},
		field{"type", "http"}, field{"url", s.MCPURL}, field{"headers Authorization", "Bearer ${input:" + id + "}"},
	)
	edits = append(edits, jsonc.Edit{
		Path: []string{"inputs"}, Kind: jsonc.Element, Identity: "id", Value: input{"promptString", id, "Token of the Sallyport session", true},
	})
	return Config{Program: "code", File: ".vscode/mcp.json", UserFile: userConfig("Code/User/mcp.json", "Code/User/mcp.json"), Entry: []string{"servers", Server}, Edits: edits}
}

type input struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Description string `json:"description"`
	Password    bool   `json:"password"`
}
