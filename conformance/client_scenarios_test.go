package conformance_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Ways to sign in that the connectors do not speak, and the suite's own
// reference client neither.
func unspoken() map[string]string {
	const keys = "the gateway signs no assertions"
	return map[string]string{
		"auth/client-credentials-jwt":           keys,
		"auth/dpop":                             keys,
		"auth/dpop-nonce":                       keys,
		"auth/enterprise-managed-authorization": "the gateway is at no identity provider whose assertions it could exchange",
		"auth/cross-app-access-complete-flow":   "an earlier name of enterprise-managed-authorization",
		"auth/wif-jwt-bearer":                   "the gateway has no workload identity",
	}
}

// skills are scenarios of an extension that a client need not know, by their
// beginning: it is not asked for skills, so that there is nothing to check.
const skills = "sep-2640-"

// The two releases of the suite, by the names of their packages here.
const (
	preRelease = "@modelcontextprotocol/conformance"
	stable     = "conformance-stable"
)

// TestClientScenarios has the official suite test the connectors as MCP
// clients.
func TestClientScenarios(t *testing.T) {
	client := buildClient(t, "./connectorclient")
	for _, run := range []struct {
		suite     string
		args      []string
		scenarios int
	}{
		{preRelease, []string{"--requirements", "2025-11-25"}, 25},
		{preRelease, []string{"--requirements", "2026-07-28"}, 39},
		{preRelease, []string{"--suite", "all"}, 48},
		{stable, []string{"--suite", "all"}, 26},
	} {
		t.Run(run.suite+" "+strings.Join(run.args, " "), func(t *testing.T) {
			ran := runClient(t, run.suite, client, run.args...)
			if len(ran) != run.scenarios {
				t.Errorf("%d scenarios were run, not %d", len(ran), run.scenarios)
			}
			for name, failed := range ran {
				switch why, known := unspoken()[name]; {
				case strings.HasPrefix(name, skills) && failed == "no check succeeded":
				case !known && failed != "":
					t.Errorf("%s fails: %s", name, failed)
				case known && failed == "":
					t.Errorf("%s passes, although it is said that %s", name, why)
				}
			}
		})
	}
}

// TestTheReferenceClientFailsThemToo proves that what the connectors are
// excused from is nothing that the Go SDK's own client does.
func TestTheReferenceClientFailsThemToo(t *testing.T) {
	client := buildClient(t, "github.com/modelcontextprotocol/go-sdk/conformance/everything-client")
	ran := runClient(t, preRelease, client, "--suite", "extensions")
	for name, failed := range runClient(t, stable, client, "--suite", "all") {
		ran[name] = failed
	}
	for name := range unspoken() {
		if failed, ok := ran[name]; !ok || failed == "" {
			t.Errorf("%s: run: %t, failed: %q", name, ok, failed)
		}
	}
}

// runClient has the suite run a client, and returns what failed in each
// scenario: nothing in one that passed.
func runClient(t *testing.T, suite, client string, args ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	args = append([]string{"node_modules/" + suite + "/dist/index.js", "client", "--command", client, "--output-dir", dir}, args...)
	out, err := exec.CommandContext(t.Context(), node(t), args...).CombinedOutput() // fails whenever a scenario does
	if !strings.Contains(string(out), "=== SUITE SUMMARY ===") {
		t.Fatalf("the suite: %v\n%s", err, out)
	}
	ran := make(map[string]string)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "checks.json" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		name := regexp.MustCompile(`-\d{4}-\d\d-\d\dT.*$`).ReplaceAllString(filepath.ToSlash(folder), "")
		if ran[name] = failures(t, raw); ran[name] != "" {
			ran[name] += clientSaid(filepath.Dir(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ran
}

// failures says what failed. Where no check succeeded, beside the one that
// messages have the right form, nothing was shown.
func failures(t *testing.T, raw []byte) string {
	t.Helper()
	var checks []struct{ ID, Status, ErrorMessage string }
	if err := json.Unmarshal(raw, &checks); err != nil {
		t.Fatal(err)
	}
	var failed []string
	shown := false
	for _, c := range checks {
		shown = shown || c.Status == "SUCCESS" && c.ID != "wire-schema-valid"
		if c.Status == "FAILURE" || c.Status == "WARNING" {
			failed = append(failed, c.ID+": "+c.ErrorMessage)
		}
	}
	if !shown {
		failed = append(failed, "no check succeeded")
	}
	return strings.Join(failed, "; ")
}

// clientSaid is what a client wrote to its standard error.
func clientSaid(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, "stderr.txt"))
	if err != nil || len(raw) == 0 {
		return ""
	}
	return "; the client said: " + string(raw)
}

// buildClient builds a client for the suite.
func buildClient(t *testing.T, pkg string) string {
	t.Helper()
	node(t)
	path := filepath.Join(t.TempDir(), "client")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return path
}
