package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/api"
)

// TestWorkspaceFromInstallation goes from an integration to a session that works on
// its repositories, with a real Git server.
func TestWorkspaceFromInstallation(t *testing.T) {
	t.Parallel()
	p, f := withForge(t)
	f.create("octocat/hello").must("push", "-q", "origin", "HEAD:refs/heads/next")
	f.create("public/docs")

	var synced api.SyncedRepositories
	p.must("POST", "/repositories/sync", map[string]any{"integration": "github"}, &synced)
	if synced.Readable != 2 {
		t.Errorf("synced: %+v", synced)
	}
	p.must("POST", "/repositories/sync", map[string]any{"integration": "github"}, &synced)
	if synced.Readable != 2 || synced.Added != 0 {
		t.Errorf("synced again: %+v", synced)
	}
	p.refused(400, "invalid", "POST", "/repositories", map[string]any{"url": "https://octocat:" + forgeToken + "@" + f.host() + "/octocat/hello"})
	repository := func(path string) (r action.Repository) {
		t.Helper()
		var list api.List[action.Repository]
		p.must("GET", "/repositories", nil, &list)
		i := slices.IndexFunc(list.Items, func(r action.Repository) bool { return r.Path == path })
		if i < 0 {
			t.Fatalf("no repository %s among %v", path, list.Items)
		}
		return list.Items[i]
	}
	if r := repository("octocat/hello"); r.Status != action.RepositoryReadable || r.DefaultBranch != "main" || r.Private == nil || !*r.Private || r.Integration == "" {
		t.Errorf("listed: %+v", r)
	}

	var w action.Workspace
	p.must("POST", "/workspaces", map[string]any{"repositories": []string{f.URL + "/octocat/hello.git#next greetings", f.URL + "/public/docs"}}, &w)
	if w.Name != "hello" || w.State != action.NotSetUp || len(w.Repositories) != 2 || w.Repositories[0].Branch != "next" || w.Repositories[0].Folder != "greetings" {
		t.Fatalf("the workspace: %+v", w)
	}
	if r := repository("public/docs"); r.Status != action.RepositoryReadable || r.DefaultBranch != "main" {
		t.Errorf("a public repository: %+v", r)
	}
	var gone action.Repository
	p.must("POST", "/repositories/"+repository("octocat/gone").ID+"/check", nil, &gone)
	if gone.Status != action.RepositoryUnreadable || !strings.Contains(gone.Fault, "has no repository octocat/gone") {
		t.Errorf("a repository that is gone: %+v", gone)
	}

	// The session reads the repositories of its workspace without an integration of its own.
	session := p.newSession(map[string]any{"workspace": "hello", "first_prompt": "Fix it."})
	agent := p.gitAgent(f, session)
	agent.must("clone", "-q", "-b", "next", f.URL+"/octocat/hello.git", "greetings")
	agent.must("clone", "-q", f.URL+"/public/docs.git", "docs")
	agent.fails([]string{"clone", f.URL + "/octocat/gone.git"}, "no credential")
	stranger := p.gitAgent(f, p.newSession(map[string]any{}))
	stranger.fails([]string{"clone", f.URL + "/octocat/hello.git"}, "no credential")

	// Variables reach the session's shell, and nothing else.
	const value = "c4n4ry-0f-4-v4ri4ble"
	p.must("PUT", "/variables/TOKEN_OF_TESTS", map[string]any{"value": value, "workspace": "hello"}, nil)
	var built api.SessionWorkspace
	p.must("GET", "/sessions/"+session.ID+"/workspace", nil, &built)
	if len(built.Repositories) != 2 || built.Repositories[0].Branch != "next" || !strings.HasSuffix(built.Repositories[0].URL, "/octocat/hello.git") || built.FirstPrompt != "Fix it." || !slices.Equal(built.Variables, []string{"TOKEN_OF_TESTS"}) {
		t.Errorf("what the session works on: %+v", built)
	}
	p.nowhere(value)
	p.nowhere(forgeToken)

	// Without the integration its repositories need attention; they return with it.
	integration := repository("octocat/hello").Integration
	p.must("DELETE", "/integrations/"+integration, nil, nil)
	p.must("GET", "/workspaces/hello", nil, &w)
	if r := repository("octocat/hello"); r.Status != action.RepositoryDisconnected || w.State != action.NeedsAttention || !strings.Contains(strings.Join(w.Problems, " "), "octocat/hello is disconnected") {
		t.Errorf("without its integration: %s, %+v", r.Status, w)
	}
	agent.fails([]string{"-C", "greetings", "fetch"}, "disconnected")
	p.must("POST", "/integrations", map[string]any{"provider": "github", "kind": "api_key", "secret": forgeToken, "base_url": f.URL}, nil)
	if r := repository("octocat/hello"); r.Status != action.RepositoryReadable {
		t.Errorf("with its integration again: %+v", r)
	}
	agent.must("-C", "greetings", "fetch", "-q")
	if status, _ := p.do(http.MethodDelete, "/workspaces/hello", nil); status != http.StatusConflict {
		t.Errorf("a workspace with a live session was deleted: %d", status)
	}
}
