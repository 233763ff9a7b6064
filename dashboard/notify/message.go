package notify

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"sallyport/action"
)

// Limits on foreign texts, in characters.
const (
	maxName = 120
	maxText = 300
)

// Message is the payload about a held call.
type Message struct {
	Source     string             `json:"source"` // display name
	SourceID   string             `json:"source_id"`
	Action     string             `json:"action"`
	Summary    string             `json:"summary,omitempty"`
	Risk       action.Risk        `json:"risk"`
	Why        string             `json:"why,omitempty"` // reason for the hold
	Session    Session            `json:"session"`
	Invocation string             `json:"invocation_id"`
	Status     action.Status      `json:"status"`
	Reason     string             `json:"denied_reason,omitempty"`
	CreatedAt  time.Time          `json:"created_at"`
	ExpiresAt  *time.Time         `json:"expires_at,omitempty"`
	Left       int                `json:"seconds_left,omitempty"`
	URL        string             `json:"url"`
	Event      action.NotifyEvent `json:"-"`
}

// Session describes the session of the calling agent.
type Session struct {
	ID         string `json:"id"`
	Title      string `json:"title,omitempty"`
	Kind       string `json:"kind"`
	Automation string `json:"automation,omitempty"`
	Group      string `json:"group,omitempty"`
	Task       string `json:"task,omitempty"`
}

// message returns the payload for a call. It contains no param, result or note
// of a person.
func message(w *action.DueNotification, public string, now time.Time) Message {
	c := &w.Call
	decision := action.Decision{Source: c.ModeSource, Steps: c.Steps}
	m := Message{
		Source: plain(c.SourceName, maxName), SourceID: plain(c.Source, maxName), Action: plain(c.Action, maxName), Summary: plain(c.Summary, maxText),
		Risk: c.Risk, Why: plain(decision.Why(), maxText), Invocation: c.ID, Status: c.Status, Reason: c.DeniedReason,
		Session: sessionOf(w), CreatedAt: c.CreatedAt, URL: public + "/invocations/" + c.ID, Event: w.Event,
	}
	if c.Status == action.StatusPending && c.ExpiresAt != nil {
		m.ExpiresAt, m.Left = c.ExpiresAt, secondsTo(*c.ExpiresAt, now)
	}
	return m
}

func sessionOf(w *action.DueNotification) Session {
	s := &w.Session
	return Session{
		ID: s.ID, Title: plain(s.Title, maxName), Kind: string(s.Kind), Automation: plain(w.Automation, maxName),
		Group: plain(s.Group, maxName), Task: plain(s.Task, maxName),
	}
}

func secondsTo(at, now time.Time) int { return int(max(at.Sub(now), 0) / time.Second) }

// plain returns foreign text on one line of at most limit characters. It spells
// out characters that are invisible or change how others are shown.
func plain(text string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		piece := string(r)
		if r == unicode.ReplacementChar || r != ' ' && (!unicode.IsGraphic(r) || unicode.In(r, unicode.Zs, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)) {
			piece = fmt.Sprintf(`\u{%x}`, r)
		}
		if n += len([]rune(piece)); n > limit {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
	}
	return strings.TrimSpace(b.String())
}

// describe names the session and what it works on.
func (a *Session) describe() string {
	parts := []string{}
	for _, p := range [][2]string{{"session ", cmp.Or(a.Title, a.ID)}, {"automation ", a.Automation}, {"group ", a.Group}, {"task ", a.Task}} {
		if p[1] != "" {
			parts = append(parts, p[0]+quote(p[1]))
		}
	}
	return strings.Join(parts, ", ")
}

func quote(text string) string { return "“" + text + "”" }

// durationText formats a number of seconds for people.
func durationText(seconds int) string {
	switch d := time.Duration(seconds) * time.Second; {
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d s", seconds)
	}
}

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
	Event     action.NotifyEvent `json:"-"`
}

// envRequest returns the payload for a request.
func envRequest(w *action.DueNotification, public string, now time.Time) EnvRequest {
	r := w.Variables
	v := EnvRequest{
		Names: make([]string, len(r.Keys)), Session: sessionOf(w), Request: r.ID, Status: r.Status, CreatedAt: r.CreatedAt,
		URL: public + "/env-requests/" + r.ID, Event: w.Event,
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
	facts := []textObject{*plainText("Names: " + plain(strings.Join(v.Names, ", "), maxText)), *plainText("Time left: " + durationText(v.Left)), *plainText("Requested by " + v.Session.describe())}
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

// Test sends a test message through a channel now, even if the channel is
// disabled, and returns the endpoint's response. ErrNotFound without such a
// channel.
func (s *Sender) Test(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyTestResult, error) {
	c, err := s.Rows.NotifyChannel(ctx, organization, kind)
	if err != nil {
		return action.NotifyTestResult{}, err
	}
	ctx, stop := context.WithTimeout(ctx, s.Timeout)
	defer stop()
	var a response
	if kind == action.NotifySlack {
		p := titledPost(testText)
		p.Blocks = append(p.Blocks, linkBlock("Open the inbox", s.PublicURL+"/"))
		a, err = s.toSlack(ctx, &c, p, "")
	} else {
		a, err = s.toWebhook(ctx, &c, s.NewID(), typeTest, struct {
			Text string `json:"text"`
			URL  string `json:"url"`
		}{testText, s.PublicURL})
	}
	return action.NotifyTestResult{OK: a.ok, Status: a.status, Detail: a.detail}, err
}

const testText = "This is a test message from Sallyport. Pending approvals will be posted here."
