package gitserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/gitpush"
)

// openGate allows everything.
type openGate struct{}

func (openGate) Explain(context.Context, *action.Session, string, string, json.RawMessage) (action.Explained, error) {
	return action.Explained{Available: action.Available{Decision: action.Decision{Mode: action.ModeAllow}}}, nil
}

func (openGate) Call(context.Context, *action.Call) (*action.Outcome, error) {
	return nil, errors.New("no call is expected")
}

// newServer returns a server in front of a forge; nil: there is none.
func newServer(t *testing.T, forge http.HandlerFunc) (*Server, error) {
	t.Helper()
	if forge == nil {
		forge = http.NotFound
	}
	f := httptest.NewServer(forge)
	t.Cleanup(f.Close)
	to, err := url.Parse(f.URL + "/octocat/hello")
	if err != nil {
		t.Fatal(err)
	}
	session := &action.Session{ID: "s1"}
	s, err := New(Config{
		Authenticate: func(context.Context, string) (*action.Session, error) { return session, nil },
		Session:      func(context.Context, string) (*action.Session, error) { return session, nil },
		Remote: func(context.Context, *action.Session, string, string) (*Remote, error) {
			return &Remote{URL: to, Client: f.Client(), Credential: func(context.Context, Access) (string, string, error) { return "u", "p", nil }}, nil
		},
		Rules: func(context.Context, *action.Session, *Remote, *gitpush.Params) (Rules, error) {
			return Rules{}, nil
		},
		Suspicious: func(string) bool { return false },
		Person:     func(context.Context, string, string) string { return "ann" },
		Folder:     filepath.Join(t.TempDir(), "pushes"),
	})
	if err == nil {
		s.Use(openGate{})
	}
	return s, err
}

// TestFindProgram looks for git where there is none, an old one and a broken one.
func TestFindProgram(t *testing.T) {
	if _, version, err := FindProgram(t.Context()); err != nil || !strings.HasPrefix(version, "2.") {
		t.Errorf("found version %q, %v", version, err)
	}
	for says, script := range map[string]string{
		"there is no git program": "", "has version 2.31.8,": "echo git version 2.31.8", "has version 1.40,": "echo git version 1.40", "does not run": "exit 1", "does not report its version": "echo hello",
	} {
		dir := t.TempDir()
		if script != "" {
			if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		path, _, err := FindProgram(t.Context())
		if path != "" || err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "restart the gateway") {
			t.Errorf("%q: found %q, %v", says, path, err)
		}
		s, err := newServer(t, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*http.Request{
			httptest.NewRequest(http.MethodGet, "/git/example.com/octocat/hello.git/info/refs?service=git-receive-pack", nil),
			httptest.NewRequest(http.MethodPost, "/git/example.com/octocat/hello.git/git-receive-pack", strings.NewReader("0000")),
		} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "no usable git program") {
				t.Errorf("%s %s: %d %s", r.Method, r.URL.Path, w.Code, w.Body)
			}
		}
	}
}

// TestIdleClients connects clients that stop in the middle: of a push, of a fetch, and
// of reading an answer.
func TestIdleClients(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter, r *http.Request) {
		line := packet(idA + " refs/heads/" + strings.Repeat("x", 200) + "\n")
		for r.Context().Err() == nil {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}
	s, err := newServer(t, endless)
	if err != nil {
		t.Fatal(err)
	}
	s.Idle = 100 * time.Millisecond
	over := make(chan struct{}, 1)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { over <- struct{}{} }()
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { gateway.CloseClientConnections(); gateway.Close() })
	const post = "POST /git/example.com/octocat/hello.git/git-%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n%s"
	command := string(packet(idA + " " + idB + " refs/heads/main\x00report-status"))
	for name, request := range map[string]string{
		"commands of a push": strings.Replace(strings.Replace(post, "%s", "receive-pack", 1), "%s", command, 1),
		"a pack":             strings.Replace(strings.Replace(post, "%s", "receive-pack", 1), "%s", command+flushLine+"PACK", 1),
		"a fetch":            strings.Replace(strings.Replace(post, "%s", "upload-pack", 1), "%s", string(packet("want "+idA)), 1),
		"an answer":          "GET /git/example.com/octocat/hello.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		var dialer net.Dialer
		client, err := dialer.DialContext(t.Context(), "tcp", gateway.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(client, request); err != nil {
			t.Fatal(err)
		}
		select {
		case <-over:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the request of a silent client goes on", name)
		}
		_ = client.Close()
	}
	if left, _ := filepath.Glob(filepath.Join(s.Folder, "*")); len(left) != 0 {
		t.Errorf("quarantines stay: %v", left)
	}
}
