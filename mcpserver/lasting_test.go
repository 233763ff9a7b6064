package mcpserver

import (
	"strings"
	"testing"
	"time"

	"sallyport/action"
)

// Agents are told the time for which this gateway holds a denial.
func TestDenialsSayHowLong(t *testing.T) {
	for holds, want := range map[time.Duration]string{
		15 * time.Minute: "15 minutes", time.Hour: "1 hour", 48 * time.Hour: "48 hours", 90 * time.Second: "90 seconds", 1500 * time.Millisecond: "1.5s",
	} {
		s := &Server{cfg: Config{DenialHolds: holds}}
		text := s.outcomeResponse(&action.Outcome{Invocation: action.Invocation{Action: "write", Status: action.StatusDenied, DeniedReason: action.DeniedHuman}}, "", false, time.Now()).Text
		if !strings.Contains(text, "for "+want+" it is denied") {
			t.Errorf("a denial says %q, want %s", text, want)
		}
		if !strings.Contains(s.instructions(false, nil), "final for "+want+".") {
			t.Errorf("the instructions do not say %s", want)
		}
	}
}
