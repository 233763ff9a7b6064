package opencode_test

import (
	"strings"
	"testing"

	"sallyport/conformance/harness"
)

// TestAPromptAndAGuide has the user start with a prompt of the gateway, which
// is a command of his there, and the model read what its tools do.
func TestAPromptAndAGuide(t *testing.T) {
	t.Parallel()
	s := begin(t)
	model := s.model(
		harness.Call("read_mcp_resource", args{"server": "sallyport", "uri": "sallyport://guide"}),
		harness.Call("sallyport_actions_guide", args{"source": "demo"}),
		harness.Call("sallyport_actions_guide", args{"source": "dmeo"}),
		harness.Say("I know what to do."),
	)
	s.opencode(model).Start("run", "--command", "sallyport:coding", "").Succeeds()
	if said := model.Turn(0).User; !strings.Contains(said, "Never ask for an API key") {
		t.Errorf("as the user's words the model saw:\n%s", said)
	}
	for n := 1; n <= 2; n++ {
		model.Sees(n, "`demo_read`", "runs without approval", "`demo_write`", "needs a person's approval", "How approvals behave")
	}
	model.Sees(3, "dmeo", "demo")
}
