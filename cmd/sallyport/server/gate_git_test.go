package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sallyport/action"
	"sallyport/api"
)

// gitForge is a Git server with repositories in a folder and one account's token.
type gitForge struct {
	*httptest.Server
	t     *testing.T
	root  string
	mu    sync.Mutex
	pulls []string                                // requests, as method and path
	push  func(w http.ResponseWriter) (over bool) // before a push is executed; nil: nothing
	fail  bool                                    // the answers to pushes are lost
}

const forgeToken = "ghp_c4n4ryF0rgeT0ken0123456789abcdefghij"

func newGitForge(t *testing.T) *gitForge {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("the tests need git: %v", err)
	}
	f := &gitForge{t: t, root: t.TempDir()}
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		if r.URL.Path == "/user" { // GitHub's API
			password = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		if password != forgeToken {
			w.Header().Set("Www-Authenticate", "Basic")
			http.Error(w, "bad credentials "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/user" {
			reply(w, 200, `{"id":583231,"login":"octocat"}`)
			return
		}
		f.serve(w, r, backend)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *gitForge) serve(w http.ResponseWriter, r *http.Request, backend string) {
	body, err := io.ReadAll(r.Body) // CGI needs its length
	if err != nil {
		return
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	f.mu.Lock()
	f.pulls = append(f.pulls, r.Method+" "+r.URL.Path+" "+r.URL.RawQuery)
	push, fail := f.push, f.fail
	f.mu.Unlock()
	pushing := strings.HasSuffix(r.URL.Path, "/git-receive-pack") && len(body) > 4
	if pushing && push != nil && push(w) {
		return
	}
	h := &cgi.Handler{Path: backend, Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=gateway", "GIT_PROTOCOL=" + r.Header.Get("Git-Protocol"), "GIT_CONFIG_NOSYSTEM=1", "HOME=" + f.root,
	}}
	if !pushing || !fail {
		h.ServeHTTP(w, r)
		return
	}
	h.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// requests counts the requests that end so.
func (f *gitForge) requests(suffix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range f.pulls {
		if strings.HasSuffix(strings.TrimSuffix(path, " "), suffix) {
			n++
		}
	}
	return n
}

func (f *gitForge) host() string { return strings.TrimPrefix(f.URL, "http://") }

// create makes a repository with a commit on main.
func (f *gitForge) create(name string) *checkout {
	f.t.Helper()
	bare := filepath.Join(f.root, name+".git")
	c := &checkout{t: f.t, dir: f.t.TempDir()}
	c.must("init", "-q", "--bare", "-b", "main", bare)
	for _, setting := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant", "http.receivepack"} {
		c.must("-C", bare, "config", setting, "true")
	}
	c.must("clone", "-q", bare, c.dir)
	c.commit("README.md", "hello\n", "Start")
	c.must("push", "-q", "origin", "HEAD:main")
	return c
}

// tip is the commit of a branch at the forge; empty: there is none.
func (f *gitForge) tip(name, branch string) string {
	f.t.Helper()
	out, _ := exec.CommandContext(f.t.Context(), "git", "-C", filepath.Join(f.root, name+".git"), "rev-parse", "-q", "--verify", "refs/heads/"+branch).Output()
	return strings.TrimSpace(string(out))
}

// checkout is a working copy.
type checkout struct {
	t     *testing.T
	dir   string
	flags []string // of every command
}

func (c *checkout) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), "git", append(slices.Clone(c.flags), args...)...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	return cmd
}

func (c *checkout) run(args ...string) (string, error) {
	out, err := c.command(args...).CombinedOutput()
	return string(out), err
}

func (c *checkout) must(args ...string) string {
	c.t.Helper()
	out, err := c.run(args...)
	if err != nil {
		c.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// fails runs a command that must fail with the texts.
func (c *checkout) fails(args []string, texts ...string) {
	c.t.Helper()
	out, err := c.run(args...)
	if err == nil {
		c.t.Errorf("git %s succeeded:\n%s", strings.Join(args, " "), out)
	}
	c.shows(out, texts...)
}

func (c *checkout) shows(out string, texts ...string) {
	c.t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			c.t.Errorf("git printed\n%s\nwant %q in it", out, text)
		}
	}
}

func (c *checkout) commit(file, text, message string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.must("add", "-A")
	c.must("commit", "-q", "-m", message)
	return c.must("rev-parse", "HEAD")
}

// gitAgent is a working copy whose remotes lead through the gateway.
func (p *premises) gitAgent(f *gitForge, s testSession) *checkout {
	p.t.Helper()
	return &checkout{t: p.t, dir: p.t.TempDir(), flags: []string{
		"-c", "url." + p.URL + "/git/" + f.host() + "/.insteadOf=" + f.URL + "/", "-c", "http." + p.URL + "/.extraHeader=Authorization: Bearer " + s.Token,
	}}
}

func (p *premises) newSession(body map[string]any) (s testSession) {
	p.t.Helper()
	p.must("POST", "/sessions", body, &s)
	return s
}

// withForge serves a gateway with a forge behind an integration.
func withForge(t *testing.T, change ...func(*Options)) (*premises, *gitForge) {
	t.Helper()
	p, f := serveHouse(t, change...), newGitForge(t)
	p.must("POST", "/integrations", map[string]any{"provider": "github", "kind": "api_key", "secret": forgeToken, "base_url": f.URL}, nil)
	return p, f
}

// gitCalls are the calls of an action, the newest first.
func (p *premises) gitCalls(act string) []action.Invocation {
	p.t.Helper()
	var page api.List[action.Invocation]
	p.must("GET", "/invocations?limit=100", nil, &page)
	return slices.DeleteFunc(page.Items, func(inv action.Invocation) bool { return inv.Source != "git" || inv.Action != act })
}

func TestGitFetch(t *testing.T) {
	t.Parallel()
	p, f := withForge(t)
	origin := f.create("octocat/hello")
	origin.must("tag", "v1")
	for i := range 30 {
		origin.commit("notes.txt", fmt.Sprint(i), "Note")
	}
	origin.must("push", "-q", "origin", "HEAD:main", "v1")
	agent := p.gitAgent(f, p.newSession(map[string]any{"connections": []string{"github"}}))
	remote := f.URL + "/octocat/hello.git"
	for name, args := range map[string][]string{
		"whole": nil, "shallow": {"--depth=1"}, "partial": {"--filter=blob:none"}, "protocol-0": {"-c", "protocol.version=0"}, "protocol-1": {"-c", "protocol.version=1"},
	} {
		agent.must(append([]string{"clone", "-q", remote, name}, args...)...)
		if got, want := agent.must("-C", name, "rev-parse", "HEAD"), f.tip("octocat/hello", "main"); got != want {
			t.Errorf("the clone %s is at %s, not %s", name, got, want)
		}
	}
	origin.commit("more.txt", "more", "More")
	origin.must("push", "-q", "origin", "HEAD:main")
	agent.must("-C", "whole", "pull", "-q")
	if got, want := agent.must("-C", "whole", "rev-parse", "HEAD"), f.tip("octocat/hello", "main"); got != want {
		t.Errorf("the clone is at %s, not %s", got, want)
	}
	named := 0
	for _, inv := range p.gitCalls("fetch") {
		if inv.Status != action.StatusCompleted || inv.Mode != action.ModeAllow || !strings.Contains(string(inv.Params), f.host()+"/octocat/hello") || !strings.Contains(string(inv.Result), `bytes`) {
			t.Errorf("a fetch ended as %s: %s %s", inv.Status, inv.Params, inv.Result)
		}
		if strings.Contains(inv.Summary, "refs/heads/main") {
			named++
		}
	}
	if named < 5 {
		t.Errorf("%d fetches name the branch: %v", named, p.gitCalls("fetch"))
	}

	agent.fails([]string{"clone", f.URL + "/octocat/other.git"}, "has no repository octocat/other")
	agent.fails([]string{"ls-remote", f.URL + "/octocat/.hello.git"}, "not the URL of a repository")
	agent.fails([]string{"clone", p.URL + "/git/example.invalid/octocat/hello.git", "none"}, "no credential for example.invalid")
	p.mode("git:fetch", action.ModeDeny)
	agent.fails([]string{"clone", remote, "denied"}, "may not fetch", "403")
	p.mode("git:fetch", action.ModeRequireApproval)
	agent.fails([]string{"clone", remote, "held"}, "Fetching needs approval")
	p.must("DELETE", "/policy/modes/git:fetch", nil, nil)

	stranger := p.gitAgent(f, p.newSession(map[string]any{}))
	stranger.fails([]string{"clone", remote}, "no credential")
	stranger.flags = stranger.flags[:2]
	stranger.fails([]string{"clone", remote}, "terminal prompts disabled")
	stranger.fails([]string{"clone", strings.Replace(p.URL, "http://", "http://x:sps_wrong@", 1) + "/git/" + f.host() + "/octocat/hello.git"}, "session token is incomplete")
	p.nowhere(forgeToken)
}

// nowhere fails if the secret is in an answer, a log or a row of the gateway.
func (p *premises) nowhere(secret string) {
	p.t.Helper()
	if strings.Contains(p.said.String(), secret) || strings.Contains(p.log.String(), secret) {
		p.t.Error("the credential of the forge is in an answer or a log")
	}
	files, _ := filepath.Glob(filepath.Join(p.Options.Data, "*"))
	for _, name := range files {
		if raw, err := os.ReadFile(name); err == nil && bytes.Contains(raw, []byte(secret)) {
			p.t.Errorf("the credential of the forge is in %s", name)
		}
	}
}

// TestGitSecret fetches with a secret for the host, and with the token as the
// password of a client.
func TestGitSecret(t *testing.T) {
	t.Parallel()
	p, f := serveHouse(t), newGitForge(t)
	f.create("group/sub/hello")
	session := p.newSession(map[string]any{"group": "developers"})
	agent := p.gitAgent(f, session)
	p.must("PUT", "/secrets/forge", map[string]any{"value": forgeToken, "host": f.host()}, nil)
	agent.fails([]string{"clone", f.URL + "/group/sub/hello.git"}, "developers' has no capability at Git")
	p.must("PUT", "/capabilities/developers/git", map[string]any{"level": 1}, nil)
	agent.fails([]string{"clone", f.URL + "/group/sub/hello.git"}, "no credential")
	p.must("PUT", "/secrets/git-forge", map[string]any{"value": "robot:" + forgeToken, "host": f.host()}, nil)
	agent.flags = nil
	agent.must("clone", "-q", strings.Replace(p.URL, "http://", "http://agent:"+session.Token+"@", 1)+"/git/"+f.host()+"/group/sub/hello.git")
	p.nowhere(forgeToken)
}
