package github_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/github"
)

var update = flag.Bool("update", false, "write the golden files")

// token is the credential of the tests; nothing but a header may hold it.
const token = "ghp_canary0123456789abcdefghijklmnopqrst"

// reply is what the server answers to one request.
type reply struct {
	status int // zero: 200
	header map[string]string
	body   string
}

// server answers as GitHub does, by method and path, and writes down what it
// was asked. Replies to the same request come in turn, the last again and again.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	replies map[string][]reply
	asked   []string
}

func newServer(t *testing.T, replies map[string][]reply) *server {
	s := &server{replies: replies}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = []byte(err.Error())
	}
	answer := s.record(r, body)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	for name, value := range answer.header {
		w.Header().Set(name, strings.ReplaceAll(value, "BASE", s.URL))
	}
	if answer.status != 0 {
		w.WriteHeader(answer.status)
	}
	io.WriteString(w, answer.body) //nolint:errcheck // the client says so
}

func (s *server) record(r *http.Request, body []byte) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", r.Method, r.URL.RequestURI())
	for _, name := range []string{"Accept", "Authorization", "Content-Type", "X-Github-Api-Version"} {
		if value := r.Header.Values(name); value != nil {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.ReplaceAll(strings.Join(value, ", "), token, "TOKEN"))
		}
	}
	if len(body) > 0 {
		fmt.Fprintf(&b, "\n%s\n", indent(body))
	}
	s.asked = append(s.asked, b.String())
	for _, key := range []string{r.Method + " " + r.URL.RequestURI(), r.Method + " " + r.URL.Path} {
		if list := s.replies[key]; len(list) > 0 {
			if len(list) > 1 {
				s.replies[key] = list[1:]
			}
			return list[0]
		}
	}
	return reply{status: 404, body: `{"message":"Not Found","documentation_url":"https://docs.github.com/rest","status":"404"}`}
}

// requests returns what the server was asked, one after the other.
func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *server) conn(t *testing.T, change ...func(*sources.Conn)) *sources.Conn {
	t.Helper()
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{})
	t.Cleanup(pool.Close)
	c := &sources.Conn{Kind: action.KindAPIKey, Token: token, HTTP: pool.Client(t.Name(), base, token)}
	for _, f := range change {
		f(c)
	}
	return c
}

func settings(raw string) func(*sources.Conn) {
	return func(c *sources.Conn) { c.Settings = json.RawMessage(raw) }
}

func app(c *sources.Conn) { c.Kind = action.KindApp }

func find(t *testing.T, name string) sources.ModuleAction {
	t.Helper()
	for _, a := range github.Module().Actions {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("there is no action %s", name)
	return sources.ModuleAction{}
}

// run runs an action with params that its schema was found to let through.
func run(t *testing.T, c *sources.Conn, name, params string) (json.RawMessage, error) {
	t.Helper()
	a := find(t, name)
	if err := fits(t, a.Input, params); err != nil {
		t.Fatalf("%s: the params of the test do not fit: %v", name, err)
	}
	result, err := a.Run(t.Context(), c, json.RawMessage(params))
	if err != nil && strings.Contains(err.Error(), token) {
		t.Errorf("%s: the credential is in the error: %v", name, err)
	}
	if strings.Contains(string(result), token) {
		t.Errorf("%s: the credential is in the result", name)
	}
	return result, err
}

func indent(raw []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}

// golden compares text with a file, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
