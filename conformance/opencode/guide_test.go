package opencode_test

import (
	"strings"
	"testing"
)

// TestAPromptAndAGuide has the user start with a prompt of the gateway, which
// is a command of his there, and the model read what its tools do.
func TestAPromptAndAGuide(t *testing.T) {
	t.Parallel()
	s := begin(t)
	model := s.model(
		call("read_mcp_resource", args{"server": "sallyport", "uri": "sallyport://guide"}),
		call("sallyport_actions_guide", args{"source": "demo"}),
		call("sallyport_actions_guide", args{"source": "dmeo"}),
		say("I know what to do."),
	)
	s.opencode(model).start("run", "--command", "sallyport:coding", "").ends()
	said := ""
	for _, m := range model.turn(0).Messages {
		if m.Role == "user" {
			said += m.text()
		}
	}
	if !strings.Contains(said, "Never ask anybody for an API key") {
		t.Errorf("as the user's words the model saw:\n%s", said)
	}
	for n := 1; n <= 2; n++ {
		model.sees(n, "`demo_read`", "runs at once", "`demo_write`", "waits for a person's approval", "How approvals behave")
	}
	model.sees(3, "dmeo", "demo")
}
