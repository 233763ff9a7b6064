package dashboard_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sallyport/action"
)

// TestRefusedCalls has an agent refused in several ways, and reads what is left of that.
func TestRefusedCalls(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-ben")
	if body := b.get("/activity").body; strings.Contains(body, "Refused calls") {
		t.Error("the page has a list of refused calls without one")
	}
	const path = "/api/v1/sessions/s1/actions/"
	id := h.pending("s1")
	for range 3 {
		h.problem(400, "invalid_params", h.agent, "POST", path+"invoke", `{"source":"github","action":"create","params":{"wrong":1}}`)
	}
	h.problem(400, "invalid_params", h.agent, "POST", path+"invoke", `{"source":"github","action":"create","params":"no object"}`)
	h.want(400, h.agent, "POST", path+"invoke", `{"source":"github","action":"create","idempotency_key":"a"}`, "Idempotency-Key", "b")
	h.problem(400, "invalid_params", h.agent, "POST", "/internal/tools/verify", `{"session_id":"s1","tool_call_id":"1","params":"no object"}`)
	h.problem(404, "unknown_action", h.agent, "POST", path+"invoke", `{"source":"github","action":"<script>"}`)
	for _, at := range []string{path + "invocations/", "/api/v1/invocations/"} {
		h.want(403, h.agent, "POST", at+id+"/approve", "")
	}
	h.want(403, h.member, "POST", "/api/v1/invocations/"+id+"/approve", "") // a person's is not counted
	if err := h.gate.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}

	type line struct {
		Kind, Action string
		Count        int64
	}
	read := func(query string) (lines []line) {
		t.Helper()
		raw, err := json.Marshal(h.want(200, h.member, "GET", "/api/v1/audit/refusals"+query, "").list(t))
		if err != nil {
			t.Fatal(err)
		}
		var list []action.RefusalCount
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Session != "s1" || c.ID == "" || !c.FirstAt.Equal(c.LastAt) {
				t.Errorf("%+v", c)
			}
			lines = append(lines, line{string(c.Kind), c.Action, c.Count})
		}
		return lines
	}
	byAction := cmpopts.SortSlices(func(a, b line) bool { return a.Action < b.Action })
	invalid := []line{{"invalid_params", "create", 3}, {"invalid_params", "github:create", 2}, {"invalid_params", "verify", 1}}
	want := append([]line{{"agent_decision", "approve", 2}, {"unknown_action", "connector:c1:<script>", 1}}, invalid...)
	if d := cmp.Diff(want, read(""), byAction); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
	if d := cmp.Diff(invalid, read("?session=s1&kind=invalid_params&from=2020-01-01"), byAction); d != "" {
		t.Errorf("counts of a kind (-want +got):\n%s", d)
	}
	if got := read("?session=s2"); len(got) != 0 {
		t.Errorf("counts of another session: %+v", got)
	}
	h.problem(400, "invalid_field", h.member, "GET", "/api/v1/audit/refusals?from=soon", "")

	rows, err := csv.NewReader(strings.NewReader(h.want(200, h.admin, "GET", "/api/v1/audit/export?what=refusals&format=csv", "").body)).ReadAll()
	if err != nil || len(rows) != 6 || strings.Join(rows[0], ",") != "id,first_at,last_at,session_id,kind,source_id,action,count" {
		t.Errorf("exported %q, %v", rows, err)
	}
	if lines := strings.Count(h.want(200, h.admin, "GET", "/api/v1/audit/export?what=refusals", "").body, fmt.Sprintf(`"session_id":%q`, "s1")); lines != 5 {
		t.Errorf("%d lines are exported", lines)
	}
	body := b.get("/activity").body
	for _, text := range []string{"Refused calls", "Attempt to approve or deny", "Unknown tool", "&lt;script&gt;", "what=refusals"} {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %q: %.3000s", text, body)
		}
	}
	if body := b.get("/activity?status=completed").body; strings.Contains(body, "Refused calls") {
		t.Error("a list of calls by status has refused ones")
	}
}
