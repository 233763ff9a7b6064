package server

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

// header is the session's header, as a line.
func (c *checkout) header() string { return c.flags[3][strings.Index(c.flags[3], "Authorization"):] }

// rawPush is the request of a push of HEAD to a branch.
func (c *checkout) rawPush(old, branch string) []byte {
	c.t.Helper()
	head := c.must("rev-parse", "HEAD")
	cmd := c.command("pack-objects", "--stdout", "--revs")
	cmd.Stdin = strings.NewReader(head + "\n^" + c.must("rev-parse", "HEAD~") + "\n")
	pack, err := cmd.Output()
	if err != nil {
		c.t.Fatal(err)
	}
	line := old + " " + head + " refs/heads/" + branch + "\x00report-status"
	return append(fmt.Appendf(nil, "%04x%s0000", len(line)+4, line), pack...)
}

// TestGitSlowClients pushes while other clients send their packs slowly: they occupy
// no process of git.
func TestGitSlowClients(t *testing.T) {
	t.Parallel()
	p, f, _, agent := withClone(t)
	p.mode("git:push", action.ModeAllow)
	agent.commit("a.txt", strings.Repeat("a", 1000), "A")
	request := agent.rawPush(strings.Repeat("0", 40), "slow")
	for range 4 {
		slow := p.cloneOf(f, p.newSession(map[string]any{"connections": []string{"github"}}))
		var dialer net.Dialer
		client, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := fmt.Fprintf(client, "POST /git/%s/octocat/hello.git/git-receive-pack HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", f.host(), slow.header(), len(request), request[:len(request)-30]); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually("slow packs", func() bool {
		stored, _ := filepath.Glob(filepath.Join(p.Options.Data, "pushes", "*", "pushed.pack"))
		return len(stored) == 4
	})
	agent.ends(agent.startPush("-q", "origin", "HEAD:main"), true)
}

// TestGitGzip sends requests that are compressed: a fetch, a push, and a small one of
// a large push.
func TestGitGzip(t *testing.T) {
	t.Parallel()
	p, f, _, agent := withClone(t)
	p.mode("git:push", action.ModeAllow)
	post := func(service, encoding string, body io.Reader) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/git/"+f.host()+"/octocat/hello.git/git-"+service, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", strings.TrimPrefix(agent.header(), "Authorization: "))
		r.Header.Set("Content-Type", "application/x-git-"+service+"-request")
		r.Header.Set("Content-Encoding", encoding)
		resp, err := p.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(answer)
	}
	zipped := func(parts ...io.Reader) *bytes.Buffer {
		t.Helper()
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := io.Copy(z, io.MultiReader(parts...)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	tip := f.tip("octocat/hello", "main")
	want := "0032want " + tip + "\n00000009done\n"
	for _, service := range []string{"upload-pack", "receive-pack"} {
		if status, answer := post(service, "gzip", strings.NewReader(want)); status != 400 || !strings.Contains(answer, "not valid gzip") {
			t.Errorf("%s that is not gzip: %d %q", service, status, answer)
		}
		if status, answer := post(service, "br", strings.NewReader(want)); status != 415 || !strings.Contains(answer, "gzip only") {
			t.Errorf("%s in another encoding: %d %q", service, status, answer)
		}
	}
	if status, answer := post("upload-pack", "gzip", zipped(strings.NewReader(want))); status != 200 || !strings.Contains(answer, "PACK") {
		t.Errorf("a fetch: %d %.100q", status, answer)
	}
	if got := p.gitCalls("fetch")[0]; !strings.Contains(string(got.Params), `"refs/heads/main"`) {
		t.Errorf("a fetch is recorded as %s", got.Params)
	}
	head := agent.commit("a.txt", "a\n", "A")
	request := agent.rawPush(tip, "main")
	large := zipped(bytes.NewReader(request), io.LimitReader(zeroReader{}, 110<<20))
	if large.Len() > 1<<20 {
		t.Fatalf("the large push has %d bytes", large.Len())
	}
	if status, answer := post("receive-pack", "gzip", large); status != 200 || !strings.Contains(answer, "at most 100 MiB") {
		t.Errorf("a push that is too large: %d %.200q", status, answer)
	}
	if status, answer := post("receive-pack", "gzip", zipped(bytes.NewReader(request))); status != 200 || !strings.Contains(answer, "ok refs/heads/main") || f.tip("octocat/hello", "main") != head {
		t.Errorf("a push: %d %q", status, answer)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestGitSubmodules clones a repository with a submodule, and calls the API of LFS,
// which is refused in words.
func TestGitSubmodules(t *testing.T) {
	t.Parallel()
	p, f, origin, agent := withClone(t)
	f.create("octocat/part")
	origin.must("-c", "protocol.file.allow=always", "submodule", "add", "-q", filepath.Join(f.root, "octocat/part.git"), "part")
	origin.must("config", "-f", ".gitmodules", "submodule.part.url", f.URL+"/octocat/part.git")
	origin.must("commit", "-q", "-a", "-m", "Add a part")
	origin.must("push", "-q", "origin", "HEAD:main")
	agent.must("clone", "-q", "--recurse-submodules", f.URL+"/octocat/hello.git", "clone")
	if _, err := os.Stat(filepath.Join(agent.dir, "clone", "part", "README.md")); err != nil {
		t.Error(err)
	}
	both := map[string]bool{}
	for _, inv := range p.gitCalls("fetch") {
		both[strings.TrimPrefix(inv.Summary[:strings.LastIndex(inv.Summary, ": ")], "Fetch "+f.host())] = true
	}
	if d := cmp.Diff(map[string]bool{"/octocat/hello": true, "/octocat/part": true}, both); d != "" {
		t.Errorf("fetched (-want +got):\n%s", d)
	}

	status, answer := func() (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/git/"+f.host()+"/octocat/hello.git/info/lfs/objects/batch", strings.NewReader(`{"operation":"download"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", strings.TrimPrefix(agent.header(), "Authorization: "))
		r.Header.Set("Accept", "application/vnd.git-lfs+json")
		resp, err := p.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(answer)
	}()
	var lfs struct{ Message string }
	if err := json.Unmarshal([]byte(answer), &lfs); err != nil || status != 501 || !strings.Contains(lfs.Message, "Git LFS is not available") {
		t.Errorf("LFS: %d %s", status, answer)
	}
}

// TestGitApp fetches and pushes with tokens of a GitHub App, which are for the one
// repository and no more than each needs.
func TestGitApp(t *testing.T) {
	t.Parallel()
	p, f := serveHouse(t), newGitForge(t)
	f.create("octocat/hello")
	hub := newService(t, func(w http.ResponseWriter, r *asked) {
		switch {
		case r.Path == "/app/installations/42":
			reply(w, 200, `{"id":42,"account":{"id":9,"login":"octocat"},"permissions":{"contents":"write"}}`)
		case r.Path == "/app/installations/42/access_tokens":
			reply(w, 201, `{"token":"`+forgeToken+`","expires_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
		case r.Path == "/installation/repositories":
			reply(w, 200, `{"total_count":1,"repositories":[]}`)
		default:
			passOn(t, w, r, f.URL)
		}
	})
	p.must("PUT", "/integrations/apps/github", map[string]any{"app_id": "7", "slug": "acme-gate", "private_key": rsaKey(t), "base_url": hub.URL}, nil)
	p.inBrowser(map[string]any{"provider": "github", "kind": "app_installation"}, map[string]any{"installation_id": "42"})
	p.mode("git:push", action.ModeAllow)
	agent := p.cloneOf(&gitForge{Server: hub.Server, t: t, root: f.root}, p.newSession(map[string]any{"connections": []string{"github"}}))
	scopes := func() (all []string) {
		for _, r := range hub.requests("/access_tokens") {
			if strings.Contains(r.Body, "contents") {
				all = append(all, r.Body)
			}
		}
		return all
	}
	if d := cmp.Diff([]string{`{"repositories":["hello"],"permissions":{"contents":"read"}}`}, scopes()); d != "" {
		t.Errorf("tokens of a clone (-want +got):\n%s", d)
	}
	agent.commit("a.txt", "a\n", "A")
	agent.must("push", "-q", "origin", "HEAD:main")
	if got := scopes(); len(got) != 2 || got[1] != `{"repositories":["hello"],"permissions":{"contents":"write"}}` {
		t.Errorf("tokens of a push: %q", got)
	}
	agent.commit(".github/workflows/ci.yml", "on: push\n", "CI")
	agent.must("push", "-q", "origin", "HEAD:main")
	if got := scopes(); len(got) != 3 || got[2] != `{"repositories":["hello"],"permissions":{"contents":"write","workflows":"write"}}` {
		t.Errorf("tokens of a push of workflows: %q", got)
	}
}

// passOn sends a request on to a forge.
func passOn(t *testing.T, w http.ResponseWriter, r *asked, to string) {
	t.Helper()
	out, err := http.NewRequestWithContext(r.context, r.Method, to+r.Path+"?"+r.Query, strings.NewReader(r.Body))
	if err != nil {
		t.Error(err)
		return
	}
	out.Header = r.Header
	resp, err := http.DefaultClient.Do(out)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}
