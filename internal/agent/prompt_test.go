package agent_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/internal/agent"
)

func types() []action.SessionType {
	return []action.SessionType{action.TypeSetup, action.TypeCoding, action.TypeAutomation}
}

// quoted are the words that a prompt sets as code and that look like a tool.
func quoted(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile("`([a-z]+_[a-z_]+|verify)`").FindAllStringSubmatch(text, -1) {
		if !slices.Contains([]string{"needs_human", "summary_markdown"}, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

func TestPromptNamesToolsThatAreThere(t *testing.T) {
	t.Parallel()
	for _, typ := range types() {
		if got := quoted(agent.Prompt(typ, func(string) bool { return false })); len(got) > 0 {
			t.Errorf("without tools, the prompt of %s names %v", typ, got)
		}
		for _, tool := range agent.PromptTools() {
			text := agent.Prompt(typ, func(name string) bool { return name == tool })
			for _, name := range quoted(text) {
				if name != tool {
					t.Errorf("with %s alone, the prompt of %s names %s", tool, typ, name)
				}
			}
			if strings.Contains(text, "# What to leave behind\n\n#") || strings.Contains(text, "\n\n\n") {
				t.Errorf("with %s alone, the prompt of %s has an empty section:\n%s", tool, typ, text)
			}
		}
	}
}

func TestPromptOfEachType(t *testing.T) {
	t.Parallel()
	all := func(string) bool { return true }
	for typ, want := range map[action.SessionType][]string{
		action.TypeSetup:      {"save_env_files", "save_service_commands", "request_env_variables", "verify", "invocation_wait"},
		action.TypeCoding:     {"request_env_variables", "verify", "invocation_wait", "grant_request", "actions_guide"},
		action.TypeAutomation: {"automation_complete", "request_env_variables", "verify", "invocation_wait"},
	} {
		named := quoted(agent.Prompt(typ, all))
		for _, tool := range want {
			if !slices.Contains(named, tool) {
				t.Errorf("the prompt of %s does not name %s", typ, tool)
			}
		}
	}
	for typ, never := range map[action.SessionType][]string{
		action.TypeSetup:      {"automation_complete"},
		action.TypeCoding:     {"automation_complete", "save_env_files", "save_service_commands"},
		action.TypeAutomation: {"save_env_files", "save_service_commands"},
	} {
		for _, tool := range quoted(agent.Prompt(typ, all)) {
			if slices.Contains(never, tool) {
				t.Errorf("the prompt of %s names %s", typ, tool)
			}
		}
	}
	coding, automation := agent.Prompt(action.TypeCoding, all), agent.Prompt(action.TypeAutomation, all)
	if !strings.HasPrefix(automation, coding) {
		t.Error("the prompt of automation does not begin with that of coding")
	}
	if rest := agent.MandatoryPrompt(action.TypeAutomation, all); !strings.HasSuffix(automation, rest) || !strings.Contains(rest, "automation_complete") {
		t.Errorf("what every automation is told is no end of its prompt: %s", rest)
	}
	if agent.MandatoryPrompt(action.TypeCoding, all) != "" {
		t.Error("coding has something mandatory")
	}
}

// The prompt names the repositories of the session.
func TestPromptOfWorkspace(t *testing.T) {
	s := action.Session{Type: action.TypeCoding, Workspace: "w", Repositories: []action.SessionRepository{
		{WorkspaceRepository: action.WorkspaceRepository{Host: "github.com", Path: "acme/shop", Branch: "next"}, BaseCommit: "abc"},
		{WorkspaceRepository: action.WorkspaceRepository{Host: "github.com", Path: "acme/infra", Folder: "deploy"}},
	}}
	text, own := agent.SessionPrompt(&s, "", func(string) bool { return true })
	want := "\n# The workspace\n\n- `github.com/acme/shop` in the folder `shop`, branch `next`, from commit `abc`\n- `github.com/acme/infra` in the folder `deploy`\n"
	if own || !strings.HasSuffix(text, want) {
		t.Errorf("the prompt ends with %q", text[max(0, len(text)-300):])
	}
	s.Repositories = nil
	if text, _ := agent.SessionPrompt(&s, "", func(string) bool { return true }); !strings.Contains(text, "no repository") {
		t.Errorf("without repositories: %q", text[max(0, len(text)-300):])
	}
}
