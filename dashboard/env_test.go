package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sallyport/action"
)

const secretValue = "sk_test_CANARY_0123456789"

func (h *house) wantsEnv(id string, keys ...action.EnvKey) {
	h.insert("env_requests", "id", id, "organization_id", org, "session_id", "s1", "status", action.EnvPending, "keys", keys, "created_at", h.clock.now(), "expires_at", h.clock.now().Add(time.Hour))
}

func TestVariablesAreGivenAndTakenOnce(t *testing.T) {
	h := newHouse(t)
	no := false
	h.wantsEnv("env-1", action.EnvKey{Key: "A", Type: "secret"}, action.EnvKey{Key: "B", Required: &no})
	h.wantsEnv("env-2", action.EnvKey{Key: "C"})
	h.wantsEnv("env-3", action.EnvKey{Key: "D"})
	const pull = "/api/v1/sessions/s1/env/pull"
	if r := h.want(200, h.agent, "POST", pull, ""); !strings.Contains(r.body, `"values":{}`) || !strings.Contains(r.body, `"pending":["D","C","A","B"]`) {
		t.Errorf("before an answer: %s", r.body)
	}
	h.want(403, h.member, "POST", "/api/v1/env-requests/env-1/answer", `{"values":{"A":"x"}}`)
	for values, field := range map[string]string{`{}`: "/values/A", `{"A":""}`: "/values/A", `{"A":"x","Z":"y"}`: "/values", `{"A":"a\u0000b"}`: "/values/A", `{"A":"` + strings.Repeat("x", 65537) + `"}`: "/values/A"} {
		if r := h.want(400, h.admin, "POST", "/api/v1/env-requests/env-1/answer", `{"values":`+values+`}`); !strings.Contains(r.body, `"field":"`+field+`"`) {
			t.Errorf("%.40s: %s", values, r.body)
		}
	}
	answer := h.want(200, h.admin, "POST", "/api/v1/env-requests/env-1/answer", fmt.Sprintf(`{"values":{"A":%q,"B":""}}`, secretValue)).body
	h.want(409, h.owner, "POST", "/api/v1/env-requests/env-1/refuse", `{}`)
	h.want(200, h.owner, "POST", "/api/v1/env-requests/env-2/refuse", `{"reason":"Do without."}`)
	seen := answer + h.want(200, h.owner, "GET", "/api/v1/env-requests", "").body + h.want(200, h.owner, "GET", "/api/v1/env-requests/env-1", "").body +
		h.want(200, h.agent, "GET", "/api/v1/sessions/s1/env", "").body + h.log.String() + h.signIn("u-ada").get("/env-requests/env-1").body + h.rows(org)
	if strings.Contains(seen, "CANARY") {
		t.Errorf("the value is seen: %s", seen)
	}
	h.want(403, h.other, "POST", pull, "")
	h.want(403, h.owner, "POST", pull, "")
	for range 2 {
		r := h.do(h.agent, "POST", pull, "", "Idempotency-Key", "k1")
		if !strings.Contains(r.body, `"values":{"A":"`+secretValue+`"}`) || !strings.Contains(r.body, `"pending":["D"]`) || !strings.Contains(r.body, `"reason":"Do without."`) {
			t.Errorf("taken: %d %s", r.StatusCode, r.body)
		}
	}
	for _, key := range []string{"k2", ""} {
		if r := h.do(h.agent, "POST", pull, "", "Idempotency-Key", key); r.StatusCode != 200 || strings.Contains(r.body, "CANARY") {
			t.Errorf("taken twice: %d %s", r.StatusCode, r.body)
		}
	}
}

// TestAnswersAreKept keeps values for the later sessions of a workspace, whose shells
// get them for the files that the workspace declares.
func TestAnswersAreKept(t *testing.T) {
	h := newHouse(t)
	h.wantsEnv("env-1", action.EnvKey{Key: "A"})
	h.problem(400, "invalid_field", h.admin, "POST", "/api/v1/env-requests/env-1/answer", `{"values":{"A":"x"},"keep":true}`)
	h.want(201, h.admin, "POST", "/api/v1/workspaces", `{"name":"shop"}`)
	var w action.Workspace
	w, err := h.db.Workspace(t.Context(), org, "shop")
	if err != nil {
		t.Fatal(err)
	}
	h.exec("UPDATE sessions SET workspace_id = ? WHERE id = 's1'", w.ID)
	h.exec("UPDATE workspaces SET env_files = ? WHERE id = ?", `[{"path":".env","keys":[{"key":"A","required":true}]}]`, w.ID)
	if page := h.signIn("u-ada").get("/env-requests/env-1").body; !strings.Contains(page, `name="keep"`) {
		t.Error("the page does not offer to keep the values")
	}
	const variables = "/api/v1/sessions/s1/variables"
	if r := h.want(200, h.agent, "POST", variables, ""); !strings.Contains(r.body, `"values":{}`) {
		t.Errorf("before an answer: %s", r.body)
	}
	h.want(200, h.admin, "POST", "/api/v1/env-requests/env-1/answer", fmt.Sprintf(`{"values":{"A":%q},"keep":true}`, secretValue))
	if r := h.want(200, h.agent, "POST", variables, ""); !strings.Contains(r.body, `"values":{"A":"`+secretValue+`"}`) {
		t.Errorf("kept: %s", r.body)
	}
	h.want(403, h.other, "POST", variables, "")
	h.want(403, h.owner, "POST", variables, "")
	seen := h.want(200, h.owner, "GET", "/api/v1/variables?workspace=shop", "").body + h.signIn("u-ada").get("/workspaces/shop").body + h.log.String() + h.rows(org)
	if !strings.Contains(seen, ".env") || strings.Contains(seen, "CANARY") {
		t.Errorf("the value is seen, or its file is not: %s", seen)
	}
}

// A refusal is news until something was taken after it, or asked for again;
// nobody waits for what has expired.
func TestAPullTellsNoOldNews(t *testing.T) {
	h := newHouse(t)
	pull := func(key, want string) {
		t.Helper()
		h.clock.add(time.Second)
		if r := h.do(h.agent, "POST", "/api/v1/sessions/s1/env/pull", "", "Idempotency-Key", key); !strings.Contains(r.body, want) {
			t.Errorf("%s\nlacks %s", r.body, want)
		}
	}
	const refusal, none = `"pending":[],"refused":[{"id":"env-1","keys":["A"],"reason":"No."}]`, `"pending":[],"refused":[]`
	h.wantsEnv("env-1", action.EnvKey{Key: "A"})
	h.want(200, h.owner, "POST", "/api/v1/env-requests/env-1/refuse", `{"reason":"No."}`)
	pull("k1", refusal)
	pull("k2", refusal)
	h.wantsEnv("env-2", action.EnvKey{Key: "B"})
	h.want(200, h.owner, "POST", "/api/v1/env-requests/env-2/answer", `{"values":{"B":"x"}}`)
	pull("k3", refusal)
	pull("k3", refusal) // whose answer was lost
	pull("k4", none)
	h.wantsEnv("env-3", action.EnvKey{Key: "C"})
	h.want(200, h.owner, "POST", "/api/v1/env-requests/env-3/refuse", `{}`)
	pull("k5", `"refused":[{"id":"env-3","keys":["C"]}]`)
	h.wantsEnv("env-4", action.EnvKey{Key: "C"})
	pull("k6", `"pending":["C"],"refused":[]`)
	h.clock.add(2 * time.Hour)
	pull("k7", none)
}

func TestThePageTellsWhoAnswersWhatHeDoes(t *testing.T) {
	h := newHouse(t)
	h.wantsEnv("env-1",
		action.EnvKey{Key: "TOKEN", Type: "secret", Description: "<script>x</script>\u202e", Suggestions: []action.EnvSuggestion{{Label: "Go <b>there</b>", Value: `"><i>`, Instructions: "javascript:alert(1)"}}},
		action.EnvKey{Key: "dataset"})
	for _, path := range []string{"/", "/env-requests/env-1"} {
		page := h.signIn("u-ben").get(path).body
		for _, want := range []string{"The agent can read what you enter here.", `type="password"`, `name="v.TOKEN"`, `name="v.dataset"`, "The agent says", `data-form="envRefused"`, "env.js"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %s", path, want)
			}
		}
		for _, bad := range []string{"<script>x", "\u202e", "<b>there", `"><i>`, `name="dataset"`} {
			if strings.Contains(page, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		page = h.signIn("u-cyd").get(path).body
		if strings.Contains(page, `name="v.TOKEN"`) || !strings.Contains(page, "Only owners and admins can respond.") {
			t.Errorf("%s lets a member answer", path)
		}
	}
}
