package github

import (
	"encoding/json"
	"errors"
	"strconv"
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
		about, err = o.Push, errors.Join(m.rejectMembers("action"), json.Unmarshal(body, o.Push), o.Push.validate())
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
	if err = errors.Join(err, m.readCommon(&o)); err != nil || o.Push != nil && o.Push.Deleted {
		return nil, err
	}
	if o.Action != "" {
		e.Native += ":" + o.Action
	}
	if err = o.fill(e, about); err != nil {
		return nil, err
	}
	return e, nil
}

// readCommon reads the members that events share.
func (m deliveryBody) readCommon(o *eventContext) error {
	err := m.readRequired("repository", &o.Repository)
	if o.Push == nil {
		err = errors.Join(err, m.readRequired("action", &o.Action))
	}
	for name, into := range map[string]any{"sender": &o.Sender, "label": &o.Label, "assignee": &o.Assignee} {
		err = errors.Join(err, m.readOptional(name, into))
	}
	return err
}

// fill sets the fields of the event.
func (o *eventContext) fill(e *event.Event, about subject) (err error) {
	e.Title = sources.Printable(o.Repository.FullName+about.titleSuffix(), 300)
	e.URL = sources.WebURL(about.link(o.Repository))
	e.OccurredAt = about.occurredAt(o.Repository).UTC()
	o.Branch = about.branch(o.Repository)
	e.Context, err = o.encode(about)
	return err
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
