package conformance_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// forge is a Git server that counts pushes.
type forge struct {
	*httptest.Server
	t      *testing.T
	repo   string
	pushes atomic.Int64
	begun  chan struct{} // has a push that is not answered until it is released
	hold   chan struct{}
	before bool // the push is held before it is executed, not after
}

func startForge(t *testing.T) *forge {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("the tests need git: %v", err)
	}
	root := t.TempDir()
	f := &forge{t: t, repo: filepath.Join(root, "acme", "site.git"), begun: make(chan struct{}, 8)}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=gateway", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + root,
	}, InheritEnv: []string{"PATH"}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // CGI needs its length
		if err != nil {
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		if !strings.HasSuffix(r.URL.Path, "/git-receive-pack") || len(body) <= 4 {
			backend.ServeHTTP(w, r)
			return
		}
		f.pushes.Add(1)
		wait := func() {
			if f.hold != nil {
				f.begun <- struct{}{}
				<-f.hold
			}
		}
		if f.before {
			wait()
		}
		answer := httptest.NewRecorder()
		backend.ServeHTTP(answer, r)
		if !f.before {
			wait()
		}
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(f.Close)
	f.git("init", "-q", "--bare", "-b", "main", f.repo)
	f.git("-C", f.repo, "config", "http.receivepack", "true")
	return f
}

func (f *forge) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(f.t.Context(), "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	return cmd
}

func (f *forge) git(args ...string) string {
	f.t.Helper()
	out, err := f.command(args...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *forge) tip() string { f.t.Helper(); return f.git("-C", f.repo, "rev-parse", "main") }

// clone is a working copy at the gateway.
type clone struct {
	*forge
	flags []string
	head  string
}

// cloneWithCommit clones an empty repository, or one that has commits, and commits.
func (f *forge) cloneWithCommit(g *gateway) *clone {
	f.t.Helper()
	c := &clone{forge: f, flags: []string{"-C", f.t.TempDir(), "-c", "http.extraHeader=Authorization: Bearer " + g.mint(map[string]any{}).Token}}
	f.git(append(c.flags, "clone", "-q", g.URL+"/git/"+strings.TrimPrefix(f.URL, "http://")+"/acme/site.git", ".")...)
	f.git(append(c.flags, "commit", "-q", "--allow-empty", "-m", "Change")...)
	c.head = f.git(append(c.flags, "rev-parse", "HEAD")...)
	return c
}

// push starts a push of main.
func (c *clone) push() *gitPush {
	c.t.Helper()
	p := &gitPush{Cmd: c.command(append(c.flags, "push", "--progress", "origin", "HEAD:main")...), done: make(chan error, 1)}
	p.Stdout, p.Stderr = &p.printed, &p.printed
	if err := p.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { p.done <- p.Wait() }()
	return p
}

type gitPush struct {
	*exec.Cmd
	printed screen
	done    chan error
}

// screen is what a program prints.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// gitStage is a gateway in front of a forge.
func gitStage(t *testing.T) (*gateway, *forge) {
	t.Helper()
	g, f := startGateway(t), startForge(t)
	g.must("PUT", "/api/v1/secrets/git-forge", map[string]any{"value": "canary-forge-token", "host": strings.TrimPrefix(f.URL, "http://")}, nil)
	return g, f
}

// The gateway is killed while it holds a push. The client is told that the push did
// not succeed; the same push after the restart joins the call or asks anew, and
// the forge gets it once.
func TestGitHolderKilled(t *testing.T) {
	t.Parallel()
	g, f := gitStage(t)
	c := f.cloneWithCommit(g)
	lost := c.push()
	g.await("a held push", func() bool { return strings.Contains(lost.printed.String(), "Waiting for approval") })
	g.addr = strings.TrimPrefix(g.URL, "http://")
	g.kill()
	if err := <-lost.done; err == nil {
		t.Errorf("a push that was lost succeeded:\n%s", &lost.printed)
	}
	g.start()
	back := c.push()
	g.await("the push to be held", func() bool { return strings.Contains(back.printed.String(), "Waiting for approval") })
	g.approve(g.held().ID)
	if err := <-back.done; err != nil {
		t.Errorf("%v:\n%s", err, &back.printed)
	}
	if f.pushes.Load() != 1 || f.tip() != c.head {
		t.Errorf("main is at %s after %d pushes, not at %s", f.tip(), f.pushes.Load(), c.head)
	}
}

// The gateway is killed while the forge executes a push. Nothing is pushed again
// after the restart, and the refs show what happened.
func TestGitExecutorKilled(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before the forge executed it": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, f := gitStage(t)
			g.mode("git:push", "allow")
			f.hold, f.before = make(chan struct{}), before
			release := sync.OnceFunc(func() { close(f.hold) })
			defer release()
			c := f.cloneWithCommit(g)
			lost := c.push()
			select {
			case <-f.begun:
			case err := <-lost.done:
				t.Fatalf("the push ended with %v:\n%s", err, &lost.printed)
			}
			g.addr = strings.TrimPrefix(g.URL, "http://")
			g.kill()
			if err := <-lost.done; err == nil {
				t.Errorf("a push that was lost succeeded:\n%s", &lost.printed)
			}
			g.start()
			if row := g.only("action=push"); row.Status != "executing" {
				t.Errorf("the call is %s", row.Status)
			}
			release()
			g.await("the forge to execute the push", func() bool {
				out, err := f.command("-C", f.repo, "rev-parse", "-q", "--verify", "main").Output()
				return err == nil && strings.TrimSpace(string(out)) == c.head
			})
			out, err := f.command(append(c.flags, "push", "origin", "HEAD:main")...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "Everything up-to-date") {
				t.Errorf("the push again: %v\n%s", err, out)
			}
			if f.pushes.Load() != 1 {
				t.Errorf("the forge got %d pushes", f.pushes.Load())
			}
		})
	}
}
