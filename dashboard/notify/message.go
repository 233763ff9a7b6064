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
	For        string             `json:"for,omitempty"` // who may decide, while it is pending
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
		Session: sessionOf(w), CreatedAt: c.CreatedAt, URL: public + "/invocations/" + c.ID, For: audience(w), Event: w.Event,
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

// audience names whom a notification is for: those whom the automation names, or who
// may act; empty: nobody has to any more.
func audience(w *action.DueNotification) string {
	switch {
	case w.Event == action.NotifySettled:
		return ""
	case len(w.For) == 0:
		return "owners and admins"
	}
	return plain(strings.Join(w.For, ", "), maxText)
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

const testText = "This is a test message from Sallyport. Pending approvals, requests and runs that need attention will be posted here."
