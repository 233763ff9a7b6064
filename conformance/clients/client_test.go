package clients_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sallyport/conformance/harness"
)

type args = harness.Args

// client is a program that people run agents with.
type client struct {
	name    string
	prefix  string // of the gateway's tools, as its model is offered them
	dialect harness.Dialect
	// install configures the client for a model and the gateway of a session.
	install func(*testing.T, *harness.Session, *harness.Model) *harness.Agent
	ask     []string // its arguments before the prompt
	loads   bool     // its model loads a tool before it calls it
}

func clients() []client {
	return []client{
		{"Claude Code", "mcp__sallyport__", harness.Messages{}, claudeCode, []string{"--allowedTools", "mcp__sallyport", "-p"}, true},
		{"Codex", "mcp__sallyport.", harness.Responses{}, codex, []string{"exec", "--skip-git-repo-check"}, false},
		{"Gemini CLI", "mcp_sallyport_", harness.Gemini{}, geminiCLI, []string{"--model", "gemini-2.5-flash", "-p"}, false},
	}
}

// each runs a test with each client.
func each(t *testing.T, test func(*testing.T, client)) {
	t.Helper()
	t.Parallel()
	harness.SkipShort(t)
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) { t.Parallel(); test(t, c) })
	}
}

// calls is a step that calls a tool of the gateway.
func (c client) calls(tool string, arguments args) harness.Step {
	return harness.Call(c.prefix+tool, arguments)
}

// run starts the client with a prompt, beside the test.
func (c client) run(s *harness.Session, m *harness.Model) *harness.Process {
	s.T.Helper()
	return c.install(s.T, s, m).Start(append(c.ask, "Look after my notes.")...)
}

func claudeCode(t *testing.T, s *harness.Session, m *harness.Model) *harness.Agent {
	t.Helper()
	a := harness.NewAgent(t, harness.Program(t, "@anthropic-ai/claude-code-linux-x64/claude"))
	a.Env = append(a.Env, "SALLYPORT_TOKEN="+s.Token,
		"ANTHROPIC_BASE_URL="+m.URL, "ANTHROPIC_API_KEY=none", "ANTHROPIC_MODEL=agent", "ANTHROPIC_DEFAULT_HAIKU_MODEL=haiku",
		"MCP_CONNECTION_NONBLOCKING=0", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "DISABLE_ERROR_REPORTING=1")
	configure(t, s, "claude-code", filepath.Join(a.Work(), ".mcp.json"))
	a.File(".claude/settings.json", marshal(t, args{"enableAllProjectMcpServers": true}))
	a.File(".claude.json", marshal(t, args{ // what its user answered once
		"hasCompletedOnboarding": true, "theme": "dark", "customApiKeyResponses": args{"approved": []string{"none"}},
		"projects": args{a.Work(): args{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	}))
	return a
}

func codex(t *testing.T, s *harness.Session, m *harness.Model) *harness.Agent {
	t.Helper()
	a := harness.NewAgent(t, harness.Program(t, "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"))
	a.Env = append(a.Env, "SALLYPORT_TOKEN="+s.Token, "MODEL_KEY=none")
	a.File(".codex/config.toml", fmt.Appendf(nil, `
model = "agent"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "Scripted"
base_url = %q
env_key = "MODEL_KEY"
wire_api = "responses"

[analytics]
enabled = false
`, m.URL+"/v1"))
	configure(t, s, "codex", filepath.Join(a.Home, ".codex/config.toml"))
	return a
}

func geminiCLI(t *testing.T, s *harness.Session, m *harness.Model) *harness.Agent {
	t.Helper()
	a := harness.NewAgent(t, harness.Node(t), harness.Program(t, "@google/gemini-cli/bundle/gemini.js"))
	a.Env = append(a.Env, "SALLYPORT_TOKEN="+s.Token, "GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL="+m.URL, "GEMINI_CLI_TRUST_WORKSPACE=true",
		"GEMINI_CLI_NO_RELAUNCH=true", "NODE_COMPILE_CACHE="+filepath.Join(os.TempDir(), "node")) // it starts slowly
	a.File(".gemini/settings.json", marshal(t, args{
		"general":   args{"enableAutoUpdate": false},
		"privacy":   args{"usageStatisticsEnabled": false},
		"telemetry": args{"enabled": false},
		"security":  args{"auth": args{"selectedType": "gemini-api-key"}},
	}))
	configure(t, s, "gemini-cli", filepath.Join(a.Home, ".gemini/settings.json"))
	return a
}

// configure adds the gateway to a file of the client, as its users do.
func configure(t *testing.T, s *harness.Session, name, file string) {
	t.Helper()
	sallyport(t, s, "client", "config", name, "--session", s.ID, "--write", file)
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
