package github

import (
	"context"
	"fmt"

	"sallyport/action"
	"sallyport/sources"
)

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
		Description: "Returns what was said of a pull request, the oldest first, in three lists: conversation (on the whole), review_comments (on lines of the diff) and reviews (approvals, requests for changes). Each has a next_cursor of its own, which is given back together with list.",
		Input: input(3, ownerParam, repoParam, pullParam,
			`"list":{"type":"string","enum":["conversation","review_comments","reviews"],"description":"Only this list. Left out: all three."}`,
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
	verifyKind := func(ctx context.Context, c *sources.Conn, p numberedParams) error { return p.rejectPull(ctx, c) }
	return commentAction("issue", issueParam, verifyKind, sources.ModuleAction{
		Name: "comment_issue", Title: "Comment on an issue",
		Description: "Adds a comment to an issue, not to a pull request: comment_pr does. The answer has its URL.",
	})
}

func commentPull() sources.ModuleAction {
	verifyKind := func(ctx context.Context, c *sources.Conn, p numberedParams) error {
		_, err := p.pull(ctx, c, true)
		return err
	}
	return commentAction("pull request", pullParam, verifyKind, sources.ModuleAction{
		Name: "comment_pr", Title: "Comment on a pull request",
		Description: "Adds a comment to the conversation of a pull request, not to a line of its diff. The answer has its URL.",
	})
}

// commentAction completes an action. GitHub stores both kinds of conversation
// in one list, so verifyKind checks the kind first.
func commentAction(kind, number string, verifyKind func(ctx context.Context, c *sources.Conn, p numberedParams) error, a sources.ModuleAction) sources.ModuleAction {
	a.Risk, a.AsUser = action.RiskWrite, true
	a.Input = input(4, ownerParam, repoParam, number, `"body":`+bodyParam)
	a.Examples = []sources.Example{{Note: "A finding", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"body":"The cause is in login.go: the empty password is not refused."}`)}}
	a.Summarize = summary(func(p commentParams) string {
		start, cut := truncateText(p.Body, 120)
		if cut {
			start += "…"
		}
		return fmt.Sprintf("Comment on %s %s: %q", kind, p.numberedParams, start)
	})
	return guardedAction(a, func(ctx context.Context, c *sources.Conn, p commentParams) (any, error) {
		if err := verifyKind(ctx, c, p.numberedParams); err != nil {
			return nil, err
		}
		return p.post(ctx, c, p.numberedParams.about(kind), map[string]string{"body": p.Body}, "issues", p.Number.String(), "comments")
	})
}

type closeParams struct {
	numberedParams
	Reason string `json:"state_reason"`
}

func closeIssue() sources.ModuleAction {
	return guardedAction(sources.ModuleAction{
		Name: "close_issue", Title: "Close an issue", Risk: action.RiskWrite, Idempotent: true,
		Description: "Closes an issue, not a pull request.",
		Input: input(3, ownerParam, repoParam, issueParam,
			`"state_reason":{"type":"string","enum":["completed","not_planned","duplicate"],"default":"completed","description":"Why: it is done, it will not be, or there is another of it."}`),
		Summarize: summary(func(p closeParams) string {
			return fmt.Sprintf("Close issue %s as %s", p.numberedParams, p.reason())
		}),
		Examples: []sources.Example{{Note: "It is done", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"state_reason":"completed"}`)}},
	}, runCloseIssue)
}

func (p closeParams) reason() string {
	if p.Reason == "" {
		return "completed"
	}
	return p.Reason
}

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
