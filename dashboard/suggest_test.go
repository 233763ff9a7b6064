package dashboard_test

import (
	"strings"
	"testing"
)

// Who calls what is not there learns what he may have meant, of what he may
// call.
func TestInvokeSuggests(t *testing.T) {
	h := newHouse(t)
	for body, want := range map[string]string{
		`{"source":"github","action":"github_create"}`: " Did you mean create?",
		`{"source":"github","action":"crate"}`:         " Did you mean create?",
		`{"source":"gihtub","action":"create"}`:        " Did you mean GitHub?",
		`{"source":"github","action":"drap"}`:          "", // drop is denied, so it is not told
	} {
		p := h.want(404, h.agent, "POST", "/api/v1/sessions/s1/actions/invoke", body).json(t)
		detail := p["detail"].(string)
		if strings.Contains(detail, "Did you mean") != (want != "") || !strings.HasSuffix(detail, want) {
			t.Errorf("%s: %s", body, detail)
		}
	}
}

// An object that a model wrote as a string is taken for the object, once.
func TestInvokeTakesParamsAsAString(t *testing.T) {
	h := newHouse(t)
	invoke := func(status int, params string) map[string]any {
		t.Helper()
		return h.want(status, h.agent, "POST", "/api/v1/sessions/s1/actions/invoke", `{"source":"github","action":"create","params": `+params+`}`).json(t)
	}
	invoke(202, `"{\"title\":\"Bug\",\"n\":9007199254740993.10}"`)
	if got := string(h.gate.calls[0].Params); got != `{"title":"Bug","n":9007199254740993.10}` {
		t.Error("called with", got)
	}
	for _, params := range []string{`"Bug"`, `"\"{}\""`, `"[{}]"`, `"{}{}"`} {
		p := invoke(400, params)
		if p["field"] != "/params" || !strings.Contains(p["detail"].(string), "string that does not hold one") {
			t.Errorf("%s: %v", params, p)
		}
	}
	if len(h.gate.calls) != 1 {
		t.Error("calls:", len(h.gate.calls))
	}
}
