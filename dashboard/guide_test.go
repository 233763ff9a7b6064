package dashboard_test

import (
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/dashboard"
)

// A guide is of what the session may call: denied actions are in none.
func TestGuide(t *testing.T) {
	h := newHouse(t)
	all := h.want(200, h.agent, "GET", "/api/v1/sessions/s1/actions/guide", "").json(t)["markdown"].(string)
	for _, want := range []string{"# What this session can do", "How approvals behave", "`github_create`", "needs a person's approval", "runs without approval"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "github_drop") {
		t.Error("a denied action is explained")
	}
	for _, source := range []string{"github", "GitHub", "connector:c1"} {
		g := h.want(200, h.member, "GET", "/api/v1/sessions/s1/actions/guide/"+source, "").json(t)
		if g["source_id"] != "connector:c1" || g["title"] != "GitHub" || !strings.Contains(g["markdown"].(string), "### `github_create`") {
			t.Errorf("%s: %v", source, g)
		}
	}
	one := h.want(200, h.agent, "GET", "/api/v1/sessions/s1/actions/guide/github?action=github_create", "").json(t)["markdown"].(string)
	if !strings.Contains(one, "`github_create`") || strings.Contains(one, "github_list") {
		t.Error(one)
	}
	p := h.problem(404, "source_not_found", h.agent, "GET", "/api/v1/sessions/s1/actions/guide/gihtub", "")
	if !strings.Contains(p["detail"].(string), "GitHub") {
		t.Error(p)
	}
	p = h.problem(404, "action_not_found", h.agent, "GET", "/api/v1/sessions/s1/actions/guide/github?action=crate", "")
	if !strings.HasSuffix(p["detail"].(string), "Did you mean create?") {
		t.Error(p)
	}
}

// A session's own prompt stands for its type's, but what an automation must do
// is said in any case.
func TestSessionPrompt(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) {
		c.AgentTools = func(*action.Session) []string { return []string{"invocation_wait", "automation_complete"} }
	})
	prompt := func(path string) map[string]any { return h.want(200, h.agent, "GET", path, "").json(t) }
	p := prompt("/api/v1/sessions/s1/prompt")
	if p["type"] != "coding" || p["own"] != false || strings.Contains(p["text"].(string), "automation_complete") || strings.Contains(p["text"].(string), "actions_search") {
		t.Error(p)
	}
	if p := prompt("/api/v1/sessions/s1/prompt?type=automation"); p["type"] != "automation" || !strings.Contains(p["text"].(string), "automation_complete") {
		t.Error(p)
	}
	h.exec("UPDATE sessions SET prompt = 'Sort the inbox.' WHERE id = 's1'")
	if p := prompt("/api/v1/sessions/s1/prompt"); p["own"] != true || p["text"] != "Sort the inbox.\n" {
		t.Error(p)
	}
	h.mint(action.Session{ID: "s3", Organization: org, Type: action.TypeAutomation, Prompt: "Sort the inbox."})
	p = h.want(200, h.signer.Mint("s3"), "GET", "/api/v1/sessions/s3/prompt", "").json(t)
	coding := h.want(200, h.signer.Mint("s3"), "GET", "/api/v1/sessions/s3/prompt?type=coding", "").json(t)
	if text := p["text"].(string); p["own"] != true || !strings.HasPrefix(text, "Sort the inbox.\n\n") || !strings.Contains(text, "automation_complete") {
		t.Error(p)
	}
	if coding["own"] != false || strings.Contains(coding["text"].(string), "inbox") {
		t.Error(coding)
	}
	h.problem(400, "invalid_request", h.agent, "GET", "/api/v1/sessions/s1/prompt?type=poet", "")
	h.problem(403, "other_session", h.other, "GET", "/api/v1/sessions/s1/prompt", "")
}
