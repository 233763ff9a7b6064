package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/demo/notebook"
	"sallyport/ingest/event"
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
			"oldserver":  startOldServer,
			"guarded":    guarded,
			"signin":     signIn,
			"sealed":     sealed,
			"forge":      forge,
			"field":      field,
			"pick":       pick,
			"post":       post,
			"eventually": eventually,
			"appears":    appears,
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
		_, err := os.Stat(command.EndpointPath(ts.MkAbs(args[0])))
		return err == nil
	}
	if !waitUntil(runs) {
		ts.Fatalf("no server was ready on %s within %v", args[0], maxWait)
	}
}

// appears PATTERN FILE waits until a line of the file, which another command is
// writing, matches the regular expression.
func appears(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	content := []byte(nil)
	found := func() bool {
		content, _ = os.ReadFile(ts.MkAbs(args[1])) // it may not exist yet
		return pattern.Match(content)
	}
	if !waitUntil(found) {
		ts.Fatalf("%s has no %q within %v:\n%s", args[1], args[0], maxWait, content)
	}
}

// notebook serves the demo's upstream, and sets NOTEBOOK to its URL.
func startNotebook(ts *testscript.TestScript, _ bool, _ []string) {
	url, stop, err := notebook.Serve(context.Background(), notebook.New("Buy milk", "The gate has two doors"))
	ts.Check(err)
	ts.Defer(stop)
	ts.Setenv("NOTEBOOK", url)
	ts.Setenv("NOTEBOOK_HOST", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
}

// oldserver serves MCP over HTTP+SSE only, and sets OLD to its URL.
func startOldServer(ts *testscript.TestScript, _ bool, _ []string) {
	old := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	old.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
		})
	server := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return old }, nil))
	ts.Defer(func() { server.CloseClientConnections(); server.Close() })
	ts.Setenv("OLD", server.URL+"/sse")
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

// maxWait is how long a script waits for something to happen.
const maxWait = time.Minute

// waitUntil polls until f returns true, and reports false after maxWait.
func waitUntil(f func() bool) bool {
	for end := time.Now().Add(maxWait); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// post URL SECRET ID BODY posts what a sender would, signed as Standard Webhooks
// says, and prints the status that it is answered with.
func post(ts *testscript.TestScript, _ bool, args []string) {
	now, body := time.Now(), []byte(args[3])
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, args[0], strings.NewReader(args[3]))
	ts.Check(err)
	request.Header.Set("Webhook-Id", args[2])
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	request.Header.Set("Webhook-Signature", event.SignStandard(args[2], now, body, []byte(args[1])))
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write([]byte(strconv.Itoa(response.StatusCode) + "\n"))
	ts.Check(err)
}

// eventually COMMAND ARGS… runs a command that prints a table until there is a
// row in it.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	prints := func() bool {
		ts.Check(ts.Exec(args[0], args[1:]...))
		return strings.Count(ts.ReadFile("stdout"), "\n") > 1
	}
	if !waitUntil(prints) {
		ts.Fatalf("%s printed no row within %v", strings.Join(args, " "), maxWait)
	}
}

// startLinear serves what answers like Linear, and sets LINEAR to its URL.
func startLinear(ts *testscript.TestScript, _ bool, _ []string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // who asked is gone
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") != "lin_api_9f8e7d6c5b4a39281706":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"errors":[{"message":"Authentication required, not authenticated","extensions":{"type":"authentication error","code":"AUTHENTICATION_ERROR"}}]}`)
		case strings.Contains(string(body), `"Viewer"`):
			_, _ = io.WriteString(w, `{"data":{"viewer":{"id":"u1","name":"Ada","email":"ada@example.com"},"organization":{"id":"o1","name":"Acme","urlKey":"acme"}}}`)
		case strings.Contains(string(body), `"Metadata"`):
			const none = `{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}`
			_, _ = io.WriteString(w, `{"data":{"teams":{"nodes":[{"id":"t1","key":"ENG","name":"Engineering"}],"pageInfo":{"hasNextPage":false,"endCursor":"x"}},"states":`+none+`,"labels":`+none+`,"users":`+none+`,"projects":`+none+`}}`)
		case strings.Contains(string(body), `"ListIssues"`):
			_, _ = io.WriteString(w, `{"data":{"issues":{"nodes":[{"id":"2f1e0d9c-8b7a-4695-8473-625140392817","identifier":"ENG-7","title":"Login fails","url":"https://linear.app/acme/issue/ENG-7","priority":2,"priorityLabel":"High","dueDate":null,"createdAt":"2026-11-01T00:00:00Z","updatedAt":"2026-11-01T00:00:00Z","state":{"id":"s","name":"Todo","type":"unstarted"},"assignee":null,"team":{"id":"t","key":"ENG","name":"Engineering"},"project":null,"labels":{"nodes":[]}}],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`)
		case strings.Contains(string(body), `"FindTeam"`):
			_, _ = io.WriteString(w, `{"data":{"teams":{"nodes":[{"id":"4cfb482a-81e3-4154-b5b9-2c805e70a02d","key":"ENG","name":"Engineering"}]}}}`)
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv("LINEAR", server.URL)
}

// asAdmin asks a server on this machine over HTTP.
func asAdmin(ts *testscript.TestScript, data, method, path, body string) (status int, head http.Header, raw []byte) {
	e, err := command.ReadEndpoint(ts.MkAbs(data))
	ts.Check(err)
	request, err := http.NewRequestWithContext(context.Background(), method, e.URL+path, strings.NewReader(body))
	ts.Check(err)
	request.Header.Set("Authorization", "Bearer "+e.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	raw, err = io.ReadAll(response.Body)
	ts.Check(err)
	return response.StatusCode, response.Header, raw
}

// decides DIR VERB BODY answers or refuses the newest request for variables.
func decides(ts *testscript.TestScript, _ bool, args []string) {
	_, _, raw := asAdmin(ts, args[0], "GET", "/api/v1/env-requests?status=pending&limit=1", "")
	var list struct{ Items []struct{ ID string } }
	ts.Check(json.Unmarshal(raw, &list))
	if len(list.Items) == 0 {
		ts.Fatalf("nothing is asked for: %s", raw)
	}
	if status, _, raw := asAdmin(ts, args[0], "POST", "/api/v1/env-requests/"+list.Items[0].ID+"/"+args[1], args[2]); status != http.StatusOK {
		ts.Fatalf("%d: %s", status, raw)
	}
}

// fetches DIR PATH writes what a person fetches, with its headers, to the file
// answer.
func fetches(ts *testscript.TestScript, _ bool, args []string) {
	_, headers, raw := asAdmin(ts, args[0], "GET", args[1], "")
	var head bytes.Buffer
	ts.Check(headers.Write(&head))
	ts.Check(os.WriteFile(ts.MkAbs("answer"), append(append(head.Bytes(), '\n'), raw...), 0o600))
}

// nowhere TEXT PATH... fails when a file below one of the paths has the text.
func nowhere(ts *testscript.TestScript, _ bool, args []string) {
	files := 0
	for _, root := range args[1:] {
		ts.Check(filepath.WalkDir(ts.MkAbs(root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			if files++; bytes.Contains(raw, []byte(args[0])) {
				ts.Fatalf("%s has it", path)
			}
			return err
		}))
	}
	if files == 0 {
		ts.Fatalf("there was no file to look into")
	}
}
