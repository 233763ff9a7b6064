package clients_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/conformance/harness"
)

// TestPages holds the page of each client to what the program writes for it.
func TestPages(t *testing.T) {
	t.Parallel()
	harness.SkipShort(t)
	s := shared.Session(t, nil)
	for _, name := range []string{
		"claude-code", "claude-desktop", "codex", "gemini-cli", "cursor", "vscode", "windsurf", "zed", "cline", "inspector",
	} {
		page, err := os.ReadFile("../../docs/clients/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		written := strings.ReplaceAll(sallyport(t, s, "client", "config", name, "--session", s.ID), s.URL, "http://127.0.0.1:8787")
		shown := regexp.MustCompile("(?s)```(json|toml|sh)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
		found := ""
		for _, block := range shown {
			if strings.Contains(written, strings.TrimSpace(block[2])) || block[1] == "json" && sameJSON(block[2], written) {
				found = block[2]
			}
		}
		if found == "" {
			t.Errorf("docs/clients/%s.md does not show what sallyport client config %s prints:\n%s", name, name, written)
		}
	}
}

func sameJSON(a, b string) bool {
	var left, right any
	return json.Unmarshal([]byte(a), &left) == nil && json.NewDecoder(strings.NewReader(b)).Decode(&right) == nil && cmp.Equal(left, right)
}
