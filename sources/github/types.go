package github

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Limits of texts in results, in bytes.
const (
	maxBody        = 64 << 10 // single objects
	maxCommentBody = 8 << 10
	maxExcerpt     = 500 // lists
)

// The types below decode GitHub's responses and are the results for agents, with
// GitHub's names and without its URLs.

// repo is a repository.
type repo struct {
	FullName      string     `json:"full_name"`
	Owner         login      `json:"owner"`
	Description   string     `json:"description,omitempty"`
	DefaultBranch string     `json:"default_branch"`
	Private       bool       `json:"private"`
	Visibility    string     `json:"visibility,omitempty"`
	Archived      bool       `json:"archived,omitempty"`
	Fork          bool       `json:"fork,omitempty"`
	Language      string     `json:"language,omitempty"`
	HasIssues     *bool      `json:"has_issues,omitempty"`
	OpenIssues    int        `json:"open_issues_count"` // includes pull requests
	PushedAt      *time.Time `json:"pushed_at,omitempty"`
	URL           string     `json:"html_url"`
	// Permissions are those of the credential's owner.
	Permissions map[string]bool `json:"permissions,omitempty"`
	MergeCommit *bool           `json:"allow_merge_commit,omitempty"`
	Squash      *bool           `json:"allow_squash_merge,omitempty"`
	Rebase      *bool           `json:"allow_rebase_merge,omitempty"`
}

// issue is an issue, or the issue part of a pull request.
type issue struct {
	Number      int        `json:"number"`
	Title       string     `json:"title"`
	State       string     `json:"state"`
	StateReason string     `json:"state_reason,omitempty"`
	User        login      `json:"user"`
	Assignees   []login    `json:"assignees,omitempty"`
	Labels      []named    `json:"labels,omitempty"`
	Milestone   *titled    `json:"milestone,omitempty"`
	Comments    int        `json:"comments,omitempty"`
	Locked      bool       `json:"locked,omitempty"`
	CreatedAt   *time.Time `json:"created_at,omitempty"`
	UpdatedAt   *time.Time `json:"updated_at,omitempty"`
	ClosedAt    *time.Time `json:"closed_at,omitempty"`
	URL         string     `json:"html_url"`
	text
	// PullRequest is set for pull requests.
	PullRequest json.RawMessage `json:"pull_request,omitempty"`
	IsPull      bool            `json:"is_pull_request,omitempty"`
}

// pull is a pull request.
type pull struct {
	issue
	Draft          bool       `json:"draft"`
	Head           pullRef    `json:"head"`
	Base           pullRef    `json:"base"`
	MergedAt       *time.Time `json:"merged_at,omitempty"`
	MergedBy       *login     `json:"merged_by,omitempty"`
	MergeCommit    string     `json:"merge_commit_sha,omitempty"`
	Mergeable      *bool      `json:"mergeable,omitempty"`
	MergeableState string     `json:"mergeable_state,omitempty"`
	Reviewers      []login    `json:"requested_reviewers,omitempty"`
	Commits        int        `json:"commits,omitempty"`
	ReviewComments int        `json:"review_comments,omitempty"`
	Additions      int        `json:"additions,omitempty"`
	Deletions      int        `json:"deletions,omitempty"`
	ChangedFiles   int        `json:"changed_files,omitempty"`
}

// pullRef is the head or base of a pull request.
type pullRef struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo *full  `json:"repo,omitempty"` // nil if deleted
}

// comment is a comment in a conversation, on a line of a diff, or a review.
type comment struct {
	ID          int64      `json:"id"`
	User        login      `json:"user"`
	State       string     `json:"state,omitempty"` // reviews
	Path        string     `json:"path,omitempty"`  // line comments, as are the fields below
	Line        int        `json:"line,omitempty"`  // 0 if no longer in the diff
	Side        string     `json:"side,omitempty"`
	InReplyTo   int64      `json:"in_reply_to_id,omitempty"`
	CommitID    string     `json:"commit_id,omitempty"`
	CreatedAt   *time.Time `json:"created_at,omitempty"`
	SubmittedAt *time.Time `json:"submitted_at,omitempty"`
	URL         string     `json:"html_url"`
	text
}

// text is a body, truncated if too long.
type text struct {
	Body string `json:"body,omitempty"`
	Cut  bool   `json:"_truncated,omitempty"`
}

func (t *text) truncateBody(limit int) {
	t.Body, t.Cut = truncateText(t.Body, limit)
}

// truncateText truncates at a character boundary.
func truncateText(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit], true
}

// page is one page of a list.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next_cursor,omitempty"`
}

// Strings that GitHub sends as a member of an object.
type (
	login  string
	named  string
	titled string
	full   string
	commit string
)

func (s *login) UnmarshalJSON(raw []byte) error  { return member(raw, "login", (*string)(s)) }
func (s *titled) UnmarshalJSON(raw []byte) error { return member(raw, "title", (*string)(s)) }
func (s *full) UnmarshalJSON(raw []byte) error   { return member(raw, "full_name", (*string)(s)) }
func (s *commit) UnmarshalJSON(raw []byte) error { return member(raw, "sha", (*string)(s)) }

// UnmarshalJSON decodes a label, which can be a plain string.
func (s *named) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, (*string)(s)) == nil {
		return nil
	}
	return member(raw, "name", (*string)(s))
}

// member decodes one member of an object. If it is null or absent, s is
// unchanged.
func member(raw []byte, name string, s *string) error {
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil || o[name] == nil {
		return err
	}
	return json.Unmarshal(o[name], s)
}
