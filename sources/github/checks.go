package github

import (
	"strings"
	"time"
)

// maxPulls of a check are told.
const maxPulls = 20

// check is a suite of checks, one of them, or a run of a workflow. Members that
// only one of the three has are marked so.
type check struct {
	ID         int64   `json:"id"`
	Name       string  `json:"name,omitempty"` // of a suite: none
	App        named   `json:"app,omitempty"`
	Status     string  `json:"status,omitempty"`
	Conclusion string  `json:"conclusion,omitempty"` // empty: it has not ended
	HeadBranch string  `json:"head_branch,omitempty"`
	HeadSHA    string  `json:"head_sha,omitempty"`
	Head       *source `json:"head_repository,omitempty"` // of a workflow
	URL        string  `json:"html_url,omitempty"`
	Number     int     `json:"run_number,omitempty"`  // of a workflow
	Attempt    int     `json:"run_attempt,omitempty"` // of a workflow
	Event      string  `json:"event,omitempty"`       // of a workflow: what it runs on
	Path       string  `json:"path,omitempty"`        // of a workflow: its file
	Suite      *check  `json:"check_suite,omitempty"` // of one check
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

type source struct {
	FullName string `json:"full_name"`
	Fork     bool   `json:"fork,omitempty"`
}

func (c *check) line() string {
	name, how := c.Name, c.Conclusion
	if name == "" {
		name = string(c.App)
	}
	if how == "" {
		how = c.Status
	}
	return ": " + name + " " + how
}

func (c *check) link(in where) string {
	if c.URL == "" && in.URL != "" && c.HeadSHA != "" {
		return in.URL + "/commit/" + c.HeadSHA + "/checks"
	}
	return c.URL
}

func (c *check) changed(where) time.Time { return first(c.UpdatedAt, c.CompletedAt, c.StartedAt) }

// branch of the commit. A fork's has the fork's owner before it: anybody can
// call a branch main in a fork of his own.
func (c *check) branch(in where) string {
	switch {
	case c.Suite != nil:
		return c.Suite.HeadBranch
	case c.HeadBranch == "", c.Event != "" && c.Head == nil: // the fork is gone
		return ""
	case c.Head != nil && !strings.EqualFold(c.Head.FullName, in.FullName):
		owner, _, _ := strings.Cut(c.Head.FullName, "/")
		return owner + ":" + c.HeadBranch
	}
	return c.HeadBranch
}

func (c *check) shorten(limit int) (cut bool) {
	if len(c.Pulls) > maxPulls {
		c.Pulls, cut = c.Pulls[:maxPulls], true
	}
	if c.Suite != nil {
		cut = c.Suite.shorten(limit) || cut
	}
	if c.Output != nil {
		title, summary := brief(&c.Output.Title, limit/4), brief(&c.Output.Summary, limit)
		cut = cut || title || summary
	}
	return cut
}
