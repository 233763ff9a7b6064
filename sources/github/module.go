// Package github implements the GitHub module: repositories, issues, branches
// and pull requests, on github.com and Enterprise Server, with personal tokens,
// OAuth and GitHub App installations.
//
// Actions hold these guarantees. No branch called main or master is created. An
// integration's rules for repositories and base branches apply before approval
// and before any request. A write reaches the named repository or fails, even
// after a rename. If a check before a write fails, the write is reported as not
// executed. Issue actions never change a pull request, and the reverse. A merge
// applies to the named commit only, and only if the base branch, read
// immediately before, is the named one. Pagination uses parameters and never a
// URL from a response. Rate limits are distinguished from refusals.
//
// For webhooks, nothing is parsed before the signature is verified; headers are
// not signed, so the body must match the event in the header; and a branch of a
// fork never matches as a branch of the repository.
//
// The module does not use go-github, which handles rate limits itself, follows
// redirects of writes, and decodes a hundred URLs per object; [outbound.Client]
// must see every request. Tests compare the requests with that library's.
package github

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

//go:embed guide.md
var guide string

// Module returns the GitHub module. Its metadata is
// {"repositories":[{"full_name","private","default_branch"}]}, filtered by
// owner.
func Module() *sources.Module {
	return &sources.Module{
		ID:      "github",
		Title:   "GitHub",
		About:   "Reads repositories, issues and pull requests; opens and comments on issues and pull requests, and merges pull requests; on github.com or GitHub Enterprise Server.",
		Guide:   guide,
		BaseURL: "https://api.github.com",
		Needs: []sources.Need{
			{Kind: action.KindApp, Preset: "github", Hint: "Install the organization's GitHub App, and choose the repositories that agents may reach."},
			{Kind: action.KindAPIKey, Users: true, Hint: "Make a fine-grained personal access token at https://github.com/settings/personal-access-tokens/new, with Contents, Issues and Pull requests."},
			{Kind: action.KindOAuth2, Users: true, Preset: "github", Scopes: []string{"repo"}, Hint: "Sign in to GitHub with the account that agents are to act as."},
		},
		Settings: json.RawMessage(settingsSchema),
		Actions: []sources.ModuleAction{
			listRepos(), getRepo(), listIssues(), getIssue(), listPulls(), getPull(), getPullComments(), listBranches(),
			createIssue(), commentIssue(), closeIssue(), createBranch(), createPull(), commentPull(), mergePull(),
		},
		Account:  account,
		Metadata: metadata,
		Choose:   chooseIntegration,
	}
}

// account returns the account of a credential.
//
// An installation token identifies neither a user nor its installation, so only
// the owner of its repositories is known. The flow that connects the
// installation supplies its ID.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	if c.Kind == action.KindApp {
		var answer struct {
			Repositories []repo `json:"repositories"`
		}
		_, err := request{path: []string{"installation", "repositories"}, query: queryOf("per_page", "1")}.send(ctx, c, &answer)
		if err != nil || len(answer.Repositories) == 0 {
			return sources.Account{}, err
		}
		return sources.Account{Name: string(answer.Repositories[0].Owner)}, nil
	}
	var user struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
	}
	header, err := request{path: []string{"user"}}.send(ctx, c, &user)
	if err != nil {
		return sources.Account{}, err
	}
	var scopes []string // nil if GitHub does not report them, as for fine-grained tokens
	if values := header.Values("X-Oauth-Scopes"); values != nil {
		scopes = strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' || r == ' ' })
	}
	return sources.Account{ID: userID(c.HTTP.Base(), user.ID), Name: user.Login, Scopes: scopes}, nil
}

// userID returns the account ID of a user at the server of the base URL.
func userID(base *url.URL, id int64) string {
	return sources.AccountID(base, "api.github.com", strconv.FormatInt(id, 10))
}

// chooseIntegration returns the integration of the account that owns the
// repository. Otherwise it returns the only one that is not an installation:
// installations see only the repositories of their account, users also those of
// others.
func chooseIntegration(params json.RawMessage, among []action.Integration) int {
	var p repository
	if json.Unmarshal(params, &p) != nil || p.Owner == "" {
		return -1
	}
	owners, users := []int{}, []int{}
	for i, in := range among {
		if strings.EqualFold(in.AccountName, p.Owner) {
			owners = append(owners, i)
		}
		if in.Kind != action.KindApp {
			users = append(users, i)
		}
	}
	switch {
	case len(owners) == 1:
		return owners[0]
	case len(owners) == 0 && len(users) == 1:
		return users[0]
	}
	return -1
}

// maxRepositories bounds the repositories that [Repositories] lists.
const maxRepositories = 20_000

// Repository is a repository that an integration can read.
type Repository struct {
	FullName      string // owner/name
	DefaultBranch string
	Private       bool
}

// Repositories lists the repositories that the integration of a connection can read.
func Repositories(ctx context.Context, c *sources.Conn) (list []Repository, err error) {
	p := reposParams{pageParams: pageParams{Limit: 100}}
	for len(list) < maxRepositories {
		found, err := runListRepos(ctx, c, p)
		if err != nil {
			return nil, err
		}
		for _, r := range found.Items {
			list = append(list, Repository{r.FullName, r.DefaultBranch, r.Private})
		}
		if p.Cursor = found.Next; p.Cursor == "" {
			break
		}
	}
	return list, nil
}

// metadata lists repositories for forms, up to a limit. The query parameter
// owner filters them.
func metadata(ctx context.Context, c *sources.Conn, q url.Values) (any, error) {
	type item struct {
		Name          string `json:"full_name"`
		Private       bool   `json:"private"`
		DefaultBranch string `json:"default_branch"`
	}
	result := struct {
		Repositories []item `json:"repositories"`
		More         bool   `json:"_truncated,omitempty"`
	}{Repositories: []item{}}
	p := reposParams{Owner: q.Get("owner"), pageParams: pageParams{Limit: 100}}
	for range maxPagesPerList {
		found, err := runListRepos(ctx, c, p)
		if err != nil {
			return nil, err
		}
		for _, r := range found.Items {
			result.Repositories = append(result.Repositories, item{r.FullName, r.Private, r.DefaultBranch})
		}
		p.Cursor = found.Next
		if p.Cursor == "" {
			return result, nil
		}
	}
	result.More = true
	return result, nil
}
