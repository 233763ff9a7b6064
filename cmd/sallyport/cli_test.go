package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sallyport/internal/dbtest"
)

// withDatabases stops the databases that tests started.
type withDatabases struct{ *testing.M }

func (m withDatabases) Run() int { return dbtest.Main(m.M) }

func TestMain(m *testing.M) {
	testscript.Main(withDatabases{m}, map[string]func(){"sallyport": main})
}

// TestCommand plays shell sessions with the real command and a real server.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("runs servers")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_DATA_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("USER", "ada")
			// Else every command sleeps for a second before it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Values[shopKey{}] = new(shopServer)
			env.Values[guardedKey{}] = new(guardedServer)
			env.Values[tallyKey{}] = new(tallyServer)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"ready":      ready,
			"decides":    decides,
			"fetches":    fetches,
			"nowhere":    nowhere,
			"notebook":   startNotebook,
			"linear":     startLinear,
			"invoke":     invoke,
			"wishfor":    wishFor,
			"shop":       shop,
			"guarded":    guarded,
			"signin":     signIn,
			"sealed":     sealed,
			"forge":      forge,
			"field":      field,
			"pick":       pick,
			"post":       post,
			"eventually": eventually,
			"tally":      tally,
			"exits":      exits,
			"waiting":    waitsFor,
			"memberkey": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Setenv("SALLYPORT_API_KEY", strings.TrimSpace(ts.ReadFile("key")))
			},
			"deadport": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Setenv("DEAD", "http://127.0.0.1:1/mcp") },
		},
	})
}

// ready DIR waits until a server runs on the data folder.
func ready(ts *testscript.TestScript, _ bool, args []string) {
	runs := func() bool {
		_, err := os.Stat(endpointPath(ts.MkAbs(args[0])))
		return err == nil
	}
	if !comes(runs) {
		ts.Fatalf("no server was ready on %s within %v", args[0], waitAtMost)
	}
}

// notebook serves the demo's upstream, and sets NOTEBOOK to its URL.
func startNotebook(ts *testscript.TestScript, _ bool, _ []string) {
	url, stop, err := serveNotebook(context.Background(), newNotebook())
	ts.Check(err)
	ts.Defer(stop)
	ts.Setenv("NOTEBOOK", url)
	ts.Setenv("NOTEBOOK_HOST", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
}

// field NAME FILE PATH sets the variable to a field of a JSON file, such as
// invocation.id or items.0.id.
func field(ts *testscript.TestScript, _ bool, args []string) {
	var at any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &at))
	for part := range strings.SplitSeq(args[2], ".") {
		switch v := at.(type) {
		case map[string]any:
			at = v[part]
		case []any:
			if part != "0" || len(v) == 0 {
				ts.Fatalf("no %s in %s", args[2], ts.ReadFile(args[1]))
			}
			at = v[0]
		}
	}
	text, ok := at.(string)
	if !ok {
		ts.Fatalf("no text at %s in %s", args[2], ts.ReadFile(args[1]))
	}
	ts.Setenv(args[0], text)
}

// pick NAME FILE REGEXP sets the variable to what the first group matches.
func pick(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile(args[2]).FindStringSubmatch(ts.ReadFile(args[1]))
	if found == nil {
		ts.Fatalf("no %s in %s", args[2], ts.ReadFile(args[1]))
	}
	ts.Setenv(args[0], found[1])
}
