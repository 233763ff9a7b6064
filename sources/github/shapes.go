package github

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Bounds of texts in answers, in bytes.
const (
	wholeBody   = 64 << 10 // of what was asked for by its number
	commentBody = 8 << 10
	excerpt     = 500 // in lists
)

// The shapes below are both what is read of GitHub's answers and what agents
// get: GitHub's own names, without the hundred URLs.

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
	OpenIssues    int        `json:"open_issues_count"` // pull requests too
	PushedAt      *time.Time `json:"pushed_at,omitempty"`
	URL           string     `json:"html_url"`
	// Permissions of whom the credential belongs to, in that repository.
	Permissions map[string]bool `json:"permissions,omitempty"`
	MergeCommit *bool           `json:"allow_merge_commit,omitempty"`
	Squash      *bool           `json:"allow_squash_merge,omitempty"`
	Rebase      *bool           `json:"allow_rebase_merge,omitempty"`
}

// issue is an issue, or as much of a pull request.
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
	// PullRequest is there, and a pull request has it.
	PullRequest json.RawMessage `json:"pull_request,omitempty"`
	IsPull      bool            `json:"is_pull_request,omitempty"`
}

// pull is a pull request.
type pull struct {
	issue
	Draft          bool       `json:"draft"`
	Head           tip        `json:"head"`
	Base           tip        `json:"base"`
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

// tip is one end of a pull request.
type tip struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo *full  `json:"repo,omitempty"` // nil: it was deleted
}

// comment is a word in a conversation, on a line of a diff, or of a review.
type comment struct {
	ID          int64      `json:"id"`
	User        login      `json:"user"`
	State       string     `json:"state,omitempty"` // of a review
	Path        string     `json:"path,omitempty"`  // of a line, as the rest
	Line        int        `json:"line,omitempty"`  // 0: the line is not in the diff any more
	Side        string     `json:"side,omitempty"`
	InReplyTo   int64      `json:"in_reply_to_id,omitempty"`
	CommitID    string     `json:"commit_id,omitempty"`
	CreatedAt   *time.Time `json:"created_at,omitempty"`
	SubmittedAt *time.Time `json:"submitted_at,omitempty"`
	URL         string     `json:"html_url"`
	text
}

// text is a body, cut where it is too long.
type text struct {
	Body string `json:"body,omitempty"`
	Cut  bool   `json:"_truncated,omitempty"`
}

func (t *text) bound(limit int) {
	t.Body, t.Cut = shortened(t.Body, limit)
}

// shortened cuts a text between two characters.
func shortened(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit], true
}

// page is a part of a list.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next_cursor,omitempty"`
}

// A string that GitHub writes as an object of which it is one member.
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

// UnmarshalJSON reads a label, which may be a mere string.
func (s *named) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, (*string)(s)) == nil {
		return nil
	}
	return member(raw, "name", (*string)(s))
}

// member reads one member of an object; a null, or none, leaves s as it is.
func member(raw []byte, name string, s *string) error {
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil || o[name] == nil {
		return err
	}
	return json.Unmarshal(o[name], s)
}
