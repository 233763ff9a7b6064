package agent

import (
	"strings"

	"sallyport/action"
)

// SessionPrompt returns the system prompt of a session: its own prompt, if it
// has one and t is its type, with the mandatory part; otherwise that of the
// type. own reports which. An empty t is the session's type.
func SessionPrompt(s *action.Session, t action.SessionType, has func(tool string) bool) (text string, own bool) {
	if t == "" {
		t = s.Type
	}
	if t != s.Type || strings.TrimSpace(s.Prompt) == "" {
		return Prompt(t, has), false
	}
	text = strings.TrimSpace(s.Prompt) + "\n"
	if more := strings.TrimSpace(MandatoryPrompt(t, has)); more != "" {
		text += "\n" + more + "\n"
	}
	return text, true
}
