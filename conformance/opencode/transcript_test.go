package opencode_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/conformance/harness"
)

var update = flag.Bool("update", false, "write the transcript into docs/clients/opencode.md")

// Where docs/clients/opencode.md has the transcript.
const (
	page   = "../../docs/clients/opencode.md"
	opens  = "<!-- A test writes this: go test ./conformance/opencode -run Transcript -update -->\n"
	closes = "<!-- the end of what the test writes -->\n"
)

// TestTranscript does what docs/clients/opencode.md tells its reader to do, and holds
// the page to what came of it.
func TestTranscript(t *testing.T) {
	t.Parallel()
	s := beginAlone(t)
	notes := harness.StartUpstream(
		harness.Tool{Name: "find", Description: "Finds notes.", Reads: true, Does: "no note about "},
		harness.Tool{Name: "add", Description: "Adds a note.", Does: "added "},
	)
	t.Cleanup(notes.Close)
	if err := s.Connect("notes", notes); err != nil {
		t.Fatal(err)
	}
	model := s.model(
		harness.Call("sallyport_notes_find", args{"text": "milk"}),
		harness.Call("sallyport_notes_add", args{"text": "milk"}),
		harness.Say("Milk is on the list now."),
	)
	d := &document{t: t, s: s, dir: t.TempDir()}

	var created struct {
		ID    string `json:"session_id"`
		Token string `json:"token"`
	}
	if err := json.NewDecoder(strings.NewReader(d.sallyport("session", "create", "--title", "Groceries"))).Decode(&created); err != nil {
		t.Fatal(err)
	}
	s.ID, s.Token = created.ID, created.Token
	d.printf("$ export SALLYPORT_TOKEN=sps_…\n")
	d.installs(model)
	d.sallyport("client", "config", "opencode", "--session", s.ID, "--write", "opencode.json")
	run := d.opencode.run("Put milk on the list.")
	d.printf("$ opencode run \"Put milk on the list.\"\n")
	id := s.Held()
	harness.Await(t, "OpenCode to show the read", func() bool { return strings.Contains(run.Printed(), `notes_find {"text":"milk"}`) })
	before := run.Printed()
	d.printf("%s", trimmed(before))
	d.printf("\n# It waits. In another terminal, or in the page:\n")
	d.sallyport("pending")
	d.sallyport("approve", id)
	d.printf("\n# And OpenCode goes on:\n%s", trimmed(strings.TrimPrefix(run.Succeeds(), before)))
	d.compare()
}

// document is a transcript in the making.
type document struct {
	t        *testing.T
	s        *story
	dir      string // the project's folder
	opencode *opencode
	text     strings.Builder
}

// installs has OpenCode read what is its user's from his own configuration, and
// what is the project's from its folder.
func (d *document) installs(m *harness.Model) {
	d.t.Helper()
	own := configuration(m)
	delete(own, "permission")
	raw, err := json.Marshal(own)
	if err != nil {
		d.t.Fatal(err)
	}
	d.opencode = d.s.installed(raw)
	d.opencode.Env = append(d.opencode.Env, "OPENCODE_DISABLE_PROJECT_CONFIG=0")
	d.dir = d.opencode.Work()
}

func (d *document) printf(format string, a ...any) { fmt.Fprintf(&d.text, format, a...) }

// sallyport runs a command in the project's folder, and writes down what it
// printed.
func (d *document) sallyport(arguments ...string) (printed string) {
	d.t.Helper()
	command := exec.CommandContext(context.Background(), d.s.Path, arguments...)
	command.Dir = d.dir
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "XDG_DATA_HOME=" + filepath.Dir(d.s.Data)}
	out, err := command.CombinedOutput()
	if err != nil {
		d.t.Fatalf("sallyport %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	d.printf("$ sallyport %s\n%s", strings.Join(arguments, " "), trimmed(string(out)))
	return string(out)
}

func trimmed(printed string) string { return strings.Trim(printed, "\n") + "\n" }

func (d *document) compare() {
	d.t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		d.t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), opens)
	old, after, closed := strings.Cut(rest, closes)
	if !ok || !closed {
		d.t.Fatalf("docs/clients/opencode.md lacks one of the lines\n%s%s", opens, closes)
	}
	made := "\n```console\n" + d.stable() + "```\n\n"
	if *update {
		if err := os.WriteFile(page, []byte(before+opens+made+closes+after), 0o600); err != nil {
			d.t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(old, made); diff != "" {
		d.t.Errorf("docs/clients/opencode.md is not what happens; run this test with -update (-page +now):\n%s", diff)
	}
}

// stable has an example in the place of what differs each time.
func (d *document) stable() string {
	text := d.text.String()
	for _, r := range []struct{ pattern, with string }{
		{`127\.0\.0\.1:\d+`, "127.0.0.1:8787"},
		{`sps_[\w-]{20,}`, "sps_…"},
		{`\d{4}-\d\d-\d\dT[\d:.]+Z`, "2026-12-22T09:00:00Z"},
		{`requested \w+ ago, expires in \w+`, "requested 3s ago, expires in 5m"},
		{regexp.QuoteMeta(d.dir) + `/`, ""},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	known := map[string]string{}
	return regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllStringFunc(text, func(id string) string {
		if known[id] == "" {
			known[id] = fmt.Sprintf("0199a3c4-5d6e-7f80-9123-4567890abc%02d", len(known)+1)
		}
		return known[id]
	})
}
