package github

import (
	"context"
	"fmt"

	"sallyport/action"
	"sallyport/sources"
)

type pullCommentsParams struct {
	numbered
	List string `json:"list"`
	paged
}

// said is what was said of a pull request; lists that were not asked for are
// nil.
type said struct {
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
		Summarize: summary(func(p numbered) string { return "Get the comments of pull request " + p.String() }),
		Examples: []sources.Example{
			{Note: "All that was said", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347}`)},
			{Note: "Who approved", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"list":"reviews"}`)},
		},
		Run: read(runGetPullComments),
	}
}

func runGetPullComments(ctx context.Context, c *sources.Conn, p pullCommentsParams) (any, error) {
	if p.Cursor != "" && p.List == "" {
		return nil, &sources.Refusal{Code: "invalid_cursor", Message: "The param /cursor goes with /list: say of which of the three lists it is."}
	}
	var result said
	for _, l := range []struct {
		name string
		path []string
		into **page[comment]
	}{
		// Its conversation is an issue's. The pull request itself is asked first:
		// an issue has no reviews to be missed.
		{"reviews", p.path("pulls", p.Number.String(), "reviews"), &result.Reviews},
		{"review_comments", p.path("pulls", p.Number.String(), "comments"), &result.ReviewComments},
		{"conversation", p.talk(), &result.Conversation},
	} {
		if p.List != "" && p.List != l.name {
			continue
		}
		found, err := p.comments(ctx, c, p.paged, l.path, "pull request")
		if err != nil {
			return nil, err
		}
		*l.into = &found
	}
	return result, nil
}

// talk is the path of the conversation about an issue or a pull request.
func (n numbered) talk() []string { return n.path("issues", n.Number.String(), "comments") }

// comments reads one of the lists of what was said.
func (n numbered) comments(ctx context.Context, c *sources.Conn, p paged, path []string, kind string) (page[comment], error) {
	return list(ctx, c, p, request{path: path, about: n.about(kind)}, func(c *comment) bool {
		c.bound(commentBody)
		return true
	})
}

type newComment struct {
	numbered
	Body string `json:"body"`
}

func commentIssue() sources.ModuleAction {
	look := func(ctx context.Context, c *sources.Conn, p numbered) error { return p.noPull(ctx, c) }
	return commentOn("issue", issueParam, look, sources.ModuleAction{
		Name: "comment_issue", Title: "Comment on an issue",
		Description: "Adds a comment to an issue, not to a pull request: comment_pr does. The answer has its URL.",
	})
}

func commentPull() sources.ModuleAction {
	look := func(ctx context.Context, c *sources.Conn, p numbered) error {
		_, err := p.pull(ctx, c, true)
		return err
	}
	return commentOn("pull request", pullParam, look, sources.ModuleAction{
		Name: "comment_pr", Title: "Comment on a pull request",
		Description: "Adds a comment to the conversation of a pull request, not to a line of its diff. The answer has its URL.",
	})
}

// commentOn fills the action in. GitHub has one list of comments for both, so
// look tells first whether it is one of the kind.
func commentOn(kind, number string, look func(ctx context.Context, c *sources.Conn, p numbered) error, a sources.ModuleAction) sources.ModuleAction {
	a.Risk, a.AsUser = action.RiskWrite, true
	a.Input = input(4, ownerParam, repoParam, number, `"body":`+bodyParam)
	a.Examples = []sources.Example{{Note: "A finding", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"body":"The cause is in login.go: the empty password is not refused."}`)}}
	a.Summarize = summary(func(p newComment) string {
		start, cut := shortened(p.Body, 120)
		if cut {
			start += "…"
		}
		return fmt.Sprintf("Comment on %s %s: %q", kind, p.numbered, start)
	})
	return guarded(a, func(ctx context.Context, c *sources.Conn, p newComment) (any, error) {
		if err := look(ctx, c, p.numbered); err != nil {
			return nil, err
		}
		return p.post(ctx, c, p.numbered.about(kind), map[string]string{"body": p.Body}, "issues", p.Number.String(), "comments")
	})
}

type closing struct {
	numbered
	Reason string `json:"state_reason"`
}

func closeIssue() sources.ModuleAction {
	return guarded(sources.ModuleAction{
		Name: "close_issue", Title: "Close an issue", Risk: action.RiskWrite, Idempotent: true,
		Description: "Closes an issue, not a pull request.",
		Input: input(3, ownerParam, repoParam, issueParam,
			`"state_reason":{"type":"string","enum":["completed","not_planned","duplicate"],"default":"completed","description":"Why: it is done, it will not be, or there is another of it."}`),
		Summarize: summary(func(p closing) string {
			return fmt.Sprintf("Close issue %s as %s", p.numbered, p.reason())
		}),
		Examples: []sources.Example{{Note: "It is done", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"state_reason":"completed"}`)}},
	}, runCloseIssue)
}

func (p closing) reason() string {
	if p.Reason == "" {
		return "completed"
	}
	return p.Reason
}

func runCloseIssue(ctx context.Context, c *sources.Conn, p closing) (any, error) {
	if err := p.noPull(ctx, c); err != nil {
		return nil, err
	}
	var m made
	_, err := request{
		method: "PATCH", path: p.path("issues", p.Number.String()), about: p.numbered.about("issue"), fixed: true, again: true,
		body: map[string]string{"state": "closed", "state_reason": p.reason()},
	}.send(ctx, c, &m)
	return m, err
}
