package notify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// EnvRequest is the payload about a request for environment variables: their
// names, and none of the agent's words about them, which may contain a value.
type EnvRequest struct {
	Names     []string           `json:"names"`
	Session   Session            `json:"session"`
	Request   string             `json:"env_request_id"`
	Status    action.EnvStatus   `json:"status"`
	CreatedAt time.Time          `json:"created_at"`
	ExpiresAt *time.Time         `json:"expires_at,omitempty"`
	Left      int                `json:"seconds_left,omitempty"`
	URL       string             `json:"url"`
	For       string             `json:"for,omitempty"`
	Event     action.NotifyEvent `json:"-"`
}

// envRequest returns the payload for a request.
func envRequest(w *action.DueNotification, public string, now time.Time) EnvRequest {
	r := w.Variables
	v := EnvRequest{
		Names: make([]string, len(r.Keys)), Session: sessionOf(w), Request: r.ID, Status: r.Status, CreatedAt: r.CreatedAt,
		URL: public + "/env-requests/" + r.ID, For: audience(w), Event: w.Event,
	}
	for i, k := range r.Keys {
		v.Names[i] = plain(k.Key, maxName)
	}
	if r.Status == action.EnvPending {
		v.ExpiresAt, v.Left = &r.ExpiresAt, secondsTo(r.ExpiresAt, now)
	}
	return v
}

// post returns the Slack message for a pending or settled request.
func (v *EnvRequest) post() post {
	if v.Event == action.NotifySettled {
		p := titledPost("Environment variables: " + v.outcome())
		p.Blocks = append(p.Blocks, linkBlock("View details", v.URL))
		return p
	}
	p := titledPost(fmt.Sprintf("An agent requested %d environment variables", len(v.Names)))
	if len(v.Names) == 1 {
		p = titledPost("An agent requested an environment variable")
	}
	facts := []textObject{*plainText("Names: " + plain(strings.Join(v.Names, ", "), maxText)), *plainText("Time left: " + durationText(v.Left)), *plainText("Requested by " + v.Session.describe()), *plainText("For: " + v.For)}
	p.Blocks = append(p.Blocks, block{Type: "section", Fields: facts}, linkBlock("Enter values", v.URL))
	return p
}

// outcome describes how the request was settled.
func (v *EnvRequest) outcome() string {
	switch v.Status {
	case action.EnvRefused:
		return "refused"
	case action.EnvExpired:
		return "expired"
	case action.EnvPending, action.EnvAnswered, action.EnvTaken:
	}
	return "answered"
}

// GrantRequest is the payload about a request for a grant, without its params and the
// agent's words.
type GrantRequest struct {
	Source    string               `json:"source,omitempty"` // display name; missing: all sources
	SourceID  string               `json:"source_id,omitempty"`
	Action    string               `json:"action,omitempty"` // missing: any action that is not dangerous
	Scope     action.GrantScope    `json:"scope"`
	MaxCalls  *int64               `json:"max_calls,omitempty"` // missing: no limit
	Until     *time.Time           `json:"grant_expires_at,omitempty"`
	Pins      []string             `json:"pinned_params,omitempty"` // pointers of params that are fixed
	Session   Session              `json:"session"`
	Request   string               `json:"grant_request_id"`
	Status    action.RequestStatus `json:"status"`
	CreatedAt time.Time            `json:"created_at"`
	ExpiresAt *time.Time           `json:"expires_at,omitempty"`
	Left      int                  `json:"seconds_left,omitempty"`
	URL       string               `json:"url"`
	For       string               `json:"for,omitempty"`
	Event     action.NotifyEvent   `json:"-"`
}

func grantRequest(w *action.DueNotification, public string, now time.Time) GrantRequest {
	r := w.Grant
	v := GrantRequest{
		Source: plain(w.GrantSource, maxName), SourceID: plain(r.Terms.Source, maxName), Action: plain(r.Terms.Action, maxName), Scope: r.Terms.Scope,
		MaxCalls: r.Terms.MaxCalls, Until: r.Terms.ExpiresAt, Session: sessionOf(w), Request: r.ID, Status: r.Status, CreatedAt: r.CreatedAt,
		URL: public + "/?kind=grants#request-" + r.ID, For: audience(w), Event: w.Event,
	}
	for pointer := range r.Terms.Pins {
		v.Pins = append(v.Pins, plain(pointer, maxName))
	}
	slices.Sort(v.Pins)
	if r.Status == action.RequestPending {
		v.ExpiresAt, v.Left = &r.ExpiresAt, secondsTo(r.ExpiresAt, now)
	}
	return v
}

// post returns the Slack message for a pending or settled request.
func (v *GrantRequest) post() post {
	covers := cmp.Or(v.Source, "all sources") + " › " + cmp.Or(v.Action, "any action that is not dangerous")
	if v.Event == action.NotifySettled {
		p := titledPost("Grant for " + covers + ": " + string(v.Status))
		p.Blocks = append(p.Blocks, linkBlock("Open the inbox", v.URL))
		return p
	}
	calls, until, where := "any number of calls", "until revoked", "in this session"
	if v.MaxCalls != nil {
		calls = fmt.Sprintf("up to %d calls", *v.MaxCalls)
	}
	if v.Until != nil {
		until = "until " + v.Until.UTC().Format("2 Jan 2006, 15:04 UTC")
	}
	if v.Scope == action.ScopeOrganization {
		where = "in every session of the organization"
	}
	facts := []textObject{
		*plainText("Allows: " + calls + ", " + where + ", " + until), *plainText("Time left: " + durationText(v.Left)),
		*plainText("Requested by " + v.Session.describe()), *plainText("For: " + v.For),
	}
	if len(v.Pins) > 0 {
		facts = append(facts, *plainText("Fixed params: " + plain(strings.Join(v.Pins, ", "), maxText)))
	}
	p := titledPost("An agent requested a grant for " + covers)
	p.Blocks = append(p.Blocks, block{Type: "section", Fields: facts}, linkBlock("Review", v.URL))
	return p
}

// Run is the payload about a run that needs attention.
type Run struct {
	Title      string             `json:"title,omitempty"` // of its event
	Automation string             `json:"automation,omitempty"`
	Run        string             `json:"run_id"`
	Status     event.RunStatus    `json:"status"`
	Code       string             `json:"code,omitempty"`
	Why        string             `json:"why,omitempty"`
	Outcome    string             `json:"outcome,omitempty"` // once it needs nobody: repeated, succeeded, cancelled or closed
	Session    Session            `json:"session"`
	CreatedAt  time.Time          `json:"created_at"`
	EndedAt    *time.Time         `json:"completed_at,omitempty"`
	URL        string             `json:"url"`
	For        string             `json:"for,omitempty"`
	Event      action.NotifyEvent `json:"-"`
}

func endedRun(w *action.DueNotification, public string) Run {
	r := w.Ended
	v := Run{
		Title: plain(r.Title, maxName), Automation: plain(w.Automation, maxName), Run: r.ID, Status: event.RunStatus(r.Status), Code: plain(r.Code, maxName),
		Why: plain(r.Message, maxText), Session: sessionOf(w), CreatedAt: r.CreatedAt, EndedAt: r.EndedAt, URL: public + "/runs/" + r.ID, For: audience(w), Event: w.Event,
	}
	if w.Event == action.NotifySettled {
		switch {
		case r.NeedsAttention, !v.Status.Ended():
			v.Outcome = "repeated"
		case v.Status == event.RunSucceeded:
			v.Outcome = "succeeded"
		case v.Code == event.RunCancelled:
			v.Outcome = "cancelled"
		default:
			v.Outcome = "closed"
		}
	}
	return v
}

// post returns the Slack message for a run that needs attention, or no longer does.
func (v *Run) post() post {
	head := "Run " + quote(cmp.Or(v.Title, v.Run))
	if v.Automation != "" {
		head += " of " + quote(v.Automation)
	}
	if v.Event == action.NotifySettled {
		p := titledPost(head + ": " + v.Outcome)
		p.Blocks = append(p.Blocks, linkBlock("View details", v.URL))
		return p
	}
	facts := []textObject{*plainText("For: " + v.For)}
	if v.Code != "" {
		facts = append(facts, *plainText("Code: " + v.Code))
	}
	if v.Why != "" {
		facts = append(facts, *plainText("Reason: " + v.Why))
	}
	verb := " failed"
	if v.Status == event.RunNeedsHuman {
		verb = " needs a human"
	}
	p := titledPost(head + verb)
	p.Blocks = append(p.Blocks, block{Type: "section", Fields: facts}, linkBlock("Open the run", v.URL))
	return p
}
