package agent

import (
	"strings"

	"sallyport/action"
)

// SessionPrompt returns the system prompt of a type as a session gets it: its own
// one where it has one and the type is its own, with what an agent of the type
// must be told in any case. Own reports that. An empty type is the session's.
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
