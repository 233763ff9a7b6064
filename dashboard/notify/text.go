package notify

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"sallyport/action"
)

// How long texts of others are at most, in characters.
const (
	longName = 120
	longText = 300
)

// Message is all that is told of a held call.
type Message struct {
	Source     string             `json:"source"` // as people call it
	SourceID   string             `json:"source_id"`
	Action     string             `json:"action"`
	Summary    string             `json:"summary,omitempty"`
	Risk       action.Risk        `json:"risk"`
	Why        string             `json:"why,omitempty"` // it was held
	Session    Asker              `json:"session"`
	Invocation string             `json:"invocation_id"`
	Status     action.Status      `json:"status"`
	Reason     string             `json:"denied_reason,omitempty"`
	CreatedAt  time.Time          `json:"created_at"`
	ExpiresAt  *time.Time         `json:"expires_at,omitempty"`
	Left       int                `json:"seconds_left,omitempty"`
	URL        string             `json:"url"`
	Event      action.NotifyEvent `json:"-"`
}

// Asker is the session whose agent asks.
type Asker struct {
	ID         string `json:"id"`
	Title      string `json:"title,omitempty"`
	Kind       string `json:"kind"`
	Automation string `json:"automation,omitempty"`
	Group      string `json:"group,omitempty"`
	Task       string `json:"task,omitempty"`
}

// message is what may leave of a call: no param, result or note of a person.
func message(w *action.DueNotification, public string, now time.Time) Message {
	c := &w.Call
	decision := action.Decision{Source: c.ModeSource, Steps: c.Steps}
	m := Message{
		Source: plain(c.SourceName, longName), SourceID: plain(c.Source, longName), Action: plain(c.Action, longName), Summary: plain(c.Summary, longText),
		Risk: c.Risk, Why: plain(decision.Why(), longText), Invocation: c.ID, Status: c.Status, Reason: c.DeniedReason,
		Session: asker(w), CreatedAt: c.CreatedAt, URL: public + "/invocations/" + c.ID, Event: w.Event,
	}
	if c.Status == action.StatusPending && c.ExpiresAt != nil {
		m.ExpiresAt, m.Left = c.ExpiresAt, secondsTo(*c.ExpiresAt, now)
	}
	return m
}

func asker(w *action.DueNotification) Asker {
	s := &w.Session
	return Asker{
		ID: s.ID, Title: plain(s.Title, longName), Kind: string(s.Kind), Automation: plain(w.Automation, longName),
		Group: plain(s.Group, longName), Task: plain(s.Task, longName),
	}
}

func secondsTo(at, now time.Time) int { return int(max(at.Sub(now), 0) / time.Second) }

// plain is text of others on one line, of at most so many characters: those that
// cannot be seen, or that change how others are shown, are spelled.
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

// words name who asks.
func (a *Asker) words() string {
	parts := []string{}
	for _, p := range [][2]string{{"session ", or(a.Title, a.ID)}, {"automation ", a.Automation}, {"group ", a.Group}, {"task ", a.Task}} {
		if p[1] != "" {
			parts = append(parts, p[0]+quote(p[1]))
		}
	}
	return strings.Join(parts, ", ")
}

func quote(text string) string { return "“" + text + "”" }

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// left is a time that is left, in words.
func left(seconds int) string {
	switch d := time.Duration(seconds) * time.Second; {
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d s", seconds)
	}
}
