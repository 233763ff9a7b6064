package sentry_test

import (
	"encoding/json"
	"errors"
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

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/sentry"
)

var update = flag.Bool("update", false, "write the golden files anew")

const token = "canary-0123456789"

// answer is what a server says to one request.
type answer struct {
	status int // zero: 200
	header http.Header
	body   string
}

// server answers by method and path, and records what it was asked.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // as HTTP/1.1 text, without what differs by chance
}

func serve(t *testing.T, answers map[string]answer) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := fmt.Sprintf("%s %s HTTP/1.1\n", r.Method, r.RequestURI)
		for _, name := range []string{"Accept", "Authorization", "Content-Type"} {
			if v := r.Header.Get(name); v != "" {
				text += name + ": " + v + "\n"
			}
		}
		if len(body) > 0 {
			text += fmt.Sprintf("Content-Length: %d\n", len(body))
		}
		s.mu.Lock()
		s.asked = append(s.asked, text+"\n"+string(body))
		s.mu.Unlock()
		a, ok := answers[r.Method+" "+r.URL.EscapedPath()]
		if !ok {
			a = answer{status: 404, body: `{"detail":"The requested resource does not exist"}`}
		}
		w.Header().Set("Content-Type", "application/json")
		for k, v := range a.header {
			w.Header()[k] = v
		}
		if a.status == 0 {
			a.status = 200
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(s.Close)
	return s
}

// conn is a connection to the server, below the path of its base URL.
func (s *server) conn(t *testing.T, path, settings string) *sources.Conn {
	t.Helper()
	base, err := url.Parse(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{})
	t.Cleanup(pool.Close)
	c := &sources.Conn{Kind: action.KindAPIKey, Token: token, HTTP: pool.Client("integration", base, token)}
	if settings != "" {
		c.Settings = json.RawMessage(settings)
	}
	return c
}

const acme = `{"organization":"acme"}`

// run runs an action of the module, whose params fit its schema.
func run(t *testing.T, c *sources.Conn, name, params string) (json.RawMessage, error) {
	t.Helper()
	for _, a := range sentry.Module().Actions {
		if a.Name == name {
			if err := check(a.Input, params); err != nil {
				t.Fatalf("the params of %s do not fit: %v", name, err)
			}
			return a.Run(t.Context(), c, json.RawMessage(params))
		}
	}
	t.Fatalf("no action %s", name)
	return nil, nil
}

// refused runs an action that the service, or the module, refuses.
func refused(t *testing.T, c *sources.Conn, name, params string) *sources.Refusal {
	t.Helper()
	out, err := run(t, c, name, params)
	var no *sources.Refusal
	if !errors.As(err, &no) {
		t.Fatalf("%s %s: got %s, %v; want a refusal", name, params, out, err)
	}
	if strings.Contains(fmt.Sprintf("%+v %s", *no, no), token) {
		t.Errorf("the refusal holds the credential: %v", no)
	}
	return no
}

// saved reads a file of testdata.
func saved(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := saved(t, name); got != want {
		t.Errorf("%s differs; see whether it should and run the test with -update.\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

// pretty indents JSON, numbers untouched.
func pretty(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var b strings.Builder
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(v)
	return b.String()
}
