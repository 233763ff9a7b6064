package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

func listRepos() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "list_repos", Title: "List repositories", Risk: action.RiskRead, Idempotent: true,
		Description: "Lists the repositories that the connection can see, most recently pushed first if GitHub sorts them. With owner, only those of that organization or user.",
		Input:       input(0, ownerParam, limitParam, cursorParam),
		Summarize: summary(func(p repository) string {
			if p.Owner == "" {
				return "List repositories"
			}
			return "List repositories of " + p.Owner
		}),
		Examples: []sources.Example{{Note: "All repositories", Params: []byte(`{}`)}, {Note: "Repositories of an organization", Params: []byte(`{"owner":"octo-org","limit":100}`)}},
		Run:      handler(func(ctx context.Context, c *sources.Conn, p reposParams) (any, error) { return runListRepos(ctx, c, p) }),
	}
}

type reposParams struct {
	Owner string `json:"owner"`
	pageParams
}

func runListRepos(ctx context.Context, c *sources.Conn, p reposParams) (page[repo], error) {
	every := func(*repo) bool { return true }
	switch {
	case c.Kind == action.KindApp:
		return listInstallationRepos(ctx, c, p.Owner, p.pageParams)
	case p.Owner == "":
		return list(ctx, c, p.pageParams, request{path: []string{"user", "repos"}, query: queryOf("sort", "pushed")}, every)
	}
	r := request{path: []string{"orgs", p.Owner, "repos"}, query: queryOf("sort", "pushed"), about: target{description: "organization or user " + p.Owner, hint: "check /owner"}}
	result, err := list(ctx, c, p.pageParams, r, every)
	var no *sources.Refusal
	if errors.As(err, &no) && no.Status == http.StatusNotFound { // the owner is a user
		r.path[0] = "users"
		return list(ctx, c, p.pageParams, r, every)
	}
	return result, err
}

// listInstallationRepos lists the repositories of an installation, which all
// belong to one account.
func listInstallationRepos(ctx context.Context, c *sources.Conn, owner string, p pageParams) (page[repo], error) {
	type answer struct {
		Repositories []repo `json:"repositories"`
	}
	return listOf(ctx, c, p, request{path: []string{"installation", "repositories"}}, func(*[]repo) (any, func() []repo) {
		var a answer
		return &a, func() []repo { return a.Repositories }
	}, func(r *repo) bool { return owner == "" || strings.EqualFold(string(r.Owner), owner) })
}

func getRepo() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "get_repo", Title: "Get a repository", Risk: action.RiskRead, Idempotent: true,
		Description: "Returns a repository: its default branch, whether it is archived, the permissions of the connection and the allowed merge methods. A renamed repository is found by its old name; full_name is the new one.",
		Input:       input(2, ownerParam, repoParam),
		Summarize:   summary(func(p repository) string { return "Get " + p.String() }),
		Examples:    []sources.Example{{Note: "The default branch", Params: []byte(`{"owner":"octocat","repo":"hello-world"}`)}},
		Run:         handler(func(ctx context.Context, c *sources.Conn, p repository) (any, error) { return p.get(ctx, c, false) }),
	}
}

// get fetches the repository. noRename is true before a write.
func (r repository) get(ctx context.Context, c *sources.Conn, fixed bool) (repo, error) {
	var found repo
	_, err := request{path: r.path(), about: r.about(), noRename: fixed}.send(ctx, c, &found)
	return found, err
}

func (r repository) about() target {
	return target{repository: r, description: "repository " + r.String(), hint: "check owner and repo with list_repos"}
}

func listBranches() sources.ModuleAction {
	type params struct {
		repository
		Protected *bool `json:"protected"`
		pageParams
	}
	type branch struct {
		Name      string `json:"name"`
		Commit    commit `json:"commit"`
		Protected bool   `json:"protected"`
	}
	return sources.ModuleAction{
		Name: "list_branches", Title: "List branches", Risk: action.RiskRead, Idempotent: true,
		Description: "Lists a repository's branches by name, each with the ID of its last commit.",
		Input: input(2, ownerParam, repoParam,
			`"protected":{"type":"boolean","description":"Only protected branches, or only unprotected ones. Default: all."}`, limitParam, cursorParam),
		Summarize: summary(func(p params) string { return "List branches of " + p.String() }),
		Examples:  []sources.Example{{Note: "All branches", Params: []byte(`{"owner":"octocat","repo":"hello-world","limit":100}`)}},
		Run: handler(func(ctx context.Context, c *sources.Conn, p params) (any, error) {
			q := queryOf()
			if p.Protected != nil {
				q = queryOf("protected", map[bool]string{true: "true", false: "false"}[*p.Protected])
			}
			r := request{path: p.path("branches"), query: q, about: p.repository.about()}
			return list(ctx, c, p.pageParams, r, func(*branch) bool { return true })
		}),
	}
}

type branchParams struct {
	repository
	Branch string `json:"branch"`
	Base   string `json:"base"`
	SHA    string `json:"sha"`
}

func createBranch() sources.ModuleAction {
	return guardedAction(sources.ModuleAction{
		Name: "create_branch", Title: "Create a branch", Risk: action.RiskWrite,
		Description: "Creates a branch at the tip of another branch, or at a commit. The names main and master are not allowed.",
		Input: input(3, ownerParam, repoParam,
			`"branch":{"type":"string","minLength":1,"maxLength":240,"description":"The new branch's name, such as fix/login."}`,
			`"base":{"type":"string","minLength":1,"maxLength":240,"description":"The branch to start from. Default: sha, or else the repository's default branch."}`,
			`"sha":{"type":"string","pattern":"^[0-9a-f]{40}$","description":"The full ID of the commit to start from, instead of base."}`),
		Summarize: summary(func(p branchParams) string {
			return fmt.Sprintf("Create branch %q in %s at %s", p.Branch, p.repository, p.startDescription())
		}),
		Examples: []sources.Example{
			{Note: "From the default branch", Params: []byte(`{"owner":"octocat","repo":"hello-world","branch":"fix/login"}`)},
			{Note: "From a release", Params: []byte(`{"owner":"octocat","repo":"hello-world","branch":"fix/1.2","base":"release/1.2"}`)},
		},
	}, runCreateBranch)
}

func (p branchParams) check(rules writeRules) error {
	if err := p.repository.check(rules); err != nil {
		return err
	}
	if p.SHA != "" && p.Base != "" {
		return &sources.Refusal{Code: "invalid_params", Message: "Give /base or /sha, not both: a branch begins at one commit."}
	}
	if p.Base != "" {
		if _, err := branchName("base", p.Base); err != nil {
			return err
		}
	}
	short, err := branchName("branch", p.Branch)
	if err == nil && (strings.EqualFold(short, "main") || strings.EqualFold(short, "master")) {
		return guardrail("No branch called main or master is created here; give /branch another name.")
	}
	return err
}

func (p branchParams) startDescription() string {
	switch {
	case p.SHA != "":
		return "commit " + p.SHA[:min(len(p.SHA), 10)]
	case p.Base != "":
		return fmt.Sprintf("the tip of %q", p.Base)
	}
	return "the tip of its default branch"
}

// gitRef is a Git reference.
type gitRef struct {
	Object struct {
		SHA string `json:"sha"`
	} `json:"object"`
}

func runCreateBranch(ctx context.Context, c *sources.Conn, p branchParams) (any, error) {
	name, err := branchName("branch", p.Branch)
	if err != nil {
		return nil, err
	}
	if p.SHA == "" {
		if p.SHA, err = p.resolveBase(ctx, c); err != nil {
			return nil, err
		}
	}
	var created gitRef
	_, err = request{
		method: "POST", path: p.path("git", "refs"), about: p.repository.about(), noRename: true,
		body: map[string]string{"ref": "refs/heads/" + name, "sha": p.SHA},
	}.send(ctx, c, &created)
	return map[string]string{"branch": name, "sha": created.Object.SHA}, err
}

// resolveBase returns the commit that the new branch starts at.
func (p branchParams) resolveBase(ctx context.Context, c *sources.Conn) (string, error) {
	base := p.Base
	if base == "" {
		found, err := p.get(ctx, c, true)
		if err != nil {
			return "", err
		}
		base = found.DefaultBranch
	}
	base, err := branchName("base", base)
	if err != nil {
		return "", err
	}
	var tip gitRef
	_, err = request{
		path:  p.path(append([]string{"git", "ref", "heads"}, strings.Split(base, "/")...)...),
		about: target{repository: p.repository, description: fmt.Sprintf("branch %q in %s", base, p.repository), hint: "check /base with list_branches"}, noRename: true,
	}.send(ctx, c, &tip)
	if err == nil && tip.Object.SHA == "" {
		err = sources.AsNotExecuted(invalidResponse(errors.New("a ref without the id of its commit")))
	}
	return tip.Object.SHA, err
}
