package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	library "github.com/google/go-github/v89/github"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/github"
)

// TestTheLibraryAsksTheSame has GitHub's Go library, which was not written for
// this, make the requests that each action makes.
func TestTheLibraryAsksTheSame(t *testing.T) {
	const owner, repo = "octocat", "hello"
	answers := map[string]string{
		"GET /user/repos": "[" + repoJSON + "]", "GET /orgs/octo-org/repos": "[]", "GET /installation/repositories": `{"repositories":[]}`,
		"GET /repos/octocat/hello": repoJSON, "GET /repos/octocat/hello/issues": "[]", "GET /repos/octocat/hello/issues/7": issueJSON,
		"GET /repos/octocat/hello/pulls": "[]", "GET /repos/octocat/hello/pulls/9": pullJSON, "GET /repos/octocat/hello/pulls/9/files": "[]",
		"GET /repos/octocat/hello/pulls/9/reviews": "[]", "GET /repos/octocat/hello/pulls/9/comments": "[]", "GET /repos/octocat/hello/issues/9/comments": "[]",
		"GET /repos/octocat/hello/branches": "[]", "GET /repos/octocat/hello/git/ref/heads/a/b#%": refJSON,
		"POST /repos/octocat/hello/git/refs": refJSON, "POST /repos/octocat/hello/issues": issueJSON, "PATCH /repos/octocat/hello/issues/7": issueJSON,
		"POST /repos/octocat/hello/issues/7/comments": postedJSON, "POST /repos/octocat/hello/issues/9/comments": postedJSON, "POST /repos/octocat/hello/pulls/9/comments": postedJSON,
		"POST /repos/octocat/hello/pulls": pullJSON, "PUT /repos/octocat/hello/pulls/9/merge": `{"sha":"6d","merged":true,"message":"merged"}`,
	}
	thirty := library.ListOptions{PerPage: 30}
	for _, test := range []struct {
		action, params string
		kind           action.IntegrationKind
		ask            func(ctx context.Context, c *library.Client) error
	}{
		{"list_repos", `{}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Repositories.ListByAuthenticatedUser(ctx, &library.RepositoryListByAuthenticatedUserOptions{Sort: "pushed", ListOptions: thirty})
			return err
		}},
		{"list_repos", `{"owner":"octo-org"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Repositories.ListByOrg(ctx, "octo-org", &library.RepositoryListByOrgOptions{Sort: "pushed", ListOptions: thirty})
			return err
		}},
		{"list_repos", `{}`, action.KindApp, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Apps.ListRepos(ctx, &thirty)
			return err
		}},
		{"get_repo", `{"owner":"octocat","repo":"hello"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Repositories.Get(ctx, owner, repo)
			return err
		}},
		{"list_issues", `{"owner":"octocat","repo":"hello","state":"all","labels":["a","b c"],"assignee":"*","creator":"hubot","since":"2026-10-01T00:00:00Z","sort":"updated","direction":"asc"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Issues.ListByRepo(ctx, owner, repo, &library.IssueListByRepoOptions{
				State: "all", Labels: []string{"a", "b c"}, Assignee: "*", Creator: "hubot",
				Since: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Sort: "updated", Direction: "asc", ListOptions: thirty,
			})
			return err
		}},
		{"get_issue", `{"owner":"octocat","repo":"hello","number":7}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Issues.Get(ctx, owner, repo, 7)
			return err
		}},
		{"list_prs", `{"owner":"octocat","repo":"hello","state":"all","head":"octocat:a/b","base":"trunk","sort":"updated"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.PullRequests.List(ctx, owner, repo, &library.PullRequestListOptions{State: "all", Head: "octocat:a/b", Base: "trunk", Sort: "updated", Direction: "desc", ListOptions: thirty})
			return err
		}},
		{"get_pr", `{"owner":"octocat","repo":"hello","number":9}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.PullRequests.Get(ctx, owner, repo, 9); err != nil {
				return err
			}
			_, _, err := c.PullRequests.ListFiles(ctx, owner, repo, 9, &thirty)
			return err
		}},
		{"get_pr_comments", `{"owner":"octocat","repo":"hello","number":9}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.PullRequests.ListReviews(ctx, owner, repo, 9, &thirty); err != nil {
				return err
			}
			if _, _, err := c.PullRequests.ListComments(ctx, owner, repo, 9, &library.PullRequestListCommentsOptions{ListOptions: thirty}); err != nil {
				return err
			}
			_, _, err := c.Issues.ListComments(ctx, owner, repo, 9, &library.IssueListCommentsOptions{ListOptions: thirty})
			return err
		}},
		{"list_branches", `{"owner":"octocat","repo":"hello","protected":false}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Repositories.ListBranches(ctx, owner, repo, &library.BranchListOptions{Protected: new(bool), ListOptions: thirty})
			return err
		}},
		{"create_issue", `{"owner":"octocat","repo":"hello","title":"t","body":"<b>","labels":["bug"],"assignees":["hubot"],"milestone":3}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.Issues.Create(ctx, owner, repo, &library.IssueRequest{
				Title: library.Ptr("t"), Body: library.Ptr("<b>"), Labels: &[]string{"bug"}, Assignees: &[]string{"hubot"}, Milestone: library.Ptr(3),
			})
			return err
		}},
		{"comment_issue", `{"owner":"octocat","repo":"hello","number":7,"body":"b"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.Issues.Get(ctx, owner, repo, 7); err != nil {
				return err
			}
			return comment(ctx, c, 7)
		}},
		{"comment_pr", `{"owner":"octocat","repo":"hello","number":9,"body":"b"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.PullRequests.Get(ctx, owner, repo, 9); err != nil {
				return err
			}
			return comment(ctx, c, 9)
		}},
		{"comment_pr", `{"owner":"octocat","repo":"hello","number":9,"body":"b","path":"a.go","line":7,"sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.PullRequests.Get(ctx, owner, repo, 9); err != nil {
				return err
			}
			_, _, err := c.PullRequests.CreateComment(ctx, owner, repo, 9, &library.PullRequestComment{
				Body: library.Ptr("b"), CommitID: library.Ptr("6dcb09b5b57875f334f61aebed695e2e4193db5e"), Path: library.Ptr("a.go"), Line: library.Ptr(7), Side: library.Ptr("RIGHT"),
			})
			return err
		}},
		{"close_issue", `{"owner":"octocat","repo":"hello","number":7,"state_reason":"duplicate"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.Issues.Get(ctx, owner, repo, 7); err != nil {
				return err
			}
			_, _, err := c.Issues.Edit(ctx, owner, repo, 7, &library.IssueRequest{State: library.Ptr("closed"), StateReason: library.Ptr("duplicate")})
			return err
		}},
		{"create_branch", `{"owner":"octocat","repo":"hello","branch":"fix","base":"a/b#%"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			ref, _, err := c.Git.GetRef(ctx, owner, repo, "heads/a/b#%")
			if err != nil {
				return err
			}
			_, _, err = c.Git.CreateRef(ctx, owner, repo, library.CreateRef{Ref: "refs/heads/fix", SHA: ref.GetObject().GetSHA()})
			return err
		}},
		{"create_pr", `{"owner":"octocat","repo":"hello","title":"t","head":"octocat:fix","base":"trunk","body":"b"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			_, _, err := c.PullRequests.Create(ctx, owner, repo, &library.NewPullRequest{
				Title: library.Ptr("t"), Head: library.Ptr("octocat:fix"), Base: library.Ptr("trunk"), Body: library.Ptr("b"), Draft: library.Ptr(false),
			})
			return err
		}},
		{"merge_pr", `{"owner":"octocat","repo":"hello","number":9,"sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e","base":"trunk","merge_method":"rebase","commit_title":"t","commit_message":"m"}`, action.KindAPIKey, func(ctx context.Context, c *library.Client) error {
			if _, _, err := c.PullRequests.Get(ctx, owner, repo, 9); err != nil {
				return err
			}
			_, _, err := c.PullRequests.Merge(ctx, owner, repo, 9, "m", &library.PullRequestOptions{CommitTitle: "t", SHA: "6dcb09b5b57875f334f61aebed695e2e4193db5e", MergeMethod: "rebase"})
			return err
		}},
	} {
		ours, theirs := newGitHub(t, answers), newGitHub(t, answers)
		if err := ours.run(t, test.kind, test.action, test.params); err != nil {
			t.Errorf("%s: %v", test.action, err)
		}
		base := theirs.URL + "/"
		client, err := library.NewClient(library.WithAuthToken(gitHubToken), library.WithURLs(&base, nil), library.WithHTTPClient(&http.Client{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := test.ask(t.Context(), client); err != nil {
			t.Errorf("%s: the library: %v", test.action, err)
		}
		if diff := cmp.Diff(theirs.asked, ours.asked); diff != "" {
			t.Errorf("%s (-library +ours):\n%s", test.action, diff)
		}
	}
}

func comment(ctx context.Context, c *library.Client, number int) error {
	_, _, err := c.Issues.CreateComment(ctx, "octocat", "hello", number, &library.IssueComment{Body: library.Ptr("b")})
	return err
}

const gitHubToken = "ghp_canary0123456789abcdefghijklmnopqrst"

// What GitHub answers, as far as either reads it.
const (
	repoJSON   = `{"id":1,"name":"hello","full_name":"octocat/hello","owner":{"login":"octocat","id":2},"default_branch":"trunk","html_url":"https://github.com/octocat/hello"}`
	issueJSON  = `{"id":1,"number":7,"title":"It is broken","user":{"login":"octocat"},"state":"open","body":"","html_url":"https://github.com/octocat/hello/issues/7"}`
	pullJSON   = `{"id":2,"number":9,"title":"Mend it","state":"open","merged":false,"mergeable":true,"head":{"ref":"fix","sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e"},"base":{"ref":"trunk","sha":"c3","repo":` + repoJSON + `},"html_url":"https://github.com/octocat/hello/pull/9"}`
	refJSON    = `{"ref":"refs/heads/trunk","object":{"type":"commit","sha":"aa218f56b14c9653891f9e74264a383fa43fefbd"}}`
	postedJSON = `{"id":14,"user":{"login":"octocat"},"body":"x","html_url":"https://github.com/octocat/hello/issues/7#issuecomment-14"}`
)

// gitHub answers as GitHub does, by method and path, and records each request
// without what may differ: the form of the answer and how the body is written.
type gitHub struct {
	*httptest.Server
	mu    sync.Mutex
	asked []gitHubRequest
}

type gitHubRequest struct {
	Line, Authorization, ContentType, Version string
	Body                                      any
}

func newGitHub(t *testing.T, answers map[string]string) *gitHub {
	g := &gitHub{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := gitHubRequest{
			Line: r.Method + " " + r.URL.RequestURI(), Authorization: r.Header.Get("Authorization"),
			ContentType: r.Header.Get("Content-Type"), Version: r.Header.Get("X-Github-Api-Version"),
		}
		if err := json.NewDecoder(r.Body).Decode(&got.Body); err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", got.Line, err)
		}
		g.mu.Lock()
		g.asked = append(g.asked, got)
		g.mu.Unlock()
		body, ok := answers[r.Method+" "+r.URL.Path]
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		switch {
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(g.Close)
	return g
}

// run has the module run an action on the server.
func (g *gitHub) run(t *testing.T, kind action.IntegrationKind, name, params string) error {
	t.Helper()
	base, err := url.Parse(g.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{})
	t.Cleanup(pool.Close)
	for _, a := range github.Module().Actions {
		if a.Name == name {
			_, err = a.Run(t.Context(), &sources.Conn{Kind: kind, Token: gitHubToken, HTTP: pool.Client(t.Name(), base, gitHubToken)}, json.RawMessage(params))
			return err
		}
	}
	t.Fatalf("there is no action %s", name)
	return nil
}

// TestTheLibraryTakesTheSameSignatures has GitHub's Go library check signatures
// of deliveries.
func TestTheLibraryTakesTheSameSignatures(t *testing.T) {
	const key, hello = "It's a Secret to Everybody", "Hello, World!" // and what GitHub's documentation says of it
	const published = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	for name, test := range map[string]struct{ signature, body, key string }{
		"as published":      {published, hello, key},
		"empty":             {"", hello, key},
		"two in one":        {published + "," + published, hello, key},
		"no prefix":         {published[len("sha256="):], hello, key},
		"of another body":   {published, hello + " ", key},
		"of another secret": {published, hello, "other"},
	} {
		d := &event.Delivery{Header: http.Header{"X-Hub-Signature-256": {test.signature}}, Body: []byte(test.body)}
		ours := github.Triggers().Webhook.Verify(d, [][]byte{[]byte(test.key)}, time.Time{}, 0)
		theirs := library.ValidateSignature(test.signature, d.Body, []byte(test.key))
		if good := name == "as published"; (ours == nil) != good || (theirs == nil) != good {
			t.Errorf("%s: %v, and the library says %v", name, ours, theirs)
		}
	}
}
