package github

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// occurrence is what happened, as filters and instructions read it: GitHub's own
// names, but for the branch.
type occurrence struct {
	Action     string `json:"action,omitempty"`
	Repository where  `json:"repository"`
	Sender     actor  `json:"sender"`
	// Branch that it is about: the base of a pull request, otherwise that of the
	// commits. Empty: none.
	Branch   string `json:"branch,omitempty"`
	Label    named  `json:"label,omitempty"`    // that came or went
	Assignee login  `json:"assignee,omitempty"` // who came or went
	Issue    *issue `json:"issue,omitempty"`
	Pull     *pull  `json:"pull_request,omitempty"`
	Push     *push  `json:"push,omitempty"`
	Suite    *check `json:"check_suite,omitempty"`
	Run      *check `json:"check_run,omitempty"`
	Workflow *check `json:"workflow_run,omitempty"`
	Cut      bool   `json:"_truncated,omitempty"`
}

type where struct {
	FullName      string `json:"full_name"`
	Private       bool   `json:"private"`
	DefaultBranch string `json:"default_branch,omitempty"`
	URL           string `json:"html_url,omitempty"`
	PushedAt      stamp  `json:"pushed_at,omitzero"`
}

// stamp is a time that a push, and nothing else, has as a number.
type stamp struct{ time.Time }

func (s *stamp) UnmarshalJSON(raw []byte) error {
	if seconds, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		if 0 < seconds && seconds < 1<<36 { // not beyond what can be written
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

// subject is what an occurrence is about.
type subject interface {
	line() string // what a title says of it, after the repository's name
	link(in where) string
	changed(in where) time.Time // zero: it does not say
	branch(in where) string
	// shorten cuts its texts to about so many bytes and reports whether there
	// was more.
	shorten(limit int) bool
}

// event reads what happened; nil: there is no trigger for it.
func (m members) event(native string, body []byte) (*event.Event, error) {
	var o occurrence
	e := &event.Event{Provider: "github", Type: native, Native: native}
	var about subject
	var err error
	switch native {
	case "issues":
		e.Type, o.Issue = "issue", &issue{}
		about, err = o.Issue, errors.Join(m.read("issue", o.Issue), m.without("comment"))
		o.Issue.IsPull, o.Issue.PullRequest = o.Issue.PullRequest != nil, nil
	case "pull_request":
		o.Pull = &pull{}
		about, err = o.Pull, errors.Join(m.read("pull_request", o.Pull), m.without("comment", "review", "thread"))
	case "push":
		o.Push = &push{}
		about, err = o.Push, errors.Join(m.without("action"), json.Unmarshal(body, o.Push), o.Push.complete())
	case "check_suite":
		o.Suite = &check{}
		about, err = o.Suite, m.read("check_suite", o.Suite)
	case "check_run":
		o.Run = &check{}
		about, err = o.Run, errors.Join(m.read("check_run", o.Run), m.without("deployment"))
	case "workflow_run":
		o.Workflow = &check{}
		about, err = o.Workflow, errors.Join(m.read("workflow_run", o.Workflow), m.without("deployment", "reviewers"))
	default:
		return nil, nil
	}
	if err = errors.Join(err, m.circumstances(&o)); err != nil || o.Push != nil && o.Push.Deleted {
		return nil, err
	}
	if o.Action != "" {
		e.Native += ":" + o.Action
	}
	if err = o.tell(e, about); err != nil {
		return nil, err
	}
	return e, nil
}

// circumstances reads what all events have, and what some have.
func (m members) circumstances(o *occurrence) error {
	err := m.read("repository", &o.Repository)
	if o.Push == nil {
		err = errors.Join(err, m.read("action", &o.Action))
	}
	for name, into := range map[string]any{"sender": &o.Sender, "label": &o.Label, "assignee": &o.Assignee} {
		err = errors.Join(err, m.readAny(name, into))
	}
	return err
}

// tell writes the event of an occurrence.
func (o *occurrence) tell(e *event.Event, about subject) (err error) {
	e.Title = sources.Printable(o.Repository.FullName+about.line(), 300)
	e.URL = sources.WebURL(about.link(o.Repository))
	e.OccurredAt = about.changed(o.Repository).UTC()
	o.Branch = about.branch(o.Repository)
	e.Context, err = o.context(about)
	return err
}

// maxContext bounds the context of an event, in bytes.
const maxContext = 64 << 10

// context encodes the occurrence; of long texts only the beginning.
func (o *occurrence) context(about subject) (json.RawMessage, error) {
	for limit := maxContext / 4; limit > 8; limit /= 4 {
		o.Cut = about.shorten(limit) || o.Cut
		text, err := sources.Encode(o)
		if err != nil || len(text) <= maxContext {
			return text, err
		}
	}
	return nil, errors.New("github: the delivery's names and lists are too long for any of GitHub's")
}
