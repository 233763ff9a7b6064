package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

type pullsParams struct {
	repository
	State string `json:"state"`
	Head  string `json:"head"`
	Base  string `json:"base"`
	Sort  string `json:"sort"`
	Order string `json:"direction"`
	pageParams
}

func listPulls() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "list_prs", Title: "List pull requests", Risk: action.RiskRead, Idempotent: true,
		Description: "Lists a repository's pull requests, newest first by default. Bodies are truncated; get_pr returns them in full.",
		Input: input(2, ownerParam, repoParam,
			`"state":{"type":"string","enum":["open","closed","all"],"default":"open","description":"State. Default: open. Merged pull requests are closed and have merged_at."}`,
			`"head":{"type":"string","maxLength":350,"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}:.+$","description":"Only pull requests from this branch, with its owner: octocat:my-branch."}`,
			`"base":{"type":"string","maxLength":240,"description":"Only pull requests into this branch."}`,
			`"sort":{"type":"string","enum":["created","updated","popularity","long-running"],"default":"created"}`,
			`"direction":{"type":"string","enum":["asc","desc"],"default":"desc","description":"Order. Default: newest or most first."}`,
			limitParam, cursorParam),
		Summarize: summary(func(p pullsParams) string { return "List pull requests of " + p.String() }),
		Examples: []sources.Example{
			{Note: "The pull requests of my branch", Params: []byte(`{"owner":"octocat","repo":"hello-world","head":"octocat:new-topic"}`)},
		},
		Run: handler(func(ctx context.Context, c *sources.Conn, p pullsParams) (any, error) {
			if p.Order == "" {
				p.Order = "desc" // GitHub's own default depends on sort
			}
			r := request{path: p.path("pulls"), about: p.repository.about(), query: queryOf(
				"state", p.State, "head", p.Head, "base", p.Base, "sort", p.Sort, "direction", p.Order)}
			return list(ctx, c, p.pageParams, r, func(l *pull) bool {
				l.truncateBody(maxExcerpt)
				l.MergeCommit = ""
				return true
			})
		}),
	}
}

// Limits of a diff, in bytes.
const (
	defaultPatchBytes = 20_000
	maxPatchPerFile   = 8_000
)

// file is a file in a diff.
type file struct {
	Name      string `json:"filename"`
	Was       string `json:"previous_filename,omitempty"`
	Status    string `json:"status"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Patch     string `json:"patch,omitempty"`
	Cut       bool   `json:"_truncated,omitempty"`
}

type pullParams struct {
	numberedParams
	Patches *sources.Integer `json:"patch_bytes"`
	pageParams
}

func getPull() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "get_pr", Title: "Get a pull request", Risk: action.RiskRead, Idempotent: true,
		Description: "Returns a pull request with its text, whether it can be merged, head.sha (for merge_pr) and a summary of its diff: the files with the numbers of added and deleted lines, and patches up to patch_bytes.",
		Input: input(3, ownerParam, repoParam, pullParam,
			`"patch_bytes":{"type":"integer","minimum":0,"maximum":200000,"default":20000,"description":"Maximum size of all patches together, in bytes; 0 for none."}`,
			`"limit":{"type":"integer","minimum":1,"maximum":100,"default":30,"description":"Maximum number of files. Default: 30, or that of the page before."}`,
			`"cursor":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,1000}$","description":"diff.next_cursor of the previous result, for more files."}`),
		Summarize: summary(func(p numberedParams) string { return "Get pull request " + p.String() }),
		Examples: []sources.Example{
			{Note: "With the start of its diff", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347}`)},
			{Note: "Only its state", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"patch_bytes":0,"limit":1}`)},
		},
		Run: handler(runGetPull),
	}
}

func runGetPull(ctx context.Context, c *sources.Conn, p pullParams) (any, error) {
	var result struct {
		pull
		Diff page[file] `json:"diff"`
	}
	var err error
	if result.pull, err = p.pull(ctx, c, false); err != nil {
		return nil, err
	}
	result.truncateBody(maxBody)
	room := defaultPatchBytes
	if p.Patches != nil {
		room = int(*p.Patches)
	}
	result.Diff, err = list(ctx, c, p.pageParams, request{path: p.path("pulls", p.Number.String(), "files"), about: p.numberedParams.about("pull request")}, func(f *file) bool {
		f.Patch, f.Cut = truncateText(f.Patch, min(room, maxPatchPerFile))
		room -= len(f.Patch)
		return true
	})
	return result, err
}

// pull fetches the pull request. noRename is true before a write.
func (n numberedParams) pull(ctx context.Context, c *sources.Conn, fixed bool) (pull, error) {
	var found pull
	_, err := request{path: n.path("pulls", n.Number.String()), about: n.about("pull request"), noRename: fixed}.send(ctx, c, &found)
	return found, err
}

type newPullParams struct {
	repository
	Title string `json:"title"`
	Head  string `json:"head"`
	Base  string `json:"base"`
	Body  string `json:"body"`
	Draft bool   `json:"draft"`
}

func createPull() sources.ModuleAction {
	return guardedAction(sources.ModuleAction{
		Name: "create_pr", Title: "Open a pull request", Risk: action.RiskWrite, AsUser: true,
		Description: "Opens a pull request to merge one branch into another. An admin can exclude base branches.",
		Input: input(5, ownerParam, repoParam, titleParam,
			`"head":{"type":"string","minLength":1,"maxLength":350,"description":"The pushed branch with the changes: my-branch, or octocat:my-branch in a fork."}`,
			`"base":{"type":"string","minLength":1,"maxLength":240,"description":"The branch to merge into, often the default branch; see get_repo."}`,
			`"body":`+bodyParam,
			`"draft":{"type":"boolean","default":false,"description":"Whether it is a draft, not ready for review."}`),
		Summarize: summary(func(p newPullParams) string {
			kind := "pull request"
			if p.Draft {
				kind = "draft pull request"
			}
			return fmt.Sprintf("Open %s in %s, %q into %q: %q", kind, p.repository, p.Head, p.Base, p.Title)
		}),
		Examples: []sources.Example{{Note: "A fix", Params: []byte(`{"owner":"octocat","repo":"hello-world","title":"Refuse empty passwords","head":"fix/login","base":"main","body":"Fixes #1347."}`)}},
	}, runCreatePull)
}

func (p newPullParams) check(rules writeRules) error {
	err := p.repository.check(rules)
	if err == nil {
		_, err = rules.checkBase(p.Base)
	}
	if err == nil {
		_, err = headName(p.Head)
	}
	return err
}

func (p newPullParams) production(rules writeRules) string { return rules.productionBase(p.Base) }

func runCreatePull(ctx context.Context, c *sources.Conn, p newPullParams) (any, error) {
	base, err := branchName("base", p.Base)
	if err != nil {
		return nil, err
	}
	head, err := headName(p.Head)
	if err != nil {
		return nil, err
	}
	return p.post(ctx, c, p.repository.about(), struct {
		Title string `json:"title"`
		Head  string `json:"head"`
		Base  string `json:"base"`
		Body  string `json:"body,omitempty"`
		Draft bool   `json:"draft"`
	}{p.Title, head, base, p.Body, p.Draft}, "pulls")
}

// headName validates a head branch, which can have an owner prefix.
func headName(head string) (string, error) {
	owner, name, other := strings.Cut(head, ":")
	if !other {
		return branchName("head", head)
	}
	if len(owner) > 100 || strings.Trim(owner, alphanumeric+"_-") != "" || strings.IndexAny(owner, alphanumeric) != 0 {
		return "", &sources.Refusal{Code: "invalid_branch", Message: "The param /head has no user or organization before its colon; write octocat:my-branch, or the branch alone."}
	}
	name, err := branchName("head", name)
	return owner + ":" + name, err
}

type mergeParams struct {
	numberedParams
	SHA     string `json:"sha"`
	Base    string `json:"base"`
	Method  string `json:"merge_method"`
	Title   string `json:"commit_title"`
	Message string `json:"commit_message"`
}

func mergePull() sources.ModuleAction {
	return guardedAction(sources.ModuleAction{
		Name: "merge_pr", Title: "Merge a pull request", Risk: action.RiskDanger,
		Description: "Merges a pull request if its head is still the commit sha and its base is still the branch base. Take them from head.sha and base.ref of get_pr after you read the diff. If one of them changes, nothing is merged and a new approval is needed. An admin can exclude base branches.",
		Input: input(5, ownerParam, repoParam, pullParam,
			`"sha":{"type":"string","pattern":"^[0-9a-f]{40}$","description":"The full ID of the head commit to merge: head.sha of get_pr."}`,
			`"base":{"type":"string","minLength":1,"maxLength":240,"description":"The base branch: base.ref of get_pr."}`,
			`"merge_method":{"type":"string","enum":["merge","squash","rebase"],"default":"merge","description":"Merge method; get_repo returns the allowed ones."}`,
			`"commit_title":{"type":"string","minLength":1,"maxLength":256,"description":"The title of the commit. Default: GitHub's."}`,
			`"commit_message":{"type":"string","maxLength":65536,"description":"The body of the commit message. Default: GitHub's."}`),
		Summarize: summary(func(p mergeParams) string {
			return fmt.Sprintf("Merge pull request %s at commit %s into %q (%s)", p.numberedParams, p.SHA[:min(len(p.SHA), 10)], p.Base, p.method())
		}),
		Examples: []sources.Example{{Note: "All as one commit", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e","base":"main","merge_method":"squash"}`)}},
	}, runMergePull)
}

func (p mergeParams) check(rules writeRules) error {
	err := p.repository.check(rules)
	if err == nil {
		_, err = rules.checkBase(p.Base)
	}
	return err
}

func (p mergeParams) production(rules writeRules) string { return rules.productionBase(p.Base) }

func (p mergeParams) method() string { return cmp.Or(p.Method, "merge") }

func runMergePull(ctx context.Context, c *sources.Conn, p mergeParams) (any, error) {
	base, err := branchName("base", p.Base)
	if err != nil {
		return nil, err
	}
	// The base can have changed after approval, which does not change the head commit.
	now, err := p.pull(ctx, c, true)
	if err != nil {
		return nil, err
	}
	if now.Base.Ref != base {
		return nil, guardrail("Pull request %s goes into another branch than /base, and nothing was merged; look at it with get_pr, and have it approved again.", p.numberedParams)
	}
	body := map[string]string{"sha": p.SHA, "merge_method": p.method()}
	if p.Title != "" {
		body["commit_title"] = p.Title
	}
	if p.Message != "" {
		body["commit_message"] = p.Message
	}
	var answer struct {
		SHA     string `json:"sha"`
		Merged  *bool  `json:"merged"`
		Message string `json:"message"`
	}
	_, err = request{
		method: http.MethodPut, path: p.path("pulls", p.Number.String(), "merge"), about: p.numberedParams.about("pull request"),
		body: body, noRename: true,
	}.send(ctx, c, &answer)
	switch {
	case err != nil:
		return nil, err
	case answer.Merged == nil:
		return nil, invalidResponse(errors.New("whether it was merged is not told"))
	case !*answer.Merged:
		return nil, &sources.Refusal{
			Code: "not_merged", Status: http.StatusOK, Detail: sources.Printable(answer.Message, 1000),
			Message: fmt.Sprintf("The pull request %s was not merged, as GitHub says; look at its mergeable_state with get_pr.", p.numberedParams),
		}
	}
	return map[string]any{"merged": true, "sha": answer.SHA}, nil
}

// pullCommentParams are those of a comment in the conversation, on a line (Path and Line),
// or in answer to a comment on a line (ReplyTo).
type pullCommentParams struct {
	commentParams
	Path    string          `json:"path"`
	Line    sources.Integer `json:"line"`
	Side    string          `json:"side"`
	SHA     string          `json:"sha"`
	ReplyTo sources.Integer `json:"in_reply_to"`
}

func commentPull() sources.ModuleAction {
	return guardedAction(sources.ModuleAction{
		Name: "comment_pr", Title: "Comment on a pull request", Risk: action.RiskWrite, AsUser: true,
		Description: "Adds a comment to a pull request: to its conversation, to a line of its diff (path and line), or as a reply to a comment on a line (in_reply_to). Returns its URL.",
		Input: input(4, ownerParam, repoParam, pullParam, `"body":`+bodyParam,
			`"path":{"type":"string","minLength":1,"maxLength":4096,"description":"The file to comment on, as in the diff of get_pr; requires line."}`,
			`"line":{"type":"integer","minimum":1,"maximum":2147483647,"description":"The line of the file, which must be in the diff; requires path."}`,
			`"side":{"type":"string","enum":["RIGHT","LEFT"],"default":"RIGHT","description":"RIGHT: the line after the change; LEFT: a deleted line, counted before it."}`,
			`"sha":{"type":"string","pattern":"^[0-9a-f]{40}$","description":"The commit in which you read the line: head.sha of get_pr. Default: the head at the time of the call."}`,
			`"in_reply_to":{"type":"integer","minimum":1,"description":"The ID of a comment on a line, from get_pr_comments; excludes path and line."}`),
		Summarize: summary(func(p pullCommentParams) string {
			switch {
			case p.ReplyTo > 0:
				return fmt.Sprintf("%s (in answer to comment %d)", p.summary("pull request"), p.ReplyTo)
			case p.Path != "":
				return fmt.Sprintf("%s (on line %d of %s, %s)", p.summary("pull request"), p.Line, sources.Printable(strconv.Quote(p.Path), 200), p.side())
			}
			return p.summary("pull request")
		}),
		Examples: []sources.Example{
			commentExample(),
			{Note: "On a line of the diff", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"path":"login.go","line":42,"body":"This accepts an empty password."}`)},
			{Note: "A reply to a comment on a line", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"in_reply_to":10,"body":"Done in the last commit."}`)},
		},
	}, runCommentPull)
}

func (p pullCommentParams) side() string { return cmp.Or(p.Side, "RIGHT") }

// check also refuses combinations that GitHub would understand otherwise.
func (p pullCommentParams) check(rules writeRules) error {
	onLine := p.Path != "" || p.Line > 0
	switch {
	case onLine && (p.Path == "" || p.Line == 0):
		return &sources.Refusal{Code: "invalid_params", Status: http.StatusBadRequest, Message: "A comment on a line needs both /path and /line."}
	case p.ReplyTo > 0 && (onLine || p.Side != "" || p.SHA != ""):
		return &sources.Refusal{Code: "invalid_params", Status: http.StatusBadRequest, Message: "An answer takes its place from /in_reply_to; leave out /path, /line, /side and /sha."}
	case !onLine && (p.Side != "" || p.SHA != ""):
		return &sources.Refusal{Code: "invalid_params", Status: http.StatusBadRequest, Message: "The params /side and /sha belong to a comment on a line; add /path and /line, or leave them out."}
	}
	return p.repository.check(rules)
}

func runCommentPull(ctx context.Context, c *sources.Conn, p pullCommentParams) (any, error) {
	// GitHub has issues and pull requests in one list, so the kind is checked first.
	now, err := p.pull(ctx, c, true)
	if err != nil {
		return nil, err
	}
	number, about := p.Number.String(), p.numberedParams.about("pull request")
	switch {
	case p.ReplyTo > 0:
		return p.post(ctx, c, about, map[string]string{"body": p.Body}, "pulls", number, "comments", p.ReplyTo.String(), "replies")
	case p.Path != "":
		return p.post(ctx, c, about, struct {
			Body string          `json:"body"`
			SHA  string          `json:"commit_id"`
			Path string          `json:"path"`
			Line sources.Integer `json:"line"`
			Side string          `json:"side"`
		}{p.Body, cmp.Or(p.SHA, now.Head.SHA), p.Path, p.Line, p.side()}, "pulls", number, "comments")
	}
	return p.post(ctx, c, about, map[string]string{"body": p.Body}, "issues", number, "comments")
}
