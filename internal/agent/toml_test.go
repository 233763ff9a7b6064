package agent_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/agent"
)

// What an edit does not concern stays byte for byte.
func TestCodexConfig(t *testing.T) {
	t.Parallel()
	const entry = `[mcp_servers.sallyport]
url = "http://127.0.0.1:8787/mcp"
bearer_token_env_var = "SALLYPORT_TOKEN"
default_tools_approval_mode = "approve"
`
	made := config(t, agent.Codex, agent.Setup{})
	for name, c := range map[string]struct{ file, want string }{
		"new file":                 {"", entry},
		"other keys":               {"model = \"x\" # mine\n", "model = \"x\" # mine\n\n" + entry},
		"no line break at the end": {"model = \"x\"", "model = \"x\"\n\n" + entry},
		"entry in between": {
			"a = 1\n\n[mcp_servers.sallyport] # ours\nurl = 'http://old' # the gateway\nenabled = true\n\n# theirs\n[mcp_servers.\"other one\"]\nurl = \"http://x\"\n",
			"a = 1\n\n[mcp_servers.sallyport] # ours\nurl = \"http://127.0.0.1:8787/mcp\" # the gateway\nenabled = true\nbearer_token_env_var = \"SALLYPORT_TOKEN\"\ndefault_tools_approval_mode = \"approve\"\n\n# theirs\n[mcp_servers.\"other one\"]\nurl = \"http://x\"\n",
		},
		"chosen mode and tables below": {
			"[mcp_servers.sallyport]\ndefault_tools_approval_mode = \"prompt\"\n[mcp_servers.sallyport.tools.notes_add]\napproval_mode = \"prompt\"\n",
			"[mcp_servers.sallyport]\ndefault_tools_approval_mode = \"prompt\"\nurl = \"http://127.0.0.1:8787/mcp\"\nbearer_token_env_var = \"SALLYPORT_TOKEN\"\n[mcp_servers.sallyport.tools.notes_add]\napproval_mode = \"prompt\"\n",
		},
		"Windows line breaks": {"a = 1\r\n", "a = 1\r\n\r\n" + strings.ReplaceAll(entry, "\n", "\r\n")},
		"texts that look like it": {
			"notes = \"\"\"\n[mcp_servers.sallyport]\nurl = 1\n\"\"\"\nlist = [\n  '[mcp_servers.sallyport]', # ]\n  \"a\\\"\",\n]\n",
			"notes = \"\"\"\n[mcp_servers.sallyport]\nurl = 1\n\"\"\"\nlist = [\n  '[mcp_servers.sallyport]', # ]\n  \"a\\\"\",\n]\n\n" + entry,
		},
	} {
		got, err := made.Merge([]byte(c.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		again, err := made.Merge(got)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: merged again: %v\n%s", name, err, again)
		}
		found, err := made.Find(got)
		if err != nil || found["url"] != at || found["bearer_token_env_var"] != agent.TokenVariable {
			t.Errorf("%s: found %v, %v", name, found, err)
		}
	}
}

func TestCodexConfigRefuses(t *testing.T) {
	t.Parallel()
	made := config(t, agent.Codex, agent.Setup{})
	for file, why := range map[string]string{
		"mcp_servers = { sallyport = { url = \"x\" } }\n": "write it as [mcp_servers.sallyport]",
		"[mcp_servers]\nsallyport.url = \"x\"\n":          "write it as [mcp_servers.sallyport]",
		"[[mcp_servers]]\nname = \"x\"\n":                 "write it as [mcp_servers.sallyport]",
		"a = 1\nb = \"not closed\n":                       "line 2: a string does not end",
		"a = 1\n[mcp_servers.x\nurl = 1\n":                "line 2: a table header does not end",
		"a\n":                                             "line 1: a key has no value",
		"a = [1,\n2\n":                                    "line 1: a value does not end",
		"{\"mcpServers\": {}}\n":                          "line 1: a key is expected",
	} {
		if _, err := made.Merge([]byte(file)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v; want %s", file, err, why)
		}
	}
}

// FuzzCodexConfig: a merged file has the entry, and merging it again changes
// nothing.
func FuzzCodexConfig(f *testing.F) {
	f.Add("model = \"x\"\n[mcp_servers.sallyport]\nurl = 'y' # z\n")
	f.Add("a.b = [{c = 1}, 'd']\n[e]\n")
	f.Fuzz(func(t *testing.T, file string) {
		made, err := agent.ClientConfig(agent.Codex, agent.Setup{MCPURL: at})
		if err != nil {
			t.Fatal(err)
		}
		merged, err := made.Merge([]byte(file))
		if err != nil {
			return
		}
		found, err := made.Find(merged)
		if err != nil || found["url"] != at {
			t.Fatalf("%q becomes %q: %v, %v", file, merged, found, err)
		}
		if again, err := made.Merge(merged); err != nil || string(again) != string(merged) {
			t.Fatalf("%q becomes %q: %v", merged, again, err)
		}
	})
}
