package github

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

type issuesParams struct {
	repository
	State    string   `json:"state"`
	Labels   []string `json:"labels"`
	Assignee string   `json:"assignee"`
	Creator  string   `json:"creator"`
	Since    string   `json:"since"`
	Sort     string   `json:"sort"`
	Order    string   `json:"direction"`
	pageParams
}

func listIssues() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "list_issues", Title: "List issues", Risk: action.RiskRead, Idempotent: true,
		Description: "Lists a repository's issues without pull requests, newest first by default. Bodies are truncated; get_issue returns them in full.",
		Input: input(2, ownerParam, repoParam,
			`"state":{"type":"string","enum":["open","closed","all"],"default":"open","description":"State. Default: open."}`,
			`"labels":{"type":"array","maxItems":20,"items":{"type":"string","minLength":1,"maxLength":100,"pattern":"^[^,]+$"},"description":"Only issues that have all of these labels."}`,
			`"assignee":{"type":"string","maxLength":100,"description":"A login; none for unassigned issues, * for assigned ones."}`,
			`"creator":{"type":"string","maxLength":100,"description":"The login of the issue's author."}`,
			`"since":{"type":"string","maxLength":40,"pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,}(Z|[+-][0-9]{2}:[0-9]{2})$","description":"Only issues updated since this time, such as 2026-01-31T00:00:00Z."}`,
			`"sort":{"type":"string","enum":["created","updated","comments"],"default":"created"}`,
			`"direction":{"type":"string","enum":["asc","desc"],"default":"desc"}`,
			limitParam, cursorParam),
		Summarize: summary(func(p issuesParams) string { return "List issues of " + p.String() }),
		Examples: []sources.Example{
			{Note: "Unassigned open bugs", Params: []byte(`{"owner":"octocat","repo":"hello-world","labels":["bug"],"assignee":"none"}`)},
			{Note: "Recent activity", Params: []byte(`{"owner":"octocat","repo":"hello-world","state":"all","sort":"updated","limit":10}`)},
		},
		Run: handler(func(ctx context.Context, c *sources.Conn, p issuesParams) (any, error) {
			r := request{path: p.path("issues"), about: p.repository.about(), query: queryOf(
				"state", p.State, "labels", strings.Join(p.Labels, ","), "assignee", p.Assignee, "creator", p.Creator,
				"since", p.Since, "sort", p.Sort, "direction", p.Order)}
			return list(ctx, c, p.pageParams, r, func(i *issue) bool {
				i.truncateBody(maxExcerpt)
				return i.PullRequest == nil
			})
		}),
	}
}

type issueParams struct {
	numberedParams
	WithComments bool `json:"comments"`
	pageParams
}

func getIssue() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "get_issue", Title: "Get an issue", Risk: action.RiskRead, Idempotent: true,
		Description: "Returns an issue with its text and, with comments, its conversation, oldest first. If is_pull_request is true, get_pr returns more.",
		Input: input(3, ownerParam, repoParam, issueParam,
			`"comments":{"type":"boolean","default":false,"description":"Whether to return the comments."}`,
			`"limit":{"type":"integer","minimum":1,"maximum":100,"default":30,"description":"Maximum number of comments. Default: 30, or that of the page before."}`,
			`"cursor":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,1000}$","description":"conversation.next_cursor of the previous result, for more comments."}`),
		Summarize: summary(func(p numberedParams) string { return "Get issue " + p.String() }),
		Examples: []sources.Example{
			{Note: "One issue", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347}`)},
			{Note: "With its comments", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"comments":true}`)},
		},
		Run: handler(runGetIssue),
	}
}

func runGetIssue(ctx context.Context, c *sources.Conn, p issueParams) (any, error) {
	var result struct {
		issue
		Conversation *page[comment] `json:"conversation,omitempty"`
	}
	var err error
	if result.issue, err = p.issue(ctx, c, false); err != nil || !p.WithComments && p.Cursor == "" {
		return result, err
	}
	found, err := p.listComments(ctx, c, p.pageParams, p.commentsPath(), "issue")
	result.Conversation = &found
	return result, err
}

// issue fetches the issue. noRename is true before a write.
func (n numberedParams) issue(ctx context.Context, c *sources.Conn, fixed bool) (issue, error) {
	var found issue
	_, err := request{path: n.path("issues", n.Number.String()), about: n.about("issue"), noRename: fixed}.send(ctx, c, &found)
	found.truncateBody(maxBody)
	found.IsPull, found.PullRequest = found.PullRequest != nil, nil
	return found, err
}

// rejectPull rejects a pull request, because GitHub's issue endpoints also
// accept pull requests.
func (n numberedParams) rejectPull(ctx context.Context, c *sources.Conn) error {
	found, err := n.issue(ctx, c, true)
	if err == nil && found.IsPull {
		return guardrail("%s is a pull request, which this action is not for, so nothing was done; give the /number of an issue.", n)
	}
	return err
}

func (n numberedParams) about(kind string) target {
	lists := map[string]string{"issue": "list_issues", "pull request": "list_prs"}
	return target{repository: n.repository, description: kind + " " + n.String(), hint: "check owner, repo and number with " + lists[kind]}
}

type newIssueParams struct {
	repository
	Title     string          `json:"title"`
	Body      string          `json:"body"`
	Labels    []string        `json:"labels"`
	Assignees []string        `json:"assignees"`
	Milestone sources.Integer `json:"milestone"`
}

func createIssue() sources.ModuleAction {
	type wire struct {
		Title     string          `json:"title"`
		Body      string          `json:"body,omitempty"`
		Labels    []string        `json:"labels,omitempty"`
		Assignees []string        `json:"assignees,omitempty"`
		Milestone sources.Integer `json:"milestone,omitempty"`
	}
	return guardedAction(sources.ModuleAction{
		Name: "create_issue", Title: "Create an issue", Risk: action.RiskWrite, AsUser: true,
		Description: "Opens an issue in a repository. First check with list_issues that it does not exist yet.",
		Input: input(3, ownerParam, repoParam, titleParam, `"body":`+bodyParam,
			`"labels":{"type":"array","maxItems":100,"items":{"type":"string","minLength":1,"maxLength":100},"description":"Names of labels."}`,
			`"assignees":{"type":"array","maxItems":10,"items":{"type":"string","minLength":1,"maxLength":100},"description":"Logins of people to assign; they are notified."}`,
			`"milestone":{"type":"integer","minimum":1,"maximum":2147483647,"description":"The number of a milestone."}`),
		Summarize: summary(func(p newIssueParams) string {
			return fmt.Sprintf("Create issue in %s: %q%s%s", p.repository, p.Title, quoteList(", labels ", p.Labels), quoteList(", assigned to ", p.Assignees))
		}),
		Examples: []sources.Example{{Note: "A bug", Params: []byte(`{"owner":"octocat","repo":"hello-world","title":"Login fails with an empty password","body":"Steps: …","labels":["bug"]}`)}},
	}, func(ctx context.Context, c *sources.Conn, p newIssueParams) (any, error) {
		return p.post(ctx, c, p.repository.about(), wire{p.Title, p.Body, p.Labels, p.Assignees, p.Milestone}, "issues")
	})
}

// writeResult is the result of a write.
type writeResult struct {
	ID      int64  `json:"id,omitempty"`
	Number  int    `json:"number,omitempty"`
	Title   string `json:"title,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"state_reason,omitempty"`
	Draft   bool   `json:"draft,omitempty"`
	URL     string `json:"html_url"`
	Message string `json:"message,omitempty"`
}

// post creates an object in the repository.
func (r repository) post(ctx context.Context, c *sources.Conn, at target, body any, below ...string) (writeResult, error) {
	var m writeResult
	_, err := request{method: http.MethodPost, path: r.path(below...), body: body, about: at, noRename: true}.send(ctx, c, &m)
	return m, err
}

// quoteList formats a list for a summary, or returns "" for an empty one.
func quoteList(before string, list []string) string {
	quoted := ""
	for _, one := range list {
		quoted += before + strconv.Quote(one)
		before = ", "
	}
	return quoted
}

type pullCommentsParams struct {
	numberedParams
	List string `json:"list"`
	pageParams
}

// pullComments is the result of get_pr_comments. Lists that were not requested
// are nil.
type pullComments struct {
	Conversation   *page[comment] `json:"conversation,omitempty"`
	ReviewComments *page[comment] `json:"review_comments,omitempty"`
	Reviews        *page[comment] `json:"reviews,omitempty"`
}

func getPullComments() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "get_pr_comments", Title: "Get the comments of a pull request", Risk: action.RiskRead, Idempotent: true,
		Description: "Returns the discussion of a pull request, oldest first, in three lists: conversation (general comments), review_comments (on lines of the diff) and reviews (approvals and requested changes). Each has its own next_cursor; pass it together with list.",
		Input: input(3, ownerParam, repoParam, pullParam,
			`"list":{"type":"string","enum":["conversation","review_comments","reviews"],"description":"Only this list. Default: all three."}`,
			limitParam, cursorParam),
		Summarize: summary(func(p numberedParams) string { return "Get the comments of pull request " + p.String() }),
		Examples: []sources.Example{
			{Note: "All that was said", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347}`)},
			{Note: "Who approved", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"list":"reviews"}`)},
		},
		Run: handler(runGetPullComments),
	}
}

func runGetPullComments(ctx context.Context, c *sources.Conn, p pullCommentsParams) (any, error) {
	if p.Cursor != "" && p.List == "" {
		return nil, &sources.Refusal{Code: "invalid_cursor", Message: "The param /cursor goes with /list: say of which of the three lists it is."}
	}
	var result pullComments
	for _, l := range []struct {
		name string
		path []string
		into **page[comment]
	}{
		// The conversation is that of an issue. Reviews come first, because that
		// request fails for an issue.
		{"reviews", p.path("pulls", p.Number.String(), "reviews"), &result.Reviews},
		{"review_comments", p.path("pulls", p.Number.String(), "comments"), &result.ReviewComments},
		{"conversation", p.commentsPath(), &result.Conversation},
	} {
		if p.List != "" && p.List != l.name {
			continue
		}
		found, err := p.listComments(ctx, c, p.pageParams, l.path, "pull request")
		if err != nil {
			return nil, err
		}
		*l.into = &found
	}
	return result, nil
}

// commentsPath returns the path of the conversation of an issue or a pull
// request.
func (n numberedParams) commentsPath() []string {
	return n.path("issues", n.Number.String(), "comments")
}

// listComments reads one list of comments.
func (n numberedParams) listComments(ctx context.Context, c *sources.Conn, p pageParams, path []string, kind string) (page[comment], error) {
	return list(ctx, c, p, request{path: path, about: n.about(kind)}, func(c *comment) bool {
		c.truncateBody(maxCommentBody)
		return true
	})
}

type commentParams struct {
	numberedParams
	Body string `json:"body"`
}

func commentIssue() sources.ModuleAction {
	return guardedAction(sources.ModuleAction{
		Name: "comment_issue", Title: "Comment on an issue", Risk: action.RiskWrite, AsUser: true,
		Description: "Adds a comment to an issue and returns its URL. For a pull request, use comment_pr.",
		Input:       input(4, ownerParam, repoParam, issueParam, `"body":`+bodyParam),
		Summarize:   summary(func(p commentParams) string { return p.summary("issue") }),
		Examples:    []sources.Example{commentExample()},
	}, func(ctx context.Context, c *sources.Conn, p commentParams) (any, error) {
		// GitHub has issues and pull requests in one list, so the kind is checked first.
		if err := p.rejectPull(ctx, c); err != nil {
			return nil, err
		}
		return p.post(ctx, c, p.numberedParams.about("issue"), map[string]string{"body": p.Body}, "issues", p.Number.String(), "comments")
	})
}

func (p commentParams) summary(kind string) string {
	start, cut := truncateText(p.Body, 120)
	if cut {
		start += "…"
	}
	return fmt.Sprintf("Comment on %s %s: %q", kind, p.numberedParams, start)
}

func commentExample() sources.Example {
	return sources.Example{Note: "A finding", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"body":"The cause is in login.go: the empty password is not refused."}`)}
}

type closeParams struct {
	numberedParams
	Reason string `json:"state_reason"`
}

func closeIssue() sources.ModuleAction {
	return guardedAction(sources.ModuleAction{
		Name: "close_issue", Title: "Close an issue", Risk: action.RiskWrite, Idempotent: true,
		Description: "Closes an issue. It does not close pull requests.",
		Input: input(3, ownerParam, repoParam, issueParam,
			`"state_reason":{"type":"string","enum":["completed","not_planned","duplicate"],"default":"completed","description":"Reason: completed, not planned or duplicate."}`),
		Summarize: summary(func(p closeParams) string {
			return fmt.Sprintf("Close issue %s as %s", p.numberedParams, p.reason())
		}),
		Examples: []sources.Example{{Note: "Completed", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"state_reason":"completed"}`)}},
	}, runCloseIssue)
}

func (p closeParams) reason() string { return cmp.Or(p.Reason, "completed") }

func runCloseIssue(ctx context.Context, c *sources.Conn, p closeParams) (any, error) {
	if err := p.rejectPull(ctx, c); err != nil {
		return nil, err
	}
	var m writeResult
	_, err := request{
		method: "PATCH", path: p.path("issues", p.Number.String()), about: p.numberedParams.about("issue"), noRename: true, idempotent: true,
		body: map[string]string{"state": "closed", "state_reason": p.reason()},
	}.send(ctx, c, &m)
	return m, err
}
