package github

import (
	"strings"
	"time"
)

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
	name, how := c.Name, c.Conclusion
	if name == "" {
		name = string(c.App)
	}
	if how == "" {
		how = c.Status
	}
	return ": " + name + " " + how
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
