package github

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// eventContext is the context of an event. Fields have GitHub's names, except
// for the branch.
type eventContext struct {
	Action     string         `json:"action,omitempty"`
	Repository repositoryInfo `json:"repository"`
	Sender     actor          `json:"sender"`
	// Branch is the base of a pull request, or the branch of the commits.
	Branch   string `json:"branch,omitempty"`
	Label    named  `json:"label,omitempty"`    // added or removed
	Assignee login  `json:"assignee,omitempty"` // added or removed
	Issue    *issue `json:"issue,omitempty"`
	Pull     *pull  `json:"pull_request,omitempty"`
	Push     *push  `json:"push,omitempty"`
	Suite    *check `json:"check_suite,omitempty"`
	Run      *check `json:"check_run,omitempty"`
	Workflow *check `json:"workflow_run,omitempty"`
	Cut      bool   `json:"_truncated,omitempty"`
}

type repositoryInfo struct {
	FullName      string   `json:"full_name"`
	Private       bool     `json:"private"`
	DefaultBranch string   `json:"default_branch,omitempty"`
	URL           string   `json:"html_url,omitempty"`
	PushedAt      pushTime `json:"pushed_at,omitzero"`
}

// pushTime is a timestamp that is a number in push events and a string in all
// others.
type pushTime struct{ time.Time }

func (s *pushTime) UnmarshalJSON(raw []byte) error {
	if seconds, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		if 0 < seconds && seconds < 1<<36 { // within the range of RFC 3339
			s.Time = time.Unix(seconds, 0).UTC()
		}
		return nil
	}
	return json.Unmarshal(raw, &s.Time)
}

type actor struct {
	Login string `json:"login"`
	Type  string `json:"type,omitempty"` // User, Bot
}

// subject is the object of an event.
type subject interface {
	titleSuffix() string // follows the repository's name in the title
	link(in repositoryInfo) string
	occurredAt(in repositoryInfo) time.Time // zero if unknown
	branch(in repositoryInfo) string
	// truncate shortens texts to about limit bytes and reports whether it cut
	// any.
	truncate(limit int) bool
}

// event converts a delivery to an event, or nil if no trigger handles it.
func (m deliveryBody) event(native string, body []byte) (*event.Event, error) {
	var o eventContext
	e := &event.Event{Provider: "github", Type: native, Native: native}
	var about subject
	var err error
	switch native {
	case "issues":
		e.Type, o.Issue = "issue", &issue{}
		about, err = o.Issue, errors.Join(m.readRequired("issue", o.Issue), m.rejectMembers("comment"))
		o.Issue.IsPull, o.Issue.PullRequest = o.Issue.PullRequest != nil, nil
	case "pull_request":
		o.Pull = &pull{}
		about, err = o.Pull, errors.Join(m.readRequired("pull_request", o.Pull), m.rejectMembers("comment", "review", "thread"))
	case "push":
		o.Push = &push{}
		about, err = o.Push, errors.Join(m.rejectMembers("action"), json.Unmarshal(body, o.Push))
		if err == nil && (o.Push.Ref == "" || o.Push.Before == "" || o.Push.After == "") { // another event that has a ref
			err = errors.New("github: the delivery has no ref, before and after, which a push has")
		}
	case "check_suite":
		o.Suite = &check{}
		about, err = o.Suite, m.readRequired("check_suite", o.Suite)
	case "check_run":
		o.Run = &check{}
		about, err = o.Run, errors.Join(m.readRequired("check_run", o.Run), m.rejectMembers("deployment"))
	case "workflow_run":
		o.Workflow = &check{}
		about, err = o.Workflow, errors.Join(m.readRequired("workflow_run", o.Workflow), m.rejectMembers("deployment", "reviewers"))
	default:
		return nil, nil
	}
	err = errors.Join(err, m.readRequired("repository", &o.Repository))
	if o.Push == nil {
		err = errors.Join(err, m.readRequired("action", &o.Action))
	}
	for name, into := range map[string]any{"sender": &o.Sender, "label": &o.Label, "assignee": &o.Assignee} {
		err = errors.Join(err, m.readOptional(name, into))
	}
	if err != nil || o.Push != nil && o.Push.Deleted {
		return nil, err
	}
	if o.Action != "" {
		e.Native += ":" + o.Action
	}
	e.Title = sources.Printable(o.Repository.FullName+about.titleSuffix(), 300)
	e.URL = sources.WebURL(about.link(o.Repository))
	e.OccurredAt = about.occurredAt(o.Repository).UTC()
	o.Branch = about.branch(o.Repository)
	if e.Context, err = o.encode(about); err != nil {
		return nil, err
	}
	return e, nil
}

// maxContext bounds the context of an event, in bytes.
const maxContext = 64 << 10

// encode encodes the context and truncates long texts.
func (o *eventContext) encode(about subject) (json.RawMessage, error) {
	for limit := maxContext / 4; limit > 8; limit /= 4 {
		o.Cut = about.truncate(limit) || o.Cut
		text, err := sources.Encode(o)
		if err != nil || len(text) <= maxContext {
			return text, err
		}
	}
	return nil, errors.New("github: the delivery's names and lists are too long for any of GitHub's")
}

// maxPullsPerCheck bounds the pull requests in a check event.
const maxPullsPerCheck = 20

// check is a check suite, a check run or a workflow run. Comments mark fields
// that only one of them has.
type check struct {
	ID         int64           `json:"id"`
	Name       string          `json:"name,omitempty"` // not for suites
	App        named           `json:"app,omitempty"`
	Status     string          `json:"status,omitempty"`
	Conclusion string          `json:"conclusion,omitempty"` // empty until completed
	HeadBranch string          `json:"head_branch,omitempty"`
	HeadSHA    string          `json:"head_sha,omitempty"`
	Head       *headRepository `json:"head_repository,omitempty"` // workflow runs
	URL        string          `json:"html_url,omitempty"`
	Number     int             `json:"run_number,omitempty"`  // workflow runs
	Attempt    int             `json:"run_attempt,omitempty"` // workflow runs
	Event      string          `json:"event,omitempty"`       // workflow runs: the triggering event
	Path       string          `json:"path,omitempty"`        // workflow runs: the workflow file
	Suite      *check          `json:"check_suite,omitempty"` // check runs
	Output     *struct {
		Title   string `json:"title,omitempty"`
		Summary string `json:"summary,omitempty"`
	} `json:"output,omitempty"` // of one check
	Pulls []struct {
		Number int `json:"number"`
	} `json:"pull_requests,omitempty"`
	StartedAt   *time.Time `json:"started_at,omitempty"`
	CompletedAt *time.Time `json:"completed_at,omitempty"`
	UpdatedAt   *time.Time `json:"updated_at,omitempty"`
}

type headRepository struct {
	FullName string `json:"full_name"`
	Fork     bool   `json:"fork,omitempty"`
}

func (c *check) titleSuffix() string {
	return ": " + cmp.Or(c.Name, string(c.App)) + " " + cmp.Or(c.Conclusion, c.Status)
}

func (c *check) link(in repositoryInfo) string {
	if c.URL == "" && in.URL != "" && c.HeadSHA != "" {
		return in.URL + "/commit/" + c.HeadSHA + "/checks"
	}
	return c.URL
}

func (c *check) occurredAt(repositoryInfo) time.Time {
	return firstTime(c.UpdatedAt, c.CompletedAt, c.StartedAt)
}

// branch returns the branch of the commit, prefixed with the owner for forks,
// because anyone can name a branch main in a fork.
func (c *check) branch(in repositoryInfo) string {
	switch {
	case c.Suite != nil:
		return c.Suite.HeadBranch
	case c.HeadBranch == "", c.Event != "" && c.Head == nil: // the fork was deleted
		return ""
	case c.Head != nil && !strings.EqualFold(c.Head.FullName, in.FullName):
		owner, _, _ := strings.Cut(c.Head.FullName, "/")
		return owner + ":" + c.HeadBranch
	}
	return c.HeadBranch
}

func (c *check) truncate(limit int) (cut bool) {
	if len(c.Pulls) > maxPullsPerCheck {
		c.Pulls, cut = c.Pulls[:maxPullsPerCheck], true
	}
	if c.Suite != nil {
		cut = c.Suite.truncate(limit) || cut
	}
	if c.Output != nil {
		title, summary := truncateInPlace(&c.Output.Title, limit/4), truncateInPlace(&c.Output.Summary, limit)
		cut = cut || title || summary
	}
	return cut
}

func (i *issue) titleSuffix() string                 { return fmt.Sprintf("#%d: %s", i.Number, i.Title) }
func (i *issue) link(repositoryInfo) string          { return i.URL }
func (i *issue) occurredAt(repositoryInfo) time.Time { return firstTime(i.UpdatedAt, i.CreatedAt) }
func (i *issue) branch(repositoryInfo) string        { return "" }

func (i *issue) truncate(limit int) bool {
	cut := i.Cut
	i.truncateBody(limit)
	i.Cut = i.Cut || cut
	return i.Cut
}

func (p *pull) branch(repositoryInfo) string { return p.Base.Ref }

// firstTime returns the first time that is set.
func firstTime(times ...*time.Time) time.Time {
	for _, t := range times {
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

// maxCommitsPerPush bounds the commits in a push event; the last ones are kept.
const maxCommitsPerPush = 20

// push is a push to a branch or a tag.
type push struct {
	Ref     string       `json:"ref"` // refs/heads/trunk
	Before  string       `json:"before"`
	After   string       `json:"after"`
	Created bool         `json:"created,omitempty"`
	Deleted bool         `json:"deleted,omitempty"`
	Forced  bool         `json:"forced,omitempty"`
	Compare string       `json:"compare,omitempty"`
	Head    *pushCommit  `json:"head_commit,omitempty"`
	Commits []pushCommit `json:"commits,omitempty"`
}

// pushCommit is a commit of a push.
type pushCommit struct {
	ID      string `json:"id"`
	Message string `json:"message"`
	Author  struct {
		Name  string `json:"name"`
		Login string `json:"username,omitempty"`
	} `json:"author"`
	URL string `json:"url,omitempty"`
}

func (p *push) titleSuffix() string {
	line := ": push to " + strings.TrimPrefix(strings.TrimPrefix(p.Ref, "refs/heads/"), "refs/tags/")
	if p.Head != nil {
		subject, _, _ := strings.Cut(p.Head.Message, "\n")
		line += ": " + subject
	}
	return line
}

func (p *push) link(repositoryInfo) string             { return p.Compare }
func (p *push) occurredAt(in repositoryInfo) time.Time { return in.PushedAt.Time }

func (p *push) branch(repositoryInfo) string {
	if name, ok := strings.CutPrefix(p.Ref, "refs/heads/"); ok {
		return name
	}
	return ""
}

func (p *push) truncate(limit int) (cut bool) {
	if n := len(p.Commits) - maxCommitsPerPush; n > 0 {
		p.Commits, cut = p.Commits[n:], true
	}
	limit /= 16
	for i := range p.Commits {
		cut = truncateInPlace(&p.Commits[i].Message, limit) || cut
	}
	return p.Head != nil && truncateInPlace(&p.Head.Message, limit) || cut
}

// truncateInPlace truncates a text and reports whether it cut any.
func truncateInPlace(text *string, limit int) (cut bool) {
	*text, cut = truncateText(*text, limit)
	return cut
}
