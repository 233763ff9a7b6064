package github_test

import "strings"

// Answers in the form that GitHub gives them, with members that nobody reads.
const (
	userJSON = `{"login":"octocat","id":583231,"node_id":"MDQ6VXNlcjU4MzIzMQ==","url":"https://api.github.com/users/octocat","type":"User","site_admin":false}`
	repoJSON = `{"id":1296269,"node_id":"R_kgDOABPHjQ","name":"hello","full_name":"octocat/hello","owner":` + userJSON + `,"private":false,
		"html_url":"https://github.com/octocat/hello","description":"A first one","fork":false,"url":"https://api.github.com/repos/octocat/hello",
		"pushed_at":"2026-10-02T08:00:00Z","language":null,"has_issues":true,"archived":false,"disabled":false,"open_issues_count":3,"visibility":"public",
		"default_branch":"trunk","permissions":{"admin":false,"push":true,"pull":true},"allow_squash_merge":true,"allow_merge_commit":false,"allow_rebase_merge":true}`
	issueJSON = `{"id":1,"node_id":"I_1","number":7,"title":"It is broken","user":` + userJSON + `,"labels":[{"id":208045946,"name":"bug","color":"f29513","default":true},"mere text"],
		"state":"open","state_reason":null,"locked":false,"assignee":` + userJSON + `,"assignees":[` + userJSON + `],"milestone":{"id":1,"number":1,"title":"v1.0"},"comments":2,
		"created_at":"2026-10-01T08:00:00Z","updated_at":"2026-10-02T08:00:00Z","closed_at":null,"author_association":"OWNER","body":"Since Monday.",
		"html_url":"https://github.com/octocat/hello/issues/7","url":"https://api.github.com/repos/octocat/hello/issues/7","performed_via_github_app":null}`
	pullJSON = `{"id":2,"node_id":"PR_2","number":9,"title":"Mend it","user":` + userJSON + `,"state":"open","locked":false,"body":null,"draft":false,"labels":[],"assignees":[],
		"requested_reviewers":[{"login":"hubot","id":2}],"head":{"label":"octocat:fix/it","ref":"fix/it","sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e","repo":null},
		"base":{"label":"octocat:trunk","ref":"trunk","sha":"c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c","repo":` + repoJSON + `},
		"merged":false,"mergeable":true,"mergeable_state":"clean","merged_by":null,"merge_commit_sha":"e5bd3914e2e596debea16f433f57875b5b90bcd6",
		"comments":1,"review_comments":1,"commits":2,"additions":12,"deletions":3,"changed_files":2,
		"created_at":"2026-10-01T08:00:00Z","updated_at":"2026-10-02T08:00:00Z","closed_at":null,"merged_at":null,
		"html_url":"https://github.com/octocat/hello/pull/9","diff_url":"https://github.com/octocat/hello/pull/9.diff"}`
	filesJSON = `[{"sha":"bbcd538c8e72b8c175046e27cc8f907076331401","filename":"login.go","status":"modified","additions":12,"deletions":1,"changes":13,
		"blob_url":"https://github.com/octocat/hello/blob/6d/login.go","patch":"@@ -1,2 +1,13 @@ package login\n-func a() {}\n+func ä() {}"},
		{"sha":"c","filename":"new.bin","previous_filename":"old.bin","status":"renamed","additions":0,"deletions":2,"changes":2}]`
	commentJSON = `[{"id":11,"node_id":"IC_11","user":` + userJSON + `,"body":"Looks good.","created_at":"2026-10-02T08:00:00Z","updated_at":"2026-10-02T08:00:00Z","author_association":"MEMBER","html_url":"https://github.com/octocat/hello/pull/9#issuecomment-11"}]`
	lineJSON    = `[{"id":12,"pull_request_review_id":13,"user":null,"body":"Why?","path":"login.go","line":2,"side":"RIGHT","commit_id":"6dcb09b5b57875f334f61aebed695e2e4193db5e","diff_hunk":"@@","position":1,"created_at":"2026-10-02T08:00:00Z","html_url":"https://github.com/octocat/hello/pull/9#discussion_r12"}]`
	reviewJSON  = `[{"id":13,"user":` + userJSON + `,"body":"","state":"APPROVED","commit_id":"6dcb09b5b57875f334f61aebed695e2e4193db5e","submitted_at":"2026-10-02T08:00:00Z","html_url":"https://github.com/octocat/hello/pull/9#pullrequestreview-13"}]`
	branchJSON  = `[{"name":"trunk","commit":{"sha":"c5b97d5ae6c19d5c5df71a34c7fbeeda2479ccbc","url":"https://api.github.com/repos/octocat/hello/commits/c5"},"protected":true}]`
	refJSON     = `{"ref":"refs/heads/trunk","node_id":"REF_1","url":"https://api.github.com/repos/octocat/hello/git/refs/heads/trunk","object":{"type":"commit","sha":"aa218f56b14c9653891f9e74264a383fa43fefbd","url":"https://api.github.com/x"}}`
	postedJSON  = `{"id":14,"user":` + userJSON + `,"body":"x","created_at":"2026-10-02T08:00:00Z","html_url":"https://github.com/octocat/hello/issues/7#issuecomment-14"}`
	mergedJSON  = `{"sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e","merged":true,"message":"Pull Request successfully merged"}`
)

// asPull makes an issue one that stands for a pull request.
func asPull(issue string) string {
	return strings.Replace(issue, `"id":1,`, `"id":1,"pull_request":{"url":"https://api.github.com/repos/octocat/hello/pulls/7"},`, 1)
}
