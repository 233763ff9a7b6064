package github_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	library "github.com/google/go-github/v89/github"

	"sallyport/sources"
)

// TestTheLibraryAsksTheSame has GitHub's Go library, which was not written for
// this, make the requests that each action makes.
func TestTheLibraryAsksTheSame(t *testing.T) {
	const owner, repo = "octocat", "hello"
	issueJSON := strings.Replace(issueJSON, `,"mere text"`, "", 1) // which the library does not know of
	replies := map[string][]reply{
		"GET /user/repos": one("[" + repoJSON + "]"), "GET /orgs/octo-org/repos": one("[]"), "GET /installation/repositories": one(`{"repositories":[]}`),
		"GET /repos/octocat/hello": one(repoJSON), "GET /repos/octocat/hello/issues": one("[]"), "GET /repos/octocat/hello/issues/7": one(issueJSON),
		"GET /repos/octocat/hello/pulls": one("[]"), "GET /repos/octocat/hello/pulls/9": one(pullJSON), "GET /repos/octocat/hello/pulls/9/files": one("[]"),
		"GET /repos/octocat/hello/pulls/9/reviews": one("[]"), "GET /repos/octocat/hello/pulls/9/comments": one("[]"), "GET /repos/octocat/hello/issues/9/comments": one("[]"),
		"GET /repos/octocat/hello/branches": one("[]"), "GET /repos/octocat/hello/git/ref/heads/a/b%23%": one(refJSON), "GET /repos/octocat/hello/git/ref/heads/a/b#%": one(refJSON),
		"POST /repos/octocat/hello/git/refs": created(refJSON), "POST /repos/octocat/hello/issues": created(issueJSON), "PATCH /repos/octocat/hello/issues/7": one(issueJSON),
		"POST /repos/octocat/hello/issues/7/comments": created(postedJSON), "POST /repos/octocat/hello/issues/9/comments": created(postedJSON),
		"POST /repos/octocat/hello/pulls": created(pullJSON), "PUT /repos/octocat/hello/pulls/9/merge": one(mergedJSON),
	}
	thirty := library.ListOptions{PerPage: 30}
	for _, test := range []struct {
		action, params string
		kind           func(*sources.Conn)
		ask            func(ctx context.Context, c *library.Client) error
	}{
		{"list_repos", `{}`, nil, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Repositories.ListByAuthenticatedUser(ctx, &library.RepositoryListByAuthenticatedUserOptions{Sort: "pushed", ListOptions: thirty})
			return err
		}},
		{"list_repos", `{"owner":"octo-org"}`, nil, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Repositories.ListByOrg(ctx, "octo-org", &library.RepositoryListByOrgOptions{Sort: "pushed", ListOptions: thirty})
			return err
		}},
		{"list_repos", `{}`, app, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Apps.ListRepos(ctx, &thirty)
			return err
		}},
		{"get_repo", `{"owner":"octocat","repo":"hello"}`, nil, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Repositories.Get(ctx, owner, repo)
			return err
		}},
		{"list_issues", `{"owner":"octocat","repo":"hello","state":"all","labels":["a","b c"],"assignee":"*","creator":"hubot","since":"2026-10-01T00:00:00Z","sort":"updated","direction":"asc"}`, nil, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Issues.ListByRepo(ctx, owner, repo, &library.IssueListByRepoOptions{
				State: "all", Labels: []string{"a", "b c"}, Assignee: "*", Creator: "hubot",
				Since: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Sort: "updated", Direction: "asc", ListOptions: thirty,
			})
			return err
		}},
		{"get_issue", readIssue, nil, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Issues.Get(ctx, owner, repo, 7)
			return err
		}},
		{"list_prs", `{"owner":"octocat","repo":"hello","state":"all","head":"octocat:a/b","base":"trunk","sort":"updated"}`, nil, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.PullRequests.List(ctx, owner, repo, &library.PullRequestListOptions{State: "all", Head: "octocat:a/b", Base: "trunk", Sort: "updated", Direction: "desc", ListOptions: thirty})
			return err
		}},
		{"get_pr", `{"owner":"octocat","repo":"hello","number":9}`, nil, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.PullRequests.Get(ctx, owner, repo, 9); err != nil {
				return err
			}
			_, _, err := c.PullRequests.ListFiles(ctx, owner, repo, 9, &thirty)
			return err
		}},
		{"get_pr_comments", `{"owner":"octocat","repo":"hello","number":9}`, nil, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.PullRequests.ListReviews(ctx, owner, repo, 9, &thirty); err != nil {
				return err
			}
			if _, _, err := c.PullRequests.ListComments(ctx, owner, repo, 9, &library.PullRequestListCommentsOptions{ListOptions: thirty}); err != nil {
				return err
			}
			_, _, err := c.Issues.ListComments(ctx, owner, repo, 9, &library.IssueListCommentsOptions{ListOptions: thirty})
			return err
		}},
		{"list_branches", `{"owner":"octocat","repo":"hello","protected":false}`, nil, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Repositories.ListBranches(ctx, owner, repo, &library.BranchListOptions{Protected: new(bool), ListOptions: thirty})
			return err
		}},
		{"create_issue", `{"owner":"octocat","repo":"hello","title":"t","body":"<b>","labels":["bug"],"assignees":["hubot"],"milestone":3}`, nil, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Issues.Create(ctx, owner, repo, &library.IssueRequest{
				Title: library.Ptr("t"), Body: library.Ptr("<b>"), Labels: &[]string{"bug"}, Assignees: &[]string{"hubot"}, Milestone: library.Ptr(3),
			})
			return err
		}},
		{"comment_issue", `{"owner":"octocat","repo":"hello","number":7,"body":"b"}`, nil, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.Issues.Get(ctx, owner, repo, 7); err != nil {
				return err
			}
			return comment(ctx, c, 7)
		}},
		{"comment_pr", `{"owner":"octocat","repo":"hello","number":9,"body":"b"}`, nil, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.PullRequests.Get(ctx, owner, repo, 9); err != nil {
				return err
			}
			return comment(ctx, c, 9)
		}},
		{"close_issue", `{"owner":"octocat","repo":"hello","number":7,"state_reason":"duplicate"}`, nil, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.Issues.Get(ctx, owner, repo, 7); err != nil {
				return err
			}
			_, _, err := c.Issues.Edit(ctx, owner, repo, 7, &library.IssueRequest{State: library.Ptr("closed"), StateReason: library.Ptr("duplicate")})
			return err
		}},
		{"create_branch", `{"owner":"octocat","repo":"hello","branch":"fix","base":"a/b#%"}`, nil, func(ctx context.Context, c *library.Client) error {
			ref, _, err := c.Git.GetRef(ctx, owner, repo, "heads/a/b#%")
			if err != nil {
				return err
			}
			_, _, err = c.Git.CreateRef(ctx, owner, repo, library.CreateRef{Ref: "refs/heads/fix", SHA: ref.GetObject().GetSHA()})
			return err
		}},
		{"create_pr", `{"owner":"octocat","repo":"hello","title":"t","head":"octocat:fix","base":"trunk","body":"b"}`, nil, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.PullRequests.Create(ctx, owner, repo, &library.NewPullRequest{
				Title: library.Ptr("t"), Head: library.Ptr("octocat:fix"), Base: library.Ptr("trunk"), Body: library.Ptr("b"), Draft: library.Ptr(false),
			})
			return err
		}},
		{"merge_pr", `{"owner":"octocat","repo":"hello","number":9,"sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e","base":"trunk","merge_method":"rebase","commit_title":"t","commit_message":"m"}`, nil, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.PullRequests.Get(ctx, owner, repo, 9); err != nil {
				return err
			}
			_, _, err := c.PullRequests.Merge(ctx, owner, repo, 9, "m", &library.PullRequestOptions{CommitTitle: "t", SHA: "6dcb09b5b57875f334f61aebed695e2e4193db5e", MergeMethod: "rebase"})
			return err
		}},
	} {
		ours, theirs := newServer(t, replies), newServer(t, replies)
		c := ours.conn(t)
		if test.kind != nil {
			test.kind(c)
		}
		if _, err := run(t, c, test.action, test.params); err != nil {
			t.Errorf("%s: %v", test.action, err)
		}
		base := theirs.URL + "/"
		client, err := library.NewClient(library.WithAuthToken(token), library.WithURLs(&base, nil), library.WithHTTPClient(&http.Client{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := test.ask(t.Context(), client); err != nil {
			t.Errorf("%s: the library: %v", test.action, err)
		}
		if diff := cmp.Diff(comparable(t, theirs), comparable(t, ours)); diff != "" {
			t.Errorf("%s (-library +ours):\n%s", test.action, diff)
		}
	}
}

func comment(ctx context.Context, c *library.Client, number int) error {
	_, _, err := c.Issues.CreateComment(ctx, "octocat", "hello", number, &library.IssueComment{Body: library.Ptr("b")})
	return err
}

// comparable returns requests without what may differ: which form of answer is
// asked for, and how a body is written.
func comparable(t *testing.T, s *server) (list []any) {
	t.Helper()
	for _, r := range s.requests() {
		head, body, _ := strings.Cut(r, "\n\n")
		var v any
		if body != "" {
			if err := json.Unmarshal([]byte(body), &v); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, regexp.MustCompile(`(?m)^Accept: .*\n`).ReplaceAllString(head, ""), v)
	}
	return list
}
