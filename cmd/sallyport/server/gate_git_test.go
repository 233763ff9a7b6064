package server

import (
	"bytes"
	"encoding/json"
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
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
	"sallyport/internal/gitpush"
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
		api := r.URL.Path == "/user" || r.URL.Path == "/user/repos" || strings.HasPrefix(r.URL.Path, "/repos/") // GitHub's
		if api {
			password = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		if password != forgeToken && !strings.HasPrefix(r.URL.Path, "/public/") {
			w.Header().Set("Www-Authenticate", "Basic")
			http.Error(w, "bad credentials "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/user" {
			reply(w, 200, `{"id":583231,"login":"octocat"}`)
			return
		}
		if r.URL.Path == "/user/repos" {
			reply(w, 200, `[{"full_name":"octocat/hello","private":true,"default_branch":"main"},{"full_name":"octocat/gone","private":false,"default_branch":"trunk"}]`)
			return
		}
		if branch, ok := strings.CutPrefix(r.URL.Path, "/repos/octocat/hello/branches/"); ok {
			reply(w, 200, fmt.Sprintf(`{"name":%q,"protected":%t}`, branch, branch == "protected"))
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

// pushing is a git push that runs.
type pushing struct {
	*exec.Cmd
	out  *tape
	done chan error
}

// startPush starts a push.
func (c *checkout) startPush(args ...string) *pushing {
	c.t.Helper()
	p := &pushing{Cmd: c.command(append([]string{"push", "--progress"}, args...)...), out: &tape{}, done: make(chan error, 1)}
	p.Stdout, p.Stderr = p.out, p.out
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with the programs that it starts
	if err := p.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { p.done <- p.Wait() }()
	return p
}

// ends waits for the end of a push, which succeeds or not and prints the texts.
func (c *checkout) ends(p *pushing, succeeds bool, texts ...string) {
	c.t.Helper()
	select {
	case err := <-p.done:
		if (err == nil) != succeeds {
			c.t.Errorf("the push ended with %v:\n%s", err, p.out)
		}
	case <-time.After(waitAtMost):
		c.t.Fatalf("the push never ended:\n%s", p.out)
	}
	c.shows(p.out.String(), texts...)
}

// withClone is withForge with a repository and an agent that cloned it.
func withClone(t *testing.T, change ...func(*Options)) (p *premises, f *gitForge, origin, agent *checkout) {
	t.Helper()
	p, f = withForge(t, change...)
	origin = f.create("octocat/hello")
	agent = p.cloneOf(f, p.newSession(map[string]any{"connections": []string{"github"}}))
	return p, f, origin, agent
}

// cloneOf is a clone through the gateway.
func (p *premises) cloneOf(f *gitForge, s testSession) *checkout {
	p.t.Helper()
	agent := p.gitAgent(f, s)
	agent.must("clone", "-q", f.URL+"/octocat/hello.git", "hello")
	agent.dir = filepath.Join(agent.dir, "hello")
	return agent
}

func pushOf(t *testing.T, inv *action.Invocation) gitpush.Params {
	t.Helper()
	p, ok := gitpush.Parse(inv.Source, inv.Action, inv.Params)
	if !ok {
		t.Fatalf("no params of a push: %s", inv.Params)
	}
	return p
}

const receivePack = "POST /octocat/hello.git/git-receive-pack"

// TestGitPushHeld holds a push, shows what it contains, and pushes it once when a
// person approves it.
func TestGitPushHeld(t *testing.T) {
	t.Parallel()
	p, f, origin, agent := withClone(t)
	old := f.tip("octocat/hello", "main")
	if err := os.WriteFile(filepath.Join(agent.dir, "logo.png"), []byte("\x89PNG\x00\x01"), 0o600); err != nil {
		t.Fatal(err)
	}
	agent.commit(".github/workflows/ci.yml", "on: push\n", "Run tests")
	agent.commit("config.js", "const a = 1\nconst key = \"ghp_0123456789abcdefghijABCDEFGHIJ012345\"\n", "Add a \x1b[31mkey")
	head := agent.commit("README.md", "hello\nworld\n", "Say more")
	push := agent.startPush("origin", "HEAD:main")
	held := p.held()
	if held.Action != "push" || held.Risk != action.RiskWrite || held.Integration == "" || !strings.Contains(held.Summary, "main") || !strings.Contains(held.Summary, "3 commits, 4 files") {
		t.Errorf("held as %+v", held)
	}
	got := pushOf(t, &held)
	want := []gitpush.Ref{{Name: "refs/heads/main", Old: old, New: head, Kind: gitpush.Update}}
	if d := cmp.Diff(want, got.Refs); d != "" {
		t.Errorf("refs (-want +got):\n%s", d)
	}
	files := []gitpush.File{
		{Path: ".github/workflows/ci.yml", Status: "added", Added: 1, Runs: "runs in CI"},
		{Path: "README.md", Status: "changed", Added: 1},
		{Path: "config.js", Status: "added", Added: 2},
		{Path: "logo.png", Status: "added", Binary: true, Size: 6},
	}
	if d := cmp.Diff(files, got.Files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"config.js:2"}, got.Findings); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
	if len(got.Commits) != 3 || got.Commits[0].Subject != "Say more" || got.Commits[0].Author != "Ann <ann@example.com>" || strings.Contains(got.Commits[1].Subject, "\x1b") ||
		!strings.Contains(got.Diff, "+world") || strings.Contains(got.Diff, "ghp_0123456789") || got.NoDiff != "" || got.Branch != "main" {
		t.Errorf("the push contains %+v", got)
	}
	p.eventually("progress", func() bool {
		return strings.Contains(push.out.String(), "remote: Waiting for approval: "+p.URL+"/invocations/"+held.ID)
	})
	if f.requests(receivePack) != 0 {
		t.Error("something was pushed before the approval")
	}
	p.approve(held.ID)
	agent.ends(push, true, "left)", "main")
	if tip := f.tip("octocat/hello", "main"); tip != head || f.requests(receivePack) != 1 {
		t.Errorf("main is at %s after %d pushes, not at %s", tip, f.requests(receivePack), head)
	}
	if inv := p.gitCalls("push")[0]; inv.Status != action.StatusCompleted {
		t.Errorf("the call ended as %s: %+v", inv.Status, inv.Error)
	}
	// A branch at a commit that the forge has, then its deletion, which is destructive.
	push = agent.startPush("origin", "HEAD:refs/heads/copy")
	held = p.held()
	if got := pushOf(t, &held); got.Refs[0].Kind != gitpush.Create || len(got.Files) != 0 || got.NoDiff != "" {
		t.Errorf("a branch at a known commit: %+v", got)
	}
	p.approve(held.ID)
	agent.ends(push, true, "copy")
	agent.fails([]string{"push", "origin", ":copy"}, "remote rejected", "it deletes refs/heads/copy", "denied by default")
	p.mode("git:push", action.ModeAllow)
	push = agent.startPush("origin", ":copy")
	held = p.held()
	if held.Risk != action.RiskDanger {
		t.Errorf("a deletion is a %s", held.Risk)
	}
	p.approve(held.ID)
	agent.ends(push, true, "deleted")
	// With the mode allow nobody is asked, and the forge's own refusal reaches the client.
	agent.commit("more.txt", "more\n", "More")
	agent.must("push", "-q", "origin", "HEAD:main", "HEAD:refs/tags/v1")
	origin.must("-C", filepath.Join(f.root, "octocat/hello.git"), "config", "receive.denyCurrentBranch", "ignore")
	hook := filepath.Join(f.root, "octocat/hello.git/hooks/update")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho the hook says no >&2\nexit 1\n"), 0o700); err != nil { //nolint:gosec // a hook must be executable
		t.Fatal(err)
	}
	agent.commit("more.txt", "more and more\n", "More")
	agent.fails([]string{"push", "origin", "HEAD:main"}, "remote: the hook says no", "remote rejected", "hook declined")
	p.nowhere(forgeToken)
	p.nowhere("ghp_0123456789abcdefghijABCDEFGHIJ012345")
	if left, _ := filepath.Glob(filepath.Join(p.Options.Data, "pushes", "*")); len(left) > 0 {
		t.Errorf("quarantines stay: %v", left)
	}
}

// TestGitPushRefused covers the ways in which a held push does not happen.
func TestGitPushRefused(t *testing.T) {
	t.Parallel()
	p, f, origin, agent := withClone(t)
	old := f.tip("octocat/hello", "main")
	agent.commit("a.txt", "a\n", "A")

	push := agent.startPush("origin", "HEAD:main")
	p.must("POST", "/invocations/"+p.held().ID+"/deny", map[string]any{"reason": "wrong branch"}, nil)
	agent.ends(push, false, "[remote rejected]", "(denied by ", ": wrong branch)")
	agent.fails([]string{"push", "origin", "HEAD:main"}, "(denied (repeated): wrong branch)")

	// The client leaves: the call is withdrawn.
	agent.commit("b.txt", "b\n", "B")
	push = agent.startPush("origin", "HEAD:main")
	held := p.held()
	if err := syscall.Kill(-push.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.eventually("a withdrawn call", func() bool { return p.gitCalls("push")[0].DeniedReason == action.DeniedWithdrawn })

	// Two clients with the same push share one call.
	push = agent.startPush("origin", "HEAD:main")
	held = p.held()
	other := agent.startPush("origin", "HEAD:main")
	p.eventually("the second client", func() bool { return strings.Contains(other.out.String(), held.ID) })

	// Somebody else pushes meanwhile.
	theirs := origin.commit("c.txt", "c\n", "C")
	origin.must("push", "-q", "origin", "HEAD:main")
	p.approve(held.ID)
	agent.ends(push, false, "stale_approval", "stale info: refs/heads/main is now at "+gitpush.Short(theirs))
	agent.ends(other, false, "stale_approval")
	if inv := p.gitCalls("push")[0]; inv.Error == nil || inv.Error.Code != action.FailedStale {
		t.Errorf("the call ended as %+v", inv)
	}

	// A force is destructive, and the review shows what it removes.
	p.must("PUT", "/policy/modes/git:push", map[string]any{"mode": "require_approval"}, nil)
	push = agent.startPush("--force", "origin", "HEAD:main")
	held = p.held()
	got := pushOf(t, &held)
	if held.Risk != action.RiskDanger || got.Refs[0].Kind != gitpush.Force || got.Refs[0].Old != theirs || !strings.Contains(got.Diff, "-c") {
		t.Errorf("a force is held as %s: %+v", held.Risk, got)
	}
	p.must("POST", "/invocations/"+held.ID+"/deny", map[string]any{}, nil)
	agent.ends(push, false, "denied by")
	if f.requests(receivePack) != 0 || f.tip("octocat/hello", "main") != theirs || theirs == old {
		t.Error("something was pushed")
	}
	p.eventually("no quarantine", func() bool {
		left, _ := filepath.Glob(filepath.Join(p.Options.Data, "pushes", "*"))
		return len(left) == 0
	})
}

// TestGitPushLost loses the answer of the forge: the refs say what happened.
func TestGitPushLost(t *testing.T) {
	t.Parallel()
	p, f, _, agent := withClone(t)
	p.mode("git:push", action.ModeAllow)
	head := agent.commit("a.txt", "a\n", "A")
	f.mu.Lock()
	f.fail = true
	f.mu.Unlock()
	agent.must("push", "-q", "origin", "HEAD:main")
	if f.tip("octocat/hello", "main") != head || f.requests(receivePack) != 1 {
		t.Errorf("main is at %s after %d pushes", f.tip("octocat/hello", "main"), f.requests(receivePack))
	}
	f.mu.Lock()
	f.fail, f.push = false, func(http.ResponseWriter) bool { panic(http.ErrAbortHandler) }
	f.mu.Unlock()
	agent.commit("b.txt", "b\n", "B")
	agent.fails([]string{"push", "-q", "origin", "HEAD:main"}, "outcome_unknown")
	if f.requests(receivePack) != 2 {
		t.Errorf("%d pushes were sent", f.requests(receivePack))
	}
}

// TestGitPushGrant allows pushes by a grant with a pattern, and by the guardrails of
// the integration.
func TestGitPushGrant(t *testing.T) {
	t.Parallel()
	p, f, _, agent := withClone(t)
	p.must("POST", "/grants", map[string]any{"source": "git", "action": "push", "scope": "organization", "pins": map[string]any{"/branch": "agent/*", "/repository": f.host() + "/octocat/*"}}, nil)
	agent.commit("a.txt", "a\n", "A")
	agent.must("push", "-q", "origin", "HEAD:agent/one")
	push := agent.startPush("origin", "HEAD:other")
	p.must("POST", "/invocations/"+p.held().ID+"/deny", map[string]any{}, nil)
	agent.ends(push, false, "denied by")
	agent.must("commit", "-q", "--amend", "-m", "B")
	agent.fails([]string{"push", "--force", "origin", "HEAD:agent/one"}, "it overwrites refs/heads/agent/one")

	var list api.List[api.IntegrationView]
	p.must("GET", "/integrations", nil, &list)
	p.must("PATCH", "/integrations/"+list.Items[0].ID, map[string]any{"settings": map[string]any{"push_branches": []string{"agent/*"}, "denied_push_branches": []string{"agent/x*"}, "production_pr_bases": []string{"agent/live"}}}, nil)
	p.eventually("the guardrail", func() bool {
		out, err := agent.run("push", "origin", "HEAD:other")
		return err != nil && strings.Contains(out, "only to agent/*")
	})
	agent.fails([]string{"push", "origin", "HEAD:agent/xyz"}, "may not push to \"agent/xyz\"")
	agent.fails([]string{"push", "origin", "HEAD:agent/live"}, "is a production branch")
	agent.must("push", "-q", "origin", "HEAD:agent/two")
}

// TestGitPushHostile pushes what is not what it says, or is not allowed in Git.
func TestGitPushHostile(t *testing.T) {
	t.Parallel()
	p, f, _, agent := withClone(t)
	post := func(body []byte) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", p.URL+"/git/"+f.host()+"/octocat/hello.git/git-receive-pack", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", strings.TrimPrefix(agent.flags[3][strings.Index(agent.flags[3], "Authorization"):], "Authorization: "))
		resp, err := p.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(answer)
	}
	line := func(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
	old, zero := f.tip("octocat/hello", "main"), strings.Repeat("0", 40)
	const caps = "\x00report-status side-band-64k"
	for name, c := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"a probe":         {"0000", 200, ""},
		"nothing":         {"", 200, ""},
		"no pack":         {line(old+" "+strings.Repeat("1", 40)+" refs/heads/main"+caps) + "0000", 200, "pack is not accepted"},
		"a broken pack":   {line(old+" "+strings.Repeat("1", 40)+" refs/heads/main"+caps) + "0000PACK\x00\x00\x00\x02\xff\xff\xff\xffxxxxxxxxxxxxxxxxxxxxxxxx", 200, "pack is not accepted"},
		"an odd ref":      {line(zero+" "+old+" refs/heads/../main"+caps) + "0000", 400, "does not permit"},
		"a control ref":   {line(zero+" "+old+" refs/heads/a\x1bb"+caps) + "0000", 400, "does not permit"},
		"a ref twice":     {line(zero+" "+old+" refs/heads/a"+caps) + line(zero+" "+old+" refs/heads/a") + "0000", 400, "twice"},
		"certificates":    {line("push-cert"+caps) + "0000", 400, "SHA-1"},
		"no pkt-lines":    {"GET / HTTP/1.1", 400, "malformed"},
		"an endless line": {"fff0" + strings.Repeat("x", 100), 400, "unexpected EOF"},
	} {
		status, answer := post([]byte(c.body))
		if status != c.status || !strings.Contains(answer, c.says) {
			t.Errorf("%s: %d %q, want %d %q", name, status, answer, c.status, c.says)
		}
	}
	// The command names another commit than the pack has.
	head := agent.commit("a.txt", "a\n", "A")
	pack, err := func() ([]byte, error) {
		cmd := agent.command("pack-objects", "--stdout", "--revs")
		cmd.Stdin = strings.NewReader(head + "\n^" + old + "\n")
		return cmd.Output()
	}()
	if err != nil {
		t.Fatal(err)
	}
	_, answer := post(append([]byte(line(old+" "+strings.Repeat("1", 40)+" refs/heads/main"+caps)+"0000"), pack...))
	if !strings.Contains(answer, "ng refs/heads/main") || !strings.Contains(answer, "denied by default") || f.tip("octocat/hello", "main") != old {
		t.Errorf("a lying command is answered %q, and main is at %s", answer, f.tip("octocat/hello", "main"))
	}
	// A tree with .git in it.
	blob := agent.must("hash-object", "-w", "a.txt")
	mktree := agent.command("mktree")
	mktree.Stdin = strings.NewReader("100644 blob " + blob + "\t.git\n")
	tree, err := mktree.Output()
	if err != nil {
		t.Fatal(err)
	}
	evil := agent.must("commit-tree", strings.TrimSpace(string(tree)), "-p", old, "-m", "evil")
	agent.fails([]string{"push", "origin", evil + ":refs/heads/evil"}, "pack is not accepted", "hasDotgit")
	agent.fails([]string{"push", "origin", "HEAD:protected"}, "\"protected\" is protected", "denied by default")
	if n := f.requests(receivePack); n != 0 {
		t.Errorf("%d pushes reached the forge", n)
	}
	left, _ := filepath.Glob(filepath.Join(p.Options.Data, "pushes", "*"))
	if len(left) != 0 {
		t.Errorf("quarantines stay: %v", left)
	}
	// Only what a Git client sent can be pushed.
	params, _ := json.Marshal(gitpush.Params{Repository: f.host() + "/octocat/hello", Refs: []gitpush.Ref{{Name: "refs/heads/main", Old: old, New: head, Kind: gitpush.Update}}, Content: gitpush.Content{Commits: []gitpush.Commit{}, Files: []gitpush.File{}}})
	status, said := p.as("someone", action.RoleMember).do("POST", "/sessions", map[string]any{"connections": []string{"github"}})
	var s testSession
	if err := json.Unmarshal(said, &s); err != nil || status >= 300 {
		t.Fatal(status, string(said))
	}
	a := *p
	a.key = s.Token
	status, said = a.do("POST", "/sessions/"+s.ID+"/actions/invoke", map[string]any{"source": "git", "action": "push", "params": json.RawMessage(params)})
	if !strings.Contains(string(said), "Only a Git client") {
		t.Errorf("a push without a client: %d %s", status, said)
	}
}

// TestGitPushOfRun pushes to the branches of a session's own run, which needs no
// approval unless the content does.
func TestGitPushOfRun(t *testing.T) {
	t.Parallel()
	p, f, _, agent := withClone(t)
	var trigger api.MintedTrigger
	p.must("POST", "/automations", map[string]any{"name": "triage", "instructions": "Answer it."}, nil)
	p.must("PUT", "/automations/triage/connections", map[string]any{"connections": []string{"github"}}, nil)
	p.must("POST", "/triggers", map[string]any{"automation": "triage", "provider": "github", "event_type": "issue", "config": map[string]any{"actions": []string{"opened"}}}, &trigger)
	if got := p.tells(trigger.URL, trigger.Secret, "d-1", opened(10, "Login fails")); got != 200 {
		t.Fatal(got)
	}
	p.run(event.RunQueued)
	var job work
	p.must("POST", "/runs/claim", map[string]any{}, &job)
	token, run := job.Session.Token, job.Run.ID
	agent.flags[3] = "http." + p.URL + "/.extraHeader=Authorization: Bearer " + token
	agent.commit("a.txt", "a\n", "A")
	agent.must("push", "-q", "origin", "HEAD:sallyport/"+run+"/fix")
	agent.must("commit", "-q", "--amend", "-m", "B")
	agent.must("push", "-q", "--force", "origin", "HEAD:sallyport/"+run+"/fix")
	agent.fails([]string{"push", "origin", "+HEAD:sallyport/" + run + "x/fix", ":main"}, "it deletes refs/heads/main")
	agent.commit(".github/workflows/ci.yml", "on: push\n", "CI")
	push := agent.startPush("origin", "HEAD:sallyport/"+run+"/fix")
	held := p.held()
	if f.requests(receivePack) != 2 {
		t.Errorf("%d pushes", f.requests(receivePack))
	}
	p.must("POST", "/invocations/"+held.ID+"/deny", map[string]any{}, nil)
	agent.ends(push, false, "denied by")
}

// TestGitPushRestart ends the gateway while a push is held: the same push joins the
// call at the next start, and is executed once.
func TestGitPushRestart(t *testing.T) {
	t.Parallel()
	p, f, _, agent := withClone(t)
	head := agent.commit("a.txt", "a\n", "A")
	push := agent.startPush("origin", "HEAD:main")
	held := p.held()
	p.stop()
	agent.ends(push, false, "push again to go on waiting")
	next := serveHouse(t, func(o *Options) { o.Data = p.Options.Data })
	agent.flags = next.gitAgent(f, testSession{Token: strings.Fields(agent.flags[3])[2]}).flags
	push = agent.startPush("origin", "HEAD:main")
	next.eventually("the same call", func() bool { return strings.Contains(push.out.String(), held.ID) })
	next.approve(held.ID)
	agent.ends(push, true, "main")
	if f.tip("octocat/hello", "main") != head || f.requests(receivePack) != 1 {
		t.Errorf("main is at %s after %d pushes", f.tip("octocat/hello", "main"), f.requests(receivePack))
	}
}

// TestGitPushElsewhere approves a push whose client waits at another instance.
func TestGitPushElsewhere(t *testing.T) {
	t.Parallel()
	at := postgresTables(t)
	shared := func(o *Options) {
		o.DatabaseURL, o.MasterKey, o.TokenKey = at, strings.Repeat("1a", 32), strings.Repeat("2b", 32)
	}
	p, f, _, agent := withClone(t, shared)
	other := serveHouse(t, shared)
	head := agent.commit("a.txt", "a\n", "A")
	push := agent.startPush("origin", "HEAD:main")
	held := p.held()
	other.approve(held.ID)
	agent.ends(push, true, "main")
	if f.tip("octocat/hello", "main") != head || f.requests(receivePack) != 1 {
		t.Errorf("main is at %s after %d pushes", f.tip("octocat/hello", "main"), f.requests(receivePack))
	}
}
