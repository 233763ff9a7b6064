package doctor

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
)

// Each thing that a client lacks is reported with what to do.
func TestDoctorOfClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sps_good" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"status":401,"code":"session_expired","detail":"This session has expired. Ask for a new session token."}`)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"session","session_id":"s-1"}`)
	}))
	defer server.Close()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", filepath.Join(home, "bin"))
	t.Chdir(t.TempDir())
	url := server.URL + "/mcp"
	codex := "[mcp_servers.sallyport]\nurl = \"" + url + "\"\nbearer_token_env_var = \"SALLYPORT_TOKEN\"\n"
	for _, c := range []struct {
		name, client, file, text, token string
		status                          int
		want                            string // lines, separated by |
	}{
		{"nothing", "codex", "", "", "", 1, "warn  client: codex is not on the PATH|fail  entry: there is no mcp_servers.sallyport in .codex/config.toml or " + home + "/.codex/config.toml; add it: sallyport client config codex --session ID --write ."},
		{"no variable and no mode", "codex", home + "/.codex/config.toml", codex, "", 1, "ok    entry: |fail  token: SALLYPORT_TOKEN is not set|warn  approval: Codex asks"},
		{"all", "codex", ".codex/config.toml", codex + "default_tools_approval_mode = \"approve\"\n", "sps_good", 0, "ok    token|ok    gateway: " + url + " accepts the token of session s-1|ok    approval"},
		{"refused", "codex", ".codex/config.toml", codex, "sps_old", 1, "fail  gateway: This session has expired."},
		{"broken", "codex", ".codex/config.toml", "a = [\n", "sps_good", 1, "fail  entry: .codex/config.toml: is not valid TOML: line 1"},
		{"no gateway", "gemini-cli", ".gemini/settings.json", `{"mcpServers": {"sallyport": {"httpUrl": "http://127.0.0.1:1/mcp"}}}`, "sps_good", 1, "fail  gateway: no server is running at http://127.0.0.1:1|warn  approval: Gemini CLI asks"},
		{"trusted", "gemini-cli", ".gemini/settings.json", `{"mcpServers": {"sallyport": {"httpUrl": "` + url + `", "trust": true}}}`, "sps_good", 0, "ok    gateway|ok    approval"},
		{"comments", "opencode", "opencode.jsonc", `{"mcp": {"sallyport": {"url": "` + url + `"}}, /* all */ "permission": {"*": "allow",}}`, "sps_good", 0, "ok    entry: opencode.jsonc|ok    gateway|ok    approval"},
		{"to be allowed", "claude-code", ".mcp.json", `{"mcpServers": {"sallyport": {"url": "` + url + `"}}}`, "sps_good", 0, "warn  approval: Claude Code asks its user before each tool, although the gateway decides: start it with: claude --allowedTools mcp__sallyport"},
		{"no token in the file", "zed", home + "/.config/zed/settings.json", `{"context_servers": {"sallyport": {"url": "` + url + `", "headers": {"Authorization": "Bearer TOKEN"}}}}`, "sps_good", 1, "fail  token: " + home + "/.config/zed/settings.json has no token"},
		{"a bridge", "claude-desktop", home + "/.config/Claude/claude_desktop_config.json", `{"mcpServers": {"sallyport": {"args": ["-y", "mcp-remote", "` + url + `"], "env": {"AUTH": "Bearer sps_good"}}}}`, "", 0, "ok    token: it is in|ok    gateway|ok    approval"},
		{"a command", "inspector", "", "", "", 1, "ok    entry: none is needed|fail  token"},
	} {
		t.Setenv(agent.TokenVariable, c.token)
		if c.file != "" {
			if err := os.MkdirAll(filepath.Dir(c.file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(c.file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		status := executeDoctor(t.Context(), []string{"doctor", "--client", c.client}, nil, &out, &errs)
		text := out.String()
		for want := range strings.SplitSeq(c.want, "|") {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s%s", c.name, want, text, errs.String())
			}
		}
		if (status == command.ExitOK) != (c.status == 0) || strings.Contains(text, "sps_") || strings.Contains(text, "data folder") {
			t.Errorf("%s: status %d\n%s%s", c.name, status, text, errs.String())
		}
		if c.file != "" {
			if err := os.Remove(c.file); err != nil {
				t.Fatal(err)
			}
		}
	}
}
