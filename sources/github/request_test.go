package github_test

import (
	"strings"
	"testing"

	"sallyport/sources"
)

func one(body string) []reply     { return []reply{{body: body}} }
func created(body string) []reply { return []reply{{status: 201, body: body}} }

// TestRequests has every action make its requests, which are compared with
// files, as are the answers that agents get.
func TestRequests(t *testing.T) {
	for _, test := range []struct {
		file, action, params string
		replies              map[string][]reply
		kind                 func(*sources.Conn)
	}{
		{file: "list_repos", action: "list_repos", params: `{}`, replies: map[string][]reply{"GET /user/repos": one("[" + repoJSON + "]")}},
		{file: "list_repos_organization", action: "list_repos", params: `{"owner":"octo-org","limit":5}`, replies: map[string][]reply{"GET /orgs/octo-org/repos": one("[" + repoJSON + "]")}},
		{file: "list_repos_user", action: "list_repos", params: `{"owner":"octocat"}`, replies: map[string][]reply{"GET /users/octocat/repos": one("[" + repoJSON + "]")}},
		{
			file: "list_repos_installation", action: "list_repos", params: `{"owner":"OctoCat"}`, kind: app,
			replies: map[string][]reply{"GET /installation/repositories": one(`{"total_count":2,"repositories":[` + repoJSON + `,` + strings.ReplaceAll(repoJSON, "octocat", "hubot") + `]}`)},
		},
		{file: "get_repo", action: "get_repo", params: `{"owner":"octocat","repo":"hello"}`, replies: map[string][]reply{"GET /repos/octocat/hello": one(repoJSON)}},
		{
			file: "list_issues", action: "list_issues",
			params:  `{"owner":"octocat","repo":"hello","state":"all","labels":["bug","good first issue"],"assignee":"none","creator":"octocat","since":"2026-10-01T00:00:00Z","sort":"updated","direction":"asc","limit":2}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/issues": one("[" + issueJSON + "," + asPull(issueJSON) + "]")},
		},
		{file: "get_issue", action: "get_issue", params: `{"owner":"octocat","repo":"hello","number":7.0}`, replies: map[string][]reply{"GET /repos/octocat/hello/issues/7": one(issueJSON)}},
		{
			file: "get_issue_comments", action: "get_issue", params: `{"owner":"octocat","repo":"hello","number":7,"comments":true,"limit":10}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/issues/7": one(issueJSON), "GET /repos/octocat/hello/issues/7/comments": one(commentJSON)},
		},
		{
			file: "list_prs", action: "list_prs", params: `{"owner":"octocat","repo":"hello","state":"closed","head":"octocat:fix/it","base":"trunk","sort":"popularity"}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/pulls": one("[" + pullJSON + "]")},
		},
		{
			file: "get_pr", action: "get_pr", params: `{"owner":"octocat","repo":"hello","number":9,"patch_bytes":49}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/pulls/9": one(pullJSON), "GET /repos/octocat/hello/pulls/9/files": one(filesJSON)},
		},
		{
			file: "get_pr_comments", action: "get_pr_comments", params: `{"owner":"octocat","repo":"hello","number":9}`,
			replies: map[string][]reply{
				"GET /repos/octocat/hello/issues/9/comments": one(commentJSON), "GET /repos/octocat/hello/pulls/9/comments": one(lineJSON),
				"GET /repos/octocat/hello/pulls/9/reviews": one(reviewJSON),
			},
		},
		{file: "list_branches", action: "list_branches", params: `{"owner":"octocat","repo":"hello","protected":true}`, replies: map[string][]reply{"GET /repos/octocat/hello/branches": one(branchJSON)}},
		{
			file: "create_issue", action: "create_issue",
			params:  `{"owner":"octocat","repo":"hello","title":"It is broken","body":"Since <Monday> & \"before\".","labels":["bug","due, urgent"],"assignees":["octocat"],"milestone":1}`,
			replies: map[string][]reply{"POST /repos/octocat/hello/issues": created(issueJSON)},
		},
		{file: "comment_issue", action: "comment_issue", params: `{"owner":"octocat","repo":"hello","number":7,"body":"Seen here, too."}`, replies: map[string][]reply{"GET /repos/octocat/hello/issues/7": one(issueJSON), "POST /repos/octocat/hello/issues/7/comments": created(postedJSON)}},
		{
			file: "close_issue", action: "close_issue", params: `{"owner":"octocat","repo":"hello","number":7,"state_reason":"not_planned"}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/issues/7": one(issueJSON), "PATCH /repos/octocat/hello/issues/7": one(issueJSON)},
		},
		{
			file: "create_branch", action: "create_branch", params: `{"owner":"octocat","repo":"hello","branch":"fix/it"}`,
			replies: map[string][]reply{"GET /repos/octocat/hello": one(repoJSON), "GET /repos/octocat/hello/git/ref/heads/trunk": one(refJSON), "POST /repos/octocat/hello/git/refs": created(refJSON)},
		},
		{
			file: "create_branch_base", action: "create_branch", params: `{"owner":"octocat","repo":"hello","branch":"refs/heads/fix/#1","base":"release/1%2"}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/git/ref/heads/release/1%2": one(refJSON), "POST /repos/octocat/hello/git/refs": created(refJSON)},
		},
		{
			file: "create_branch_sha", action: "create_branch", params: `{"owner":"octocat","repo":"hello","branch":"fix","sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e"}`,
			replies: map[string][]reply{"POST /repos/octocat/hello/git/refs": created(refJSON)},
		},
		{
			file: "create_pr", action: "create_pr", params: `{"owner":"octocat","repo":"hello","title":"Mend it","head":"hubot:fix/it","base":"trunk","body":"Fixes #7.","draft":true}`,
			replies: map[string][]reply{"POST /repos/octocat/hello/pulls": created(pullJSON)},
		},
		{file: "comment_pr", action: "comment_pr", params: `{"owner":"octocat","repo":"hello","number":9,"body":"Ready."}`, replies: map[string][]reply{"GET /repos/octocat/hello/pulls/9": one(pullJSON), "POST /repos/octocat/hello/issues/9/comments": created(postedJSON)}},
		{
			file: "comment_pr_line", action: "comment_pr", params: `{"owner":"octocat","repo":"hello","number":9,"body":"Why?","path":"a/b.go","line":12}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/pulls/9": one(pullJSON), "POST /repos/octocat/hello/pulls/9/comments": created(postedJSON)},
		},
		{
			file: "comment_pr_deleted_line", action: "comment_pr",
			params:  `{"owner":"octocat","repo":"hello","number":9,"body":"Why?","path":"b.go","line":3,"side":"LEFT","sha":"0123456789012345678901234567890123456789"}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/pulls/9": one(pullJSON), "POST /repos/octocat/hello/pulls/9/comments": created(postedJSON)},
		},
		{
			file: "comment_pr_reply", action: "comment_pr", params: `{"owner":"octocat","repo":"hello","number":9,"body":"Done.","in_reply_to":31}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/pulls/9": one(pullJSON), "POST /repos/octocat/hello/pulls/9/comments/31/replies": created(postedJSON)},
		},
		{
			file: "merge_pr", action: "merge_pr",
			params:  `{"owner":"octocat","repo":"hello","number":9,"sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e","base":"trunk","merge_method":"squash","commit_title":"Mend it (#9)","commit_message":"For #7."}`,
			replies: map[string][]reply{"GET /repos/octocat/hello/pulls/9": one(pullJSON), "PUT /repos/octocat/hello/pulls/9/merge": one(mergedJSON)},
		},
	} {
		t.Run(test.file, func(t *testing.T) {
			s := newServer(t, test.replies)
			c := s.conn(t)
			if test.kind != nil {
				test.kind(c)
			}
			result, err := run(t, c, test.action, test.params)
			if err != nil {
				t.Fatal(err)
			}
			summary := find(t, test.action).Summarize([]byte(test.params))
			golden(t, "requests/"+test.file+".txt", summary+"\n\n"+strings.Join(s.requests(), "\n")+"\n"+indent(result)+"\n")
		})
	}
}
