package agent_test

import (
	"strings"
	"testing"

	"sallyport/internal/agent"
)

func TestModels(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, m := range agent.Models() {
		for _, name := range []string{m.ID, m.OpenCode, m.API} {
			if of, ok := seen[name]; ok && of != m.ID {
				t.Errorf("%s is a name of %s and of %s", name, of, m.ID)
			}
			seen[name] = m.ID
			if got, err := agent.FindModel(name); err != nil || got != m {
				t.Errorf("%s is %+v, %v; want %+v", name, got, err, m)
			}
		}
		if !strings.HasPrefix(m.OpenCode, m.Provider+"/") {
			t.Errorf("%s: OpenCode's name %s is of another provider than %s", m.ID, m.OpenCode, m.Provider)
		}
	}
	for _, name := range []string{"", "claude-opus", "gpt-1"} {
		if _, err := agent.FindModel(name); err == nil || !strings.Contains(err.Error(), "claude-opus-4.6") {
			t.Errorf("%q: %v; want the names there are", name, err)
		}
	}
}
