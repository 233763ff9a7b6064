package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/agent"
)

const at = "http://127.0.0.1:8787/mcp"

func config(t *testing.T, c agent.Client, s agent.Setup) agent.Config {
	t.Helper()
	s.MCPURL = at
	made, err := agent.ClientConfig(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestClientConfig(t *testing.T) {
	t.Parallel()
	for c, want := range map[agent.Client]string{
		agent.OpenCode: `{"$schema":"https://opencode.ai/config.json","model":"anthropic/claude-opus-4-6",
			"mcp":{"sallyport":{"type":"remote","url":"` + at + `","enabled":true,"headers":{"Authorization":"Bearer {env:SALLYPORT_TOKEN}"},"oauth":false}},
			"permission":{"*":"allow","question":"deny"},"instructions":[".sallyport/actions-guide.md"]}`,
		agent.ClaudeCode:    `{"mcpServers":{"sallyport":{"type":"http","url":"` + at + `","headers":{"Authorization":"Bearer ${SALLYPORT_TOKEN}"}}}}`,
		agent.ClaudeDesktop: `{"mcpServers":{"sallyport":{"command":"npx","args":["-y","mcp-remote","` + at + `","--header","Authorization:${AUTH}"],"env":{"AUTH":"Bearer TOKEN"}}}}`,
		agent.GeminiCLI:     `{"mcpServers":{"sallyport":{"httpUrl":"` + at + `","headers":{"Authorization":"Bearer ${SALLYPORT_TOKEN}"},"trust":true}}}`,
		agent.Windsurf:      `{"mcpServers":{"sallyport":{"serverUrl":"` + at + `","headers":{"Authorization":"Bearer ${env:SALLYPORT_TOKEN}"}}}}`,
		agent.Zed:           `{"context_servers":{"sallyport":{"url":"` + at + `","headers":{"Authorization":"Bearer TOKEN"}}}}`,
		agent.Cline:         `{"mcpServers":{"sallyport":{"type":"streamableHttp","url":"` + at + `","headers":{"Authorization":"Bearer TOKEN"},"timeout":3600}}}`,
		agent.Cursor:        `{"mcpServers":{"sallyport":{"url":"` + at + `","headers":{"Authorization":"Bearer ${env:SALLYPORT_TOKEN}"}}}}`,
		agent.VSCode: `{"servers":{"sallyport":{"type":"http","url":"` + at + `","headers":{"Authorization":"Bearer ${input:sallyport-token}"}}},
			"inputs":[{"type":"promptString","id":"sallyport-token","description":"Token of the Sallyport session","password":true}]}`,
	} {
		made := config(t, c, agent.Setup{Model: "anthropic/claude-opus-4-6", Permissions: agent.AllowAll, Instructions: agent.GuideFile})
		text, err := made.Text()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decoded(t, want), decoded(t, text)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c, diff)
		}
	}
	if _, err := agent.ClientConfig("emacs", agent.Setup{}); err == nil || !strings.Contains(err.Error(), "claude-code") {
		t.Errorf("an unknown client: %v", err)
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestPermissions: no choice loosens or tightens a rule that its user wrote.
func TestPermissions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		permissions agent.Permissions
		file, want  string
	}{
		"sandbox":            {agent.AllowAll, `{"permission": {"bash": "ask"}}`, `{"*": "allow", "bash": "ask", "question": "deny"}`},
		"sandbox and a rule": {agent.AllowAll, `{"permission": {"*": "ask", "question": "allow"}}`, `{"*": "ask", "question": "allow"}`},
		"gateway":            {agent.AllowGateway, `{"permission": {"*": "ask"}}`, `{"*": "ask", "sallyport_*": "allow"}`},
		"gateway and a rule": {agent.AllowGateway, `{"permission": {"sallyport_*": "ask"}}`, `{"sallyport_*": "ask"}`},
		"gateway and narrower rules": {
			agent.AllowGateway, `{"permission": {"*": "ask", "sallyport_notes_add_note": "deny", "sallyport_x": "ask"}}`,
			`{"*": "ask", "sallyport_*": "allow", "sallyport_notes_add_note": "deny", "sallyport_x": "ask"}`,
		},
		"gateway and a narrower rule alone": {agent.AllowGateway, `{"permission": {"sallyport_x": "deny"}}`, `{"sallyport_*": "allow", "sallyport_x": "deny"}`},
		"gateway and a rule for several":    {agent.AllowGateway, `{"permission": {"bash": "ask", "*_delete": "deny"}}`, `{"bash": "ask", "sallyport_*": "allow", "*_delete": "deny"}`},
		"gateway and a word":                {agent.AllowGateway, `{"permission": "deny"}`, "{\n    \"*\": \"deny\",\n    \"sallyport_*\": \"allow\"\n  }"},
		"none":                              {agent.KeepPermissions, `{"permission": "ask"}`, `"ask"`},
	} {
		made := config(t, agent.OpenCode, agent.Setup{Permissions: test.permissions})
		out, err := made.Merge([]byte(test.file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(out), `"permission": `+test.want) {
			t.Errorf("%s: %s; want %s", name, out, test.want)
		}
	}
}

func TestModelOfFileStays(t *testing.T) {
	t.Parallel()
	for keep, want := range map[bool]string{true: `"model": "a/b"`, false: `"model": "c/d"`} {
		made := config(t, agent.OpenCode, agent.Setup{Model: "c/d", ModelDefault: keep})
		if out, err := made.Merge([]byte(`{"model": "a/b"}`)); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("default %v: %s, %v; want %s", keep, out, err, want)
		}
	}
}

// Every client's file keeps its comments and other servers, and the entry is found
// again. Only a client that reads no variables gets the token itself.
func TestMergeKeepsOtherEntries(t *testing.T) {
	t.Parallel()
	for _, c := range agent.Clients() {
		made := config(t, c, agent.Setup{Token: "sps_token"})
		if made.Command != "" {
			if strings.Contains(made.Command, "sps_token") {
				t.Errorf("%s: %s", c, made.Command)
			}
			continue
		}
		kept := []string{"// mine", `"other": {"command": "x"}, // keep`}
		file := "{\n  // mine\n  \"" + made.Entry[0] + "\": {\n    \"other\": {\"command\": \"x\"} // keep\n  }\n}\n"
		if made.TOML() {
			kept = []string{"# mine", "[mcp_servers.other]\ncommand = \"x\" # keep"}
			file = "# mine\n[mcp_servers.other]\ncommand = \"x\" # keep\n"
		}
		merged, err := made.Merge([]byte(file))
		if err != nil {
			t.Fatal(c, err)
		}
		for _, part := range kept {
			if !strings.Contains(string(merged), part) {
				t.Errorf("%s lost %q:\n%s", c, part, merged)
			}
		}
		entry, err := made.Find(merged)
		if raw, _ := json.Marshal(entry); err != nil || !strings.Contains(string(raw), at) {
			t.Errorf("%s: found %s, %v", c, raw, err)
		}
		if strings.Contains(string(merged), "sps_token") != made.Literal {
			t.Errorf("%s: the token in the file: %v", c, !made.Literal)
		}
		if again, err := made.Merge(merged); err != nil || string(again) != string(merged) {
			t.Errorf("%s: merged again: %v\n%s", c, err, again)
		}
		if found, err := made.Find([]byte(file)); err != nil || found != nil {
			t.Errorf("%s: found %v before, %v", c, found, err)
		}
		if made.UserFile == "" || made.Program == "" || made.Place() == "" {
			t.Errorf("%s: %+v", c, made)
		}
	}
}

// A remote gateway without TLS needs the word of the user of Claude Desktop's bridge.
func TestClaudeDesktopAllowsHTTP(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{at: false, "https://gate.example.com/mcp": false, "http://10.0.0.1:8787/mcp": true} {
		made, err := agent.ClientConfig(agent.ClaudeDesktop, agent.Setup{MCPURL: url})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := made.Text(); err != nil || strings.Contains(text, "--allow-http") != want {
			t.Errorf("%s: %s, %v", url, text, err)
		}
	}
}
