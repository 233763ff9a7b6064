package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/ingest/event"
)

func TestWorkspaces(t *testing.T) {
	playRuns(t, map[string]func(*runHouse){
		"states":        workspaceStates,
		"sessions":      sessionsOfWorkspaces,
		"repositories":  repositoriesComeAndGo,
		"variables":     variablesOfWorkspaces,
		"runs":          runsOfWorkspaces,
		"runs at once":  runsAtOnce,
		"many of them":  manyWorkspaces,
		"kept answers":  keptAnswers,
		"bad workspace": badWorkspaces,
	})
}

// errorOf returns the error that callers see; the zero value for any other.
func errorOf(err error) (e action.Error) {
	var known *action.Error
	if errors.As(err, &known) {
		e = *known
	}
	return e
}

func (h *runHouse) workspace(w action.Workspace) action.Workspace {
	h.Helper()
	w.Organization, w.CreatedBy = h.org, "alice"
	w, err := h.db.CreateWorkspace(h.ctx, w)
	h.ok(err)
	return w
}

func (h *runHouse) repository(path, integration string) action.Repository {
	h.Helper()
	r, err := h.db.AddRepository(h.ctx, action.Repository{Organization: h.org, Host: "git.example", Path: path, Integration: integration, CreatedBy: "alice"}, "alice")
	h.ok(err)
	return r
}

func (h *runHouse) setVariables(workspace string, names ...string) {
	h.Helper()
	for _, n := range names {
		_, err := h.db.PutVariables(h.ctx, action.SealedVariable{
			Variable: action.Variable{Organization: h.org, Workspace: workspace, Name: n, UpdatedBy: "alice"}, Sealed: []byte(workspace + n),
		})
		h.ok(err)
	}
}

// A workspace is set up by a session, and says what it lacks.
func workspaceStates(h *runHouse) {
	r := h.repository("acme/shop", "")
	w := h.workspace(action.Workspace{Name: "shop", Repositories: []action.WorkspaceRepository{{Repository: r.ID}}})
	h.equal([]any{w.State, w.Repositories[0].Path, len(w.Problems)}, []any{action.NotSetUp, "acme/shop", 0}, "a new workspace")
	s, err := h.db.CreateSession(h.ctx, action.Session{Organization: h.org, Type: action.TypeSetup, Workspace: "shop", CreatedBy: "alice"})
	h.ok(err)
	state := func() action.Workspace {
		h.Helper()
		got, err := h.db.Workspace(h.ctx, h.org, "shop")
		h.ok(err)
		return got
	}
	h.equal(state().State, action.InSetup, "with a setup session")
	_, err = h.db.SaveEnvFiles(h.ctx, h.call(s.ID, "save_env_files", "call-1", "a"), json.RawMessage(`[{"path":".env","keys":[{"key":"A","required":true},{"key":"B","required":true},{"key":"C","required":false}]}]`))
	h.ok(err)
	err = h.db.DeleteWorkspace(h.ctx, h.org, w.ID, "alice")
	h.refused(err, action.ErrConflict, "workspace_in_use")
	_, err = h.db.RevokeSession(h.ctx, h.org, s.ID)
	h.ok(err)
	h.equal(state().Problems, []string{"Required variables have no value: A, B. Enter them."}, "what it lacks")
	h.setVariables(w.ID, "A")
	h.setVariables("", "B")
	h.equal([]any{state().State, state().SetUpBy}, []any{action.Ready, s.ID}, "with its variables")
	_, err = h.db.CheckedRepository(h.ctx, h.org, r.ID, "main", "It is gone.", h.db.Now())
	h.ok(err)
	h.equal([]any{state().State, state().Problems}, []any{action.NeedsAttention, []string{"git.example/acme/shop cannot be read: It is gone."}}, "with a repository that cannot be read")
	h.refused(h.db.DeleteRepository(h.ctx, h.org, r.ID, "alice"), action.ErrConflict, "repository_in_use")
	h.ok(h.db.DeleteWorkspace(h.ctx, h.org, w.ID, "alice"))
	h.ok(h.db.DeleteRepository(h.ctx, h.org, r.ID, "alice"))
	left, err := h.db.ListVariables(h.ctx, h.org, "")
	h.ok(err)
	h.equal(len(left), 1, "variables of the organization alone")
}

// A session keeps what it was created with.
func sessionsOfWorkspaces(h *runHouse) {
	r := h.repository("acme/shop", "")
	w := h.workspace(action.Workspace{Name: "shop", Repositories: []action.WorkspaceRepository{{Repository: r.ID, Branch: "develop", Folder: "apps/shop"}}, Model: "anthropic/a", Provider: "local"})
	commit := strings.Repeat("ab", 20)
	parent, err := h.db.CreateSession(h.ctx, action.Session{
		Organization: h.org, Workspace: "shop", BaseCommit: commit, FirstPrompt: "Fix it.", Client: "slack", ClientMetadata: json.RawMessage(`{"thread":1}`),
		Snapshot: "snap-1", Budget: action.Budget{MaxTokens: 10, MaxCost: 20, MaxCalls: 30}, CreatedBy: "alice",
	})
	h.ok(err)
	stored, err := h.db.Session(h.ctx, parent.ID)
	h.ok(err)
	for name, pair := range map[string][2]any{
		"workspace": {stored.Workspace, w.ID}, "model": {stored.Model, "anthropic/a"}, "provider": {stored.Provider, "local"}, "sandbox": {stored.Sandbox, action.SandboxNone},
		"branch": {stored.Repositories[0].Branch, "develop"}, "folder": {stored.Repositories[0].Folder, "apps/shop"}, "commit": {stored.Repositories[0].BaseCommit, commit},
		"prompt": {stored.FirstPrompt, "Fix it."}, "metadata": {string(stored.ClientMetadata), `{"thread":1}`}, "budget": {stored.Budget, action.Budget{MaxTokens: 10, MaxCost: 20, MaxCalls: 30}},
	} {
		h.equal(pair[0], pair[1], name)
	}
	child, err := h.db.CreateSession(h.ctx, action.Session{Organization: h.org, Parent: parent.ID, Branch: "fix", CreatedBy: "alice"})
	h.ok(err)
	h.equal([]any{child.Workspace, child.Snapshot, child.Repositories[0].Branch}, []any{w.ID, "snap-1", "fix"}, "a session that goes on")
	for name, s := range map[string]action.Session{
		"workspace_not_found": {Workspace: "none"}, "session_not_found": {Parent: "none"}, "workspace_required": {Type: action.TypeSetup},
	} {
		s.Organization, s.CreatedBy = h.org, "alice"
		_, err := h.db.CreateSession(h.ctx, s)
		h.equal(errorOf(err).Code, name, "code")
	}
	for field, s := range map[string]action.Session{
		"/branch": {Branch: "x"}, "/repositories/0/branch": {Workspace: "shop", Branch: "a..b"}, "/base_commit": {Workspace: "shop", BaseCommit: "abc"},
		"/client_metadata": {ClientMetadata: json.RawMessage(`[]`)}, "/max_calls": {Budget: action.Budget{MaxCalls: -1}},
	} {
		s.Organization, s.CreatedBy = h.org, "alice"
		_, err := h.db.CreateSession(h.ctx, s)
		h.equal(errorOf(err).Field, field, "field")
	}
}

// Repositories are those that an integration lists; they return with it.
func repositoriesComeAndGo(h *runHouse) {
	in, err := h.db.PutIntegration(h.ctx, action.Integration{
		ID: uuid.NewString(), Organization: h.org, Provider: "github", Kind: action.KindAPIKey, Account: "1", Name: "GitHub", Visibility: action.VisibleOrganization, CreatedBy: "alice", Sealed: []byte("x"),
	}, "alice")
	h.ok(err)
	private := true
	listed := []action.Repository{{Host: "github.com", Path: "Acme/a", DefaultBranch: "main", Private: &private}, {Host: "github.com", Path: "acme/b"}, {Host: "github.com", Path: "bad name"}}
	added, err := h.db.SyncRepositories(h.ctx, h.org, in.ID, listed, "alice")
	h.ok(err)
	h.equal(added, 2, "new repositories")
	list := func() map[string]action.RepositoryStatus {
		h.Helper()
		page, err := h.db.ListRepositories(h.ctx, action.RepositoryFilter{Organization: h.org})
		h.ok(err)
		all := map[string]action.RepositoryStatus{}
		for i := range page.Items {
			all[page.Items[i].Path] = page.Items[i].Status
		}
		return all
	}
	h.equal(list(), map[string]action.RepositoryStatus{"Acme/a": action.RepositoryReadable, "acme/b": action.RepositoryReadable}, "all of them")
	page, err := h.db.ListRepositories(h.ctx, action.RepositoryFilter{Organization: h.org, Text: "GITHUB.com/acme/A"})
	h.ok(err)
	h.equal([]any{len(page.Items), page.Items[0].Path}, []any{1, "Acme/a"}, "found")
	added, err = h.db.SyncRepositories(h.ctx, h.org, in.ID, listed[1:2], "alice")
	h.ok(err)
	h.equal([]any{added, list()["Acme/a"]}, []any{0, action.RepositoryUnreadable}, "one that is no longer listed")
	_, err = h.db.SetIntegrationStatus(h.ctx, h.org, in.ID, 0, action.IntegrationDeleted, "gone", "alice")
	h.ok(err)
	h.equal(list()["acme/b"], action.RepositoryDisconnected, "without its integration")
	gone, err := h.db.IntegrationOf(h.ctx, h.org, "github", "", "1", false)
	h.ok(err)
	gone.Sealed = []byte("y")
	_, err = h.db.PutIntegration(h.ctx, gone, "alice")
	h.ok(err)
	h.equal(list()["acme/b"], action.RepositoryReadable, "with its integration again")
}

// Values are sealed by workspace; a workspace's own value takes precedence.
func variablesOfWorkspaces(h *runHouse) {
	w := h.workspace(action.Workspace{Name: "shop"})
	h.setVariables("", "A", "B")
	h.setVariables(w.ID, "B", "B", "C")
	sealed, err := h.db.SealedVariables(h.ctx, h.org, w.ID)
	h.ok(err)
	var got []string
	for i := range sealed {
		got = append(got, fmt.Sprintf("%s v%d %s", sealed[i].Name, sealed[i].Version, strings.ReplaceAll(string(sealed[i].Sealed), w.ID, "own ")))
	}
	h.equal(got, []string{"A v1 A", "B v2 own B", "C v1 own C"}, "what a workspace gets")
	h.refused(h.db.DeleteVariable(h.ctx, h.org, w.ID, "A", "alice"), action.ErrNotFound, "variable_not_found")
	h.ok(h.db.DeleteVariable(h.ctx, h.org, w.ID, "B", "alice"))
	_, err = h.db.PutVariables(h.ctx, action.SealedVariable{Variable: action.Variable{Organization: h.org, Name: "1x", UpdatedBy: "alice"}, Sealed: []byte("x")})
	h.refused(err, action.ErrInvalid, "invalid")
	events, err := h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: h.org, Kind: action.EventVariable})
	h.ok(err)
	h.equal(len(events.Items), 6, "changes in history")
}

// The session of a run works in the automation's workspace, within its limits.
func runsOfWorkspaces(h *runHouse) {
	r := h.repository("acme/shop", "")
	w := h.workspace(action.Workspace{Name: "shop", Repositories: []action.WorkspaceRepository{{Repository: r.ID}}, Model: "anthropic/a"})
	a, err := h.db.Automation(h.ctx, h.org, h.a.ID)
	h.ok(err)
	a.RunSettings = event.RunSettings{Workspace: "shop", Branch: "triage", MaxTokens: 5, MaxCost: 6, MaxCalls: 7, TimeLimit: 60, Tell: []string{"nobody"}}
	_, err = h.db.UpdateAutomation(h.ctx, a, "alice")
	h.refused(err, action.ErrNotFound, "user_not_found")
	a.Tell = nil
	a, err = h.db.UpdateAutomation(h.ctx, a, "alice")
	h.ok(err)
	h.equal(a.Workspace, w.ID, "the workspace by its ID")
	h.refused(h.db.DeleteWorkspace(h.ctx, h.org, w.ID, "alice"), action.ErrConflict, "workspace_in_use")
	h.queued()
	work := h.claim()
	s, err := h.db.Session(h.ctx, work.Run.Session)
	h.ok(err)
	h.equal([]any{s.Workspace, s.Repositories[0].Branch, s.Model, s.Origin, s.Budget}, []any{w.ID, "triage", "anthropic/a", action.OriginRun, action.Budget{MaxTokens: 5, MaxCost: 6, MaxCalls: 7}}, "the session of the run")
	if limit := work.Run.Deadline.Sub(h.db.Now()); limit > time.Minute {
		h.Errorf("the run may take %s", limit)
	}
}

// An automation with max_runs has no more runs at the same time.
func runsAtOnce(h *runHouse) {
	a, err := h.db.Automation(h.ctx, h.org, h.a.ID)
	h.ok(err)
	a.MaxRuns = 1
	_, err = h.db.UpdateAutomation(h.ctx, a, "alice")
	h.ok(err)
	h.queued()
	second := h.queued()
	first := h.claim()
	claim := event.Claim{Organization: h.org, By: "bob", Life: time.Hour}
	_, err = h.db.ClaimRun(h.ctx, claim)
	h.refused(err, action.ErrNotFound, "no_run")
	claim.Run = second
	_, err = h.db.ClaimRun(h.ctx, claim)
	h.refused(err, action.ErrConflict, "automation_full")
	_, _, err = h.db.FinishRun(h.ctx, h.org, first.Run.ID, first.Run.Claim, event.RunResult{Status: event.RunSucceeded})
	h.ok(err)
	_, err = h.db.ClaimRun(h.ctx, claim)
	h.ok(err)
}

// Lists of 200 workspaces and 5,000 repositories read a bounded number of rows.
func manyWorkspaces(h *runHouse) {
	in, err := h.db.PutIntegration(h.ctx, action.Integration{
		ID: uuid.NewString(), Organization: h.org, Provider: "github", Kind: action.KindAPIKey, Account: "1", Name: "GitHub", Visibility: action.VisibleOrganization, CreatedBy: "alice", Sealed: []byte("x"),
	}, "alice")
	h.ok(err)
	var listed []action.Repository
	for i := range 5000 {
		listed = append(listed, action.Repository{Host: "github.com", Path: fmt.Sprintf("acme/r%04d", i)})
	}
	added, err := h.db.SyncRepositories(h.ctx, h.org, in.ID, listed, "alice")
	h.ok(err)
	h.equal(added, 5000, "repositories")
	page, err := h.db.ListRepositories(h.ctx, action.RepositoryFilter{Organization: h.org, Limit: 100})
	h.ok(err)
	h.equal([]any{len(page.Items), page.Capped, page.Items[0].Path}, []any{100, true, "acme/r0000"}, "the first page")
	for i := range 200 {
		h.workspace(action.Workspace{Name: fmt.Sprint("w", i), Repositories: []action.WorkspaceRepository{{Repository: page.Items[i%100].ID}}})
	}
	all, err := h.db.ListWorkspaces(h.ctx, h.org)
	h.ok(err)
	h.equal(len(all), 200, "workspaces")
	page, err = h.db.ListRepositories(h.ctx, action.RepositoryFilter{Organization: h.org, Workspace: "w7"})
	h.ok(err)
	h.equal([]any{len(page.Items), page.Items[0].Path, len(page.Items[0].Workspaces)}, []any{1, "acme/r0007", 2}, "the repository of a workspace")
}

// An answer to a request for variables can be kept for later sessions.
func keptAnswers(h *runHouse) {
	w := h.workspace(action.Workspace{Name: "shop"})
	s, err := h.db.CreateSession(h.ctx, action.Session{Organization: h.org, Workspace: w.ID, CreatedBy: "alice"})
	h.ok(err)
	asked, _, err := h.db.RequestEnv(h.ctx, h.org, s.ID, []action.EnvKey{{Key: "A"}})
	h.ok(err)
	verdict := action.EnvVerdict{Organization: h.org, ID: asked.ID, By: "alice", Sealed: []byte("x"), Names: []string{"A"}, Keep: []action.SealedVariable{
		{Variable: action.Variable{Organization: h.org, Workspace: w.ID, Name: "A", UpdatedBy: "alice"}, Sealed: []byte("y")},
	}}
	_, err = h.db.DecideEnv(h.ctx, verdict)
	h.ok(err)
	kept, err := h.db.ListVariables(h.ctx, h.org, w.ID)
	h.ok(err)
	h.equal([]any{len(kept), kept[0].Workspace}, []any{1, w.ID}, "kept values")
	_, err = h.db.DecideEnv(h.ctx, verdict)
	h.refused(err, action.ErrConflict, "already_decided")
	kept, err = h.db.ListVariables(h.ctx, h.org, w.ID)
	h.ok(err)
	h.equal(kept[0].Version, int64(1), "a second answer")
}

func badWorkspaces(h *runHouse) {
	r := h.repository("acme/shop", "")
	h.workspace(action.Workspace{Name: "shop"})
	for field, w := range map[string]action.Workspace{
		"/name": {Name: ""}, "/size": {Name: "x", Size: "huge"}, "/idle_seconds": {Name: "x", IdleSeconds: -1}, "/work_hosts/0": {Name: "x", WorkHosts: []string{"a b"}},
		"/repositories/0/folder": {Name: "x", Repositories: []action.WorkspaceRepository{{Repository: r.ID, Folder: "../x"}}},
		"/repositories/0/branch": {Name: "x", Repositories: []action.WorkspaceRepository{{Repository: r.ID, Branch: "-x"}}},
		"/repositories/1":        {Name: "x", Repositories: []action.WorkspaceRepository{{Repository: r.ID}, {Repository: r.ID}}},
	} {
		w.Organization, w.CreatedBy = h.org, "alice"
		_, err := h.db.CreateWorkspace(h.ctx, w)
		h.equal(errorOf(err).Field, field, "field")
	}
	_, err := h.db.CreateWorkspace(h.ctx, action.Workspace{Organization: h.org, Name: "shop", CreatedBy: "alice"})
	h.refused(err, action.ErrConflict, "workspace_exists")
	_, err = h.db.CreateWorkspace(h.ctx, action.Workspace{Organization: h.org, Name: "x", Repositories: []action.WorkspaceRepository{{Repository: "none"}}, CreatedBy: "alice"})
	h.refused(err, action.ErrNotFound, "unknown_repository")
}
