package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// suiteRun is one run of the official suite.
type suiteRun struct {
	release   string // the package
	args      string
	stateless bool // the reference server: it speaks the newer era only so
	scenarios int
}

// suiteRuns are all: what each revision of the protocol requires, every
// scenario of every version, and the latest stable release in whole.
func suiteRuns() []suiteRun {
	return []suiteRun{
		{preRelease, "--requirements 2025-11-25", false, 33},
		{preRelease, "--requirements 2026-07-28", true, 50},
		{preRelease, "--suite all --spec-version 2025-03-26", false, 1},
		{preRelease, "--suite all --spec-version 2025-06-18", false, 27},
		{preRelease, "--suite all --spec-version 2025-11-25", false, 33},
		{preRelease, "--suite all --spec-version 2026-07-28", true, 40},
		{stable, "--suite all", false, 32},
	}
}

// unscored are scenarios of the extension that has long calls be tasks, by
// their beginning. Neither the gateway nor the reference server has it, and the
// suite does not count it.
const unscored = "tasks-"

// otherwise are checks that come out otherwise than of the reference server, and
// why. None of them is a failure.
func otherwise() map[string]string {
	return map[string]string{
		"server-sse-multiple-streams server-sse-streams-functional":                   "what has nothing to say before its answer is answered as JSON, not on a stream",
		"input-required-result-ignore-extra-params sep-2322-ignore-unexpected-params": "it replies to questions that were not asked: through a gateway, replies come with the state of their round",
		"server-sse-polling server-sse-retry-field":                                   "no stream here has event ids to resume from: a call outlives its stream and is joined instead",
	}
}

// TestSuite runs the official suite against one gateway.
func TestSuite(t *testing.T) {
	t.Parallel()
	testSuite(t, []*gateway{startGateway(t)})
}

// testSuite runs the official suite against gateways that share their rows,
// with the Go SDK's server for it behind them as their only connector, and with
// no list of failures to expect. No check may come out worse than it does when
// the suite speaks to that server itself.
func testSuite(t *testing.T, gateways []*gateway) {
	g := gateways[0]
	for _, run := range suiteRuns() {
		t.Run(strings.TrimPrefix(run.release+" "+run.args, "@modelcontextprotocol/"), func(t *testing.T) {
			at := startReference(t, run.stateless)
			source := g.connector("", at, func(body map[string]any) { body["may_ask"] = json.RawMessage(mayAsk) })
			defer g.must("DELETE", "/api/v1/connectors/"+strings.TrimPrefix(source, "connector:"), nil, nil)
			g.mode(source+":*", "allow")
			b := startBalancer(t, gateways, g.mint(nil).Token)
			defer g.reviews(source)()
			direct, through := runSuite(t, run, at), runSuite(t, run, b.URL+"/mcp")
			if len(through) != run.scenarios || len(direct) != run.scenarios {
				t.Errorf("%d scenarios were run, and %d directly; there are %d", len(through), len(direct), run.scenarios)
			}
			for name, checks := range through {
				judge(t, name, direct[name], checks)
			}
			if served := b.spread("initialize"); !run.stateless && run.scenarios > 9 && slices.Contains(served, 0) {
				t.Errorf("replicas were given %v handshakes", served)
			}
		})
	}
}

// reviews is an admin who takes each change of a connector's tools as reviewed,
// until the returned function is called: the suite has the server add one, and
// then calls it.
func (g *gateway) reviews(source string) (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			r, err := g.try("POST", "/api/v1/connectors/"+strings.TrimPrefix(source, "connector:")+"/review", map[string]any{"all": true})
			if err != nil || r.Status >= 300 {
				g.t.Errorf("reviewing: %v, %d, %s", err, r.Status, r.Body)
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// judge holds the checks of a scenario against those of the server itself.
func judge(t *testing.T, scenario string, direct, through map[string]check) {
	t.Helper()
	for id, c := range through {
		name := scenario + " " + id
		switch was := direct[id]; {
		case c.Status == "FAILURE" && !strings.HasPrefix(scenario, unscored):
			t.Errorf("%s fails: %s: %.2000s", name, c.Message, c.Details)
		case was.rank() <= c.rank() || otherwise()[name] != "":
		default:
			t.Errorf("%s came to %s, and directly to %q: %s", name, c.Status, was.Status, c.Message)
		}
	}
	for id, was := range direct {
		if _, made := through[id]; !made && was.rank() > 0 && otherwise()[scenario+" "+id] == "" {
			t.Errorf("%s %s was not checked; directly it came to %s", scenario, id, was.Status)
		}
	}
}

// check is what came of a check, the worst if it was made more than once.
type check struct {
	ID      string          `json:"id"`
	Status  string          `json:"status"`
	Message string          `json:"errorMessage"`
	Details json.RawMessage `json:"details"`
}

// rank orders what may come of a check, the worst first; zero is of what says
// nothing about the server.
func (c check) rank() int {
	return map[string]int{"FAILURE": -2, "WARNING": -1, "SUCCESS": 1}[c.Status]
}

// runSuite runs the suite against a server, and returns the checks of each
// scenario by their ids. It must end as a success.
func runSuite(t *testing.T, run suiteRun, url string) map[string]map[string]check {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{filepath.Join("node_modules", run.release, "dist/index.js"), "server", "--url", url, "--output-dir", dir}, strings.Fields(run.args)...)
	out, err := exec.CommandContext(t.Context(), node(t), args...).CombinedOutput()
	if _, summary, ok := strings.Cut(string(out), "=== SUMMARY ==="); err != nil || !ok {
		t.Errorf("the suite of %s: %v\n%s", url, err, summary)
	}
	folders, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(map[string]map[string]check)
	for _, folder := range folders {
		raw, err := os.ReadFile(filepath.Join(dir, folder.Name(), "checks.json"))
		if err != nil {
			t.Fatal(err)
		}
		ran[scenarioOf(folder.Name())] = checksOf(t, raw)
	}
	return ran
}

// scenarioOf reads "server-<scenario>-<time>".
func scenarioOf(folder string) string {
	return regexp.MustCompile(`^server-|-\d{4}-\d\d-\d\dT.*$`).ReplaceAllString(folder, "")
}

// checksOf has the checks by their ids.
func checksOf(t *testing.T, raw []byte) map[string]check {
	t.Helper()
	by := make(map[string]check)
	var list []check
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if was, again := by[c.ID]; !again || c.rank() < was.rank() {
			by[c.ID] = c
		}
	}
	return by
}

const referencePackage = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

// reference builds the Go SDK's server for the suite.
var reference = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "reference")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", path, referencePackage)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", referencePackage, err, out)
	}
	return path, nil
})

// startReference runs it.
func startReference(t *testing.T, stateless bool) (url string) {
	t.Helper()
	program, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	at := freeAddress(t)
	cmd := exec.CommandContext(t.Context(), program, "-http", at, fmt.Sprintf("-stateless=%t", stateless))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	await(t, "the suite's server", func() bool {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", at)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return "http://" + at + "/mcp"
}

// freeAddress is one where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
