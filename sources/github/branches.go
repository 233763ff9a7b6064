package github

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

type branchParams struct {
	repository
	Branch string `json:"branch"`
	Base   string `json:"base"`
	SHA    string `json:"sha"`
}

func createBranch() sources.ModuleAction {
	return guardedAction(sources.ModuleAction{
		Name: "create_branch", Title: "Create a branch", Risk: action.RiskWrite,
		Description: "Creates a branch at the tip of another one, or at a commit. No branch main or master can be created.",
		Input: input(3, ownerParam, repoParam,
			`"branch":{"type":"string","minLength":1,"maxLength":240,"description":"The new branch's name, such as fix/login."}`,
			`"base":{"type":"string","minLength":1,"maxLength":240,"description":"The branch to begin at. Left out: the repository's default branch, or sha."}`,
			`"sha":{"type":"string","pattern":"^[0-9a-f]{40}$","description":"The full id of the commit to begin at, instead of base."}`),
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
	_, err := rules.checkNewBranch(p.Branch)
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
