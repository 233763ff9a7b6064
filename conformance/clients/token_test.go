package clients_test

import (
	"strings"
	"testing"

	"sallyport/conformance/harness"
)

// TestWrongToken has clients with a token that was not copied whole. Claude Code
// tells its model the gateway's sentence, Codex its user; Gemini CLI shows none.
func TestWrongToken(t *testing.T) {
	const sentence = "This session token is incomplete or altered"
	each(t, func(t *testing.T, c client) {
		s := shared.Session(t, nil)
		s.Token = s.Token[:len(s.Token)-8]
		if c.name == "Gemini CLI" {
			m := harness.NewModel(t, c.dialect)
			if printed := c.install(t, s, m).Start("mcp", "list").Succeeds(); !strings.Contains(printed, "✗ sallyport") {
				t.Errorf("gemini mcp list printed:\n%s", printed)
			}
			return
		}
		m := harness.NewModel(t, c.dialect, harness.Say("There are no tools."))
		printed := c.run(s, m).Succeeds()
		first := m.Turn(0)
		if tools := first.Offers(c.prefix); len(tools) != 0 {
			t.Errorf("with a wrong token the model was offered %q", tools)
		}
		if !strings.Contains(first.System+first.User+printed, sentence) {
			t.Errorf("neither the model nor the user was told %q. The user was shown:\n%s", sentence, printed)
		}
	})
}
