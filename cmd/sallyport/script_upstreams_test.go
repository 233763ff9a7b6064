package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/demo/notebook"
)

// guardedServer is a notebook that wants a credential: a key, or a token of the
// authorization server that it is itself.
type guardedServer struct {
	*httptest.Server
	tokens atomic.Int64
	closed atomic.Bool // no token is good any more
}

type guardedKey struct{}

// tokenLife is what its tokens are good for.
const tokenLife = 2 * time.Second

// guarded serves such a notebook, and sets GUARDED to its URL; guarded revokes
// gives no more tokens, and returns when the last one has ended.
func guarded(ts *testscript.TestScript, _ bool, args []string) {
	here := ts.Value(guardedKey{}).(*guardedServer)
	if len(args) > 0 {
		here.closed.Store(true)
		time.Sleep(tokenLife)
		return
	}
	notes, mux := notebook.New("Buy milk", "The gate has two doors").Handler(), http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		token, key := r.Header.Get("Authorization"), r.Header.Get("X-Notes-Key")
		if key != "key s3cr3t" && (here.closed.Load() || !strings.HasPrefix(token, "Bearer t")) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+here.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Header.Get("X-Region") == "mars" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		notes.ServeHTTP(w, r)
	})
	here.authorizes(mux)
	here.Server = httptest.NewServer(mux)
	ts.Defer(func() { here.CloseClientConnections(); here.Close() })
	ts.Setenv("GUARDED", here.URL+"/mcp")
}

// authorizes makes it its own authorization server.
func (s *guardedServer) authorizes(mux *http.ServeMux) {
	answer := func(status int, body func() map[string]any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body())
		}
	}
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", answer(200, func() map[string]any {
		return map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}}
	}))
	mux.HandleFunc("/.well-known/oauth-authorization-server", answer(200, func() map[string]any {
		return map[string]any{
			"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "registration_endpoint": s.URL + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"}, "authorization_response_iss_parameter_supported": true,
		}
	}))
	mux.HandleFunc("/register", answer(201, func() map[string]any {
		return map[string]any{"client_id": "c1", "token_endpoint_auth_method": "none"}
	}))
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"k1"}, "state": {q.Get("state")}, "iss": {s.URL}}.Encode(), http.StatusFound)
	})
	token := answer(200, func() map[string]any {
		return map[string]any{"access_token": fmt.Sprintf("t%d", s.tokens.Add(1)), "token_type": "Bearer", "expires_in": tokenLife.Seconds(), "refresh_token": "r1"}
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if s.closed.Load() {
			answer(400, func() map[string]any { return map[string]any{"error": "invalid_grant"} })(w, r)
			return
		}
		token(w, r)
	})
}

// signin DIR FILE does what a person's browser does with the URL in FILE: it
// goes there, comes back to the gateway, and the gateway's page finishes.
func signIn(ts *testscript.TestScript, _ bool, args []string) {
	e, err := command.ReadEndpoint(ts.MkAbs(args[0]))
	ts.Check(err)
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	there, err := browser.Get(strings.TrimSpace(ts.ReadFile(args[1]))) //nolint:noctx // of a test
	ts.Check(err)
	_ = there.Body.Close()
	back, err := url.Parse(there.Header.Get("Location"))
	ts.Check(err)
	if !strings.HasPrefix(back.String(), e.URL+"/oauth/callback?") {
		ts.Fatalf("led back to %s", back)
	}
	q := back.Query()
	raw, err := json.Marshal(map[string]string{"state": q.Get("state"), "code": q.Get("code"), "iss": q.Get("iss")})
	ts.Check(err)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, e.URL+"/api/v1/oauth/finish", bytes.NewReader(raw))
	ts.Check(err)
	request.Header.Set("Authorization", "Bearer "+e.APIKey)
	request.Header.Set("Content-Type", "application/json")
	done, err := browser.Do(request)
	ts.Check(err)
	defer done.Body.Close()
	if said, _ := io.ReadAll(done.Body); done.StatusCode != http.StatusOK {
		ts.Fatalf("finishing: %s %s", done.Status, said)
	}
}

// tallyServer is a service whose tools count what they were asked to do: add
// does it, fail says that it could not, slow does it and answers when it is
// let go.
type tallyServer struct {
	mu     sync.Mutex
	effect int
	let    chan struct{}
}

type tallyKey struct{}

// tally serves the tools and sets TALLY to their URL; tally counts N checks how
// often something was done, once it was; tally lets go has slow answer.
func tally(ts *testscript.TestScript, _ bool, args []string) {
	here := ts.Value(tallyKey{}).(*tallyServer)
	switch {
	case len(args) == 0:
		here.let = make(chan struct{})
		server := httptest.NewServer(here.handler())
		ts.Defer(func() { here.release(); server.CloseClientConnections(); server.Close() })
		ts.Setenv("TALLY", server.URL)
	case args[0] == "lets":
		here.release()
	default:
		want, err := strconv.Atoi(args[1])
		ts.Check(err)
		if !waitUntil(func() bool { return here.count() == want }) {
			ts.Fatalf("it was done %d times; want %d", here.count(), want)
		}
	}
}

func (s *tallyServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effect
}

func (s *tallyServer) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.let:
	default:
		close(s.let)
	}
}

func (s *tallyServer) handler() http.Handler {
	no := false
	tools := mcp.NewServer(&mcp.Implementation{Name: "tally", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"by":{"type":"integer"}},"additionalProperties":false}`)
	for name, after := range map[string]func(context.Context) *mcp.CallToolResult{
		"add": func(context.Context) *mcp.CallToolResult { return textResult("Added.") },
		"fail": func(context.Context) *mcp.CallToolResult {
			r := textResult("The tally is full.")
			r.IsError = true
			return r
		},
		"slow": func(ctx context.Context) *mcp.CallToolResult {
			select {
			case <-s.let:
			case <-ctx.Done():
			}
			return textResult("Added at last.")
		},
	} {
		tools.AddTool(&mcp.Tool{
			Name: name, Description: "Counts, by way of " + name + ".", InputSchema: schema, Annotations: &mcp.ToolAnnotations{DestructiveHint: &no},
		}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.mu.Lock()
			s.effect++
			s.mu.Unlock()
			return after(ctx), nil
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, nil)
}

// exits STATUS COMMAND… runs a command that must end with the status.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err, got := ts.Exec(args[1], args[2:]...), 0
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("it ended with status %d; want %s", got, args[0])
	}
}

// waitsFor NAME sets the variable to the id of the call that waits, once one
// does.
func waitsFor(ts *testscript.TestScript, _ bool, args []string) {
	var held api.List[action.Invocation]
	waits := func() bool {
		if ts.Exec("sallyport", "pending", "--json") != nil {
			return false
		}
		held = api.List[action.Invocation]{}
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &held))
		return len(held.Items) == 1
	}
	if !waitUntil(waits) {
		ts.Fatalf("not one call waits after %v", maxWait)
	}
	ts.Setenv(args[0], held.Items[0].ID)
}

func textResult(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
