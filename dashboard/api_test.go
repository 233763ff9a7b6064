package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sallyport/action"
)

// TestActionsArePaged reads what a session may call, and what it may do, page by page.
func TestActionsArePaged(t *testing.T) {
	h := newHouse(t)
	session := "/api/v1/sessions/" + h.want(201, h.member, "POST", "/api/v1/sessions", "{}").json(t)["session_id"].(string)
	for path, count := range map[string]func(page map[string]any) int{
		session + "/actions/available": func(page map[string]any) int { return len(page["items"].([]any)) },
		session + "/actions/capabilities": func(page map[string]any) (n int) {
			for _, p := range page["capabilities"].([]any) {
				n += len(p.(map[string]any)["actions"].([]any))
			}
			return n
		},
	} {
		whole := h.want(200, h.member, "GET", path, "").json(t)
		seen, pages := 0, 0
		for cursor := ""; pages == 0 || cursor != ""; pages++ {
			page := h.want(200, h.member, "GET", path+"?limit=1&cursor="+cursor, "").json(t)
			if count(page) != 1 || page["total"] != whole["total"] {
				t.Fatalf("%s: a page of one is %v", path, page)
			}
			seen++
			cursor, _ = page["next_cursor"].(string)
		}
		if total := fmt.Sprint(whole["total"]); seen < 2 || fmt.Sprint(seen) != total || count(whole) != seen || whole["next_cursor"] != nil {
			t.Errorf("%s: %d of %s on %d pages, at once %d", path, seen, total, pages, count(whole))
		}
		h.problem(400, "invalid_cursor", h.member, "GET", path+"?cursor=x", "")
	}
}

func TestSessions(t *testing.T) {
	h := newHouse(t)
	minted := h.want(201, h.owner, "POST", "/api/v1/sessions", `{"title":"x","ttl":"8h","group":"g","task":"T-1"}`).json(t)
	if minted["token"] != h.signer.Mint(minted["session_id"].(string)) || minted["mcp_url"] != public+"/mcp" || minted["expires_at"] != "2026-03-01T20:00:00Z" {
		t.Errorf("minted %v", minted)
	}
	id := minted["session_id"].(string)
	s := h.want(200, h.member, "GET", "/api/v1/sessions/"+id, "").json(t)
	if s["kind"] != "interactive" || s["type"] != "coding" || s["created_by"] != "u-ada" || s["group"] != "g" {
		t.Errorf("session %v", s)
	}
	h.want(204, h.admin, "DELETE", "/api/v1/sessions/"+id, "")
	h.problem(401, "session_revoked", minted["token"].(string), "GET", "/api/v1/me", "")

	auto := h.want(201, h.admin, "POST", "/api/v1/sessions", `{"automation":"nightly"}`).json(t)
	s = h.want(200, h.admin, "GET", "/api/v1/sessions/"+auto["session_id"].(string), "").json(t)
	if s["kind"] != "unattended" || s["type"] != "automation" {
		t.Errorf("session of an automation %v", s)
	}
	h.problem(400, "invalid_field", h.admin, "POST", "/api/v1/sessions", `{"automation":"nightly","kind":"interactive"}`)
	h.problem(400, "invalid_field", h.admin, "POST", "/api/v1/sessions", `{"ttl":"yes"}`)
	h.want(201, h.member, "POST", "/api/v1/sessions", `{}`)
	for _, field := range []string{"group", "task", "automation"} {
		p := h.problem(403, "role_required", h.member, "POST", "/api/v1/sessions", `{"`+field+`":"x"}`)
		if p["field"] != "/"+field {
			t.Errorf("problem %v", p)
		}
	}
	h.problem(404, "session_not_found", h.member, "GET", "/api/v1/sessions/none", "")
}

func TestListsGoOnFromACursor(t *testing.T) {
	h := newHouse(t)
	for range 3 {
		h.pending("s1")
	}
	first := h.want(200, h.member, "GET", "/api/v1/invocations?limit=2&status=pending", "").json(t)
	if len(first["items"].([]any)) != 2 || first["next_cursor"] == nil {
		t.Fatalf("first page %v", first)
	}
	second := h.want(200, h.member, "GET", "/api/v1/invocations?limit=2&cursor="+first["next_cursor"].(string), "").json(t)
	if len(second["items"].([]any)) != 1 || second["next_cursor"] != nil {
		t.Errorf("second page %v", second)
	}
	h.problem(400, "invalid_request", h.member, "GET", "/api/v1/invocations?limit=1000", "")
	h.problem(400, "invalid_request", h.member, "GET", "/api/v1/invocations?status=odd", "")
}

func TestSecretsAreNeverReadBack(t *testing.T) {
	h := newHouse(t)
	set := h.want(200, h.admin, "PUT", "/api/v1/secrets/gh", `{"value":"hunter2","host":"MCP.example.com"}`)
	list := h.want(200, h.member, "GET", "/api/v1/secrets", "")
	if strings.Contains(set.body+list.body+h.log.String(), "hunter2") {
		t.Error("the value of a secret came back")
	}
	if !strings.Contains(list.body, `"host":"mcp.example.com"`) || h.secret("gh") != "hunter2" {
		t.Errorf("list %s, sealed %q", list.body, h.secret("gh"))
	}
	for _, body := range []string{
		`{"value":"a\nb","host":"h.example"}`, `{"value":"a","host":"https://h.example/"}`, `{"value":"a","host":"h.example:99999"}`,
		`{"value":"","host":"h.example"}`, `{"value":"a"}`, `{"value":7,"host":"h.example"}`,
	} {
		r := h.want(400, h.admin, "PUT", "/api/v1/secrets/other", body)
		if strings.Contains(r.body, "hunter2") || r.json(t)["field"] == nil {
			t.Errorf("%s: %s", body, r.body)
		}
	}
	h.want(204, h.admin, "DELETE", "/api/v1/secrets/gh", "")
	h.want(404, h.admin, "DELETE", "/api/v1/secrets/gh", "")
}

// A bad body may hold a secret: huma would echo it.
func TestBadInputIsNotEchoed(t *testing.T) {
	h := newHouse(t)
	for _, body := range []string{`{"value":["hunter2"],"host":"x"}`, `{"value":"hunter2"`, `"hunter2"`, `{"value":"hunter2","host":"h.example","x":"hunter2"}`} {
		r := h.want(400, h.admin, "PUT", "/api/v1/secrets/gh", body)
		if strings.Contains(r.body, "hunter2") {
			t.Errorf("%s: %s", body, r.body)
		}
	}
}

func TestConnectors(t *testing.T) {
	h := newHouse(t)
	h.want(200, h.admin, "PUT", "/api/v1/secrets/linear", `{"value":"v","host":"mcp.linear.app"}`)
	c := h.want(201, h.admin, "POST", "/api/v1/connectors", `{"name":"My Linear","url":"https://mcp.linear.app/mcp","secret":"linear"}`).json(t)
	if c["slug"] != "my-linear" || c["prefix"] != "Bearer " || c["enabled"] != true || c["source_id"] != "connector:"+c["id"].(string) {
		t.Errorf("connector %v", c)
	}
	for ref, want := range map[string]int{"my-linear": 200, "My%20Linear": 200, c["id"].(string): 200, "nobody": 404} {
		h.want(want, h.member, "GET", "/api/v1/connectors/"+ref, "")
	}
	view := h.want(200, h.member, "GET", "/api/v1/connectors/github", "").json(t)
	tool := view["tools"].([]any)[1].(map[string]any)
	if tool["tool"] != "github_create" || tool["risk"] != "write" || tool["mode"] != "require_approval" {
		t.Errorf("tool %v", tool)
	}
	h.problem(409, "connector_exists", h.admin, "POST", "/api/v1/connectors", `{"name":"again","url":"https://x.example/","slug":"github"}`)
	changed := h.want(200, h.admin, "PATCH", "/api/v1/connectors/my-linear", `{"url":"https://mcp.linear.app/v2"}`).json(t)
	if changed["revision"].(interface{ String() string }).String() != "2" {
		t.Errorf("a new URL leaves revision %v", changed["revision"])
	}
	if off := h.want(200, h.admin, "POST", "/api/v1/connectors/my-linear/disable", "").json(t); off["enabled"] != false {
		t.Errorf("disabled %v", off)
	}
	h.want(200, h.admin, "POST", "/api/v1/connectors/my-linear/enable", "")
	h.want(200, h.admin, "POST", "/api/v1/connectors/my-linear/validate", "")
	down := h.want(200, h.admin, "POST", "/api/v1/connectors/validate", `{"url":"http://down.example/mcp"}`).json(t)
	if down["error"] == "" {
		t.Errorf("a server that is down has no error: %v", down)
	}
	h.want(204, h.admin, "DELETE", "/api/v1/connectors/my-linear", "")
	h.want(404, h.admin, "GET", "/api/v1/connectors/my-linear", "")
}

// Who named no slug is told that there is one, and how to name another.
func TestATakenSlugThatNobodyChose(t *testing.T) {
	h := newHouse(t)
	p := h.problem(409, "connector_exists", h.admin, "POST", "/api/v1/connectors", `{"name":"GitHub!","url":"https://x.example/"}`)
	for _, want := range []string{`"github"`, "`slug`"} {
		if !strings.Contains(p["detail"].(string), want) {
			t.Errorf("%v lacks %s", p, want)
		}
	}
	for _, body := range []string{`{"name":"other","url":"https://x.example/","slug":"github"}`, `{"name":"GitHub","url":"https://x.example/"}`} {
		if p := h.problem(409, "connector_exists", h.admin, "POST", "/api/v1/connectors", body); strings.Contains(p["detail"].(string), "made of") {
			t.Errorf("%s: %v", body, p)
		}
	}
}

// What is wrong with a field is a sentence about the field.
func TestBadFieldsAreSaidInSentences(t *testing.T) {
	h := newHouse(t)
	for _, row := range []struct{ method, path, body, want string }{
		{"POST", "/api/v1/connectors", `{"name":"a","url":""}`, "url must not be empty."},
		{"POST", "/api/v1/connectors", `{"name":"a","url":7}`, "url must be a string."},
		{"POST", "/api/v1/connectors", `{"name":"a"}`, "The field url is missing, and no preset provides it."},
		{"POST", "/api/v1/connectors", `{"name":"` + strings.Repeat("a", 81) + `","url":"https://x.example/"}`, "name must have at most 80 characters."},
		{"POST", "/api/v1/connectors", `{"name":"a","url":"https://x.example/","default_risk":"none"}`, "default_risk must be one of read, write, danger."},
		{"POST", "/api/v1/connectors", `[]`, "The body must be one JSON object."},
		{"GET", "/api/v1/invocations?limit=0", "", "limit must be at least 1."},
		{"GET", "/api/v1/invocations?limit=101", "", "limit must be at most 100."},
		{"GET", "/api/v1/invocations?limit=few", "", "limit must be an integer."},
		{"GET", "/api/v1/policy/explain?session=s1", "", "action is missing from the query."},
	} {
		if p := h.want(400, h.admin, row.method, row.path, row.body).json(t); p["detail"] != row.want {
			t.Errorf("%s %s: %v, want %s", row.path, row.body, p, row.want)
		}
	}
	p := h.want(400, h.admin, "POST", "/api/v1/connectors", `{"name":"a","url":"ftp://x"}`).json(t)
	if !strings.HasPrefix(p["detail"].(string), "url must be ") {
		t.Errorf("problem %v", p)
	}
}

func TestConnectorsThatCannotBe(t *testing.T) {
	h := newHouse(t)
	h.want(200, h.admin, "PUT", "/api/v1/secrets/gh", `{"value":"v","host":"api.github.com"}`)
	for body, field := range map[string]string{
		`{"name":"a","url":"ftp://x.example"}`:                               "/url",
		`{"name":"a","url":"https://user:pw@x.example/"}`:                    "/url",
		`{"name":"a","url":"/mcp"}`:                                          "/url",
		`{"name":"a","url":"https://x.example/","slug":"Not A Slug"}`:        "/slug",
		`{"name":"a","url":"https://x.example/","slug":"invocation"}`:        "/slug",
		`{"name":"a","url":"https://x.example/","slug":"seventeen-letters"}`: "/slug",
		`{"name":"a","url":"https://x.example/","header":"Host"}`:            "/header",
		`{"name":"a","url":"https://x.example/","header":"mcp-session-id"}`:  "/header",
		`{"name":"a","url":"https://x.example/","header":"no header"}`:       "/header",
		`{"name":"a","url":"https://x.example/","prefix":"a\u0000"}`:         "/prefix",
		`{"name":"a","url":"https://x.example/","secret":"none"}`:            "/secret",
		`{"name":"a","url":"https://evil.example/","secret":"gh"}`:           "/secret",
		`{"name":"a","url":"https://api.github.com:8443/","secret":"gh"}`:    "/secret",
		`{"name":"a","url":"https://x.example/","default_risk":"none"}`:      "/default_risk",
		`{"name":"a\u202e","url":"https://x.example/"}`:                      "/name",
		`{"url":"https://x.example/"}`:                                       "/name",
		`{"name":"a","url":"https://x.example/","enabled":false}`:            "/enabled",
	} {
		r := h.want(400, h.admin, "POST", "/api/v1/connectors", body)
		if got := r.json(t)["field"]; got != field {
			t.Errorf("%s: field %v, want %s\n%s", body, got, field, r.body)
		}
	}
}

func TestPolicyKeysNameConnectors(t *testing.T) {
	h := newHouse(t)
	for _, key := range []string{"github:create", "GitHub:create", "c1:create", "connector:c1:create"} {
		m := h.want(200, h.admin, "PUT", "/api/v1/policy/modes/"+key, `{"mode":"allow"}`).json(t)
		if m["key"] != "connector:c1:create" || m["name"] != "github:create" {
			t.Errorf("%s is stored as %v", key, m)
		}
	}
	h.want(200, h.admin, "PUT", "/api/v1/policy/modes/github:resources%2Fread", `{"mode":"deny"}`)
	h.want(200, h.admin, "PUT", "/api/v1/policy/modes/*", `{"mode":"deny","automation":"nightly"}`)
	if list := h.want(200, h.member, "GET", "/api/v1/policy/modes", "").json(t); len(list["items"].([]any)) != 3 {
		t.Errorf("modes %v", list)
	}
	h.problem(404, "no_such_source", h.admin, "PUT", "/api/v1/policy/modes/gihtub:create", `{"mode":"deny"}`)
	h.problem(400, "invalid_key", h.admin, "PUT", "/api/v1/policy/modes/nothing", `{"mode":"deny"}`)
	h.problem(400, "invalid_request", h.admin, "PUT", "/api/v1/policy/modes/github:create", `{"mode":"perhaps"}`)
	h.want(404, h.admin, "DELETE", "/api/v1/policy/modes/*", "")
	h.want(204, h.admin, "DELETE", "/api/v1/policy/modes/*?automation=nightly", "")

	e := h.want(200, h.member, "GET", "/api/v1/policy/explain?session=s1&action=github:create", "").json(t)
	if e["mode"] != "require_approval" || e["mode_source"] != "inferred" || len(e["steps"].([]any)) != 3 || e["key"] != "connector:c1:create" {
		t.Errorf("explanation %v", e)
	}
	if h.count("all_calls") != 0 {
		t.Error("an explanation wrote a row")
	}
	h.problem(404, "unknown_action", h.member, "GET", "/api/v1/policy/explain?session=s1&action=github:nothing", "")
	h.problem(400, "invalid_request", h.member, "GET", "/api/v1/policy/explain?session=s1", "")
}

// A denial of what is not there would deny nothing, and nobody would notice.
func TestPolicyKeysNameActionsThatExist(t *testing.T) {
	h := newHouse(t)
	set := func(key string) string { return "/api/v1/policy/modes/" + key }
	p := h.problem(400, "unknown_action", h.admin, "PUT", set("github:github_create"), `{"mode":"deny"}`)
	if p["field"] != "/key" || !strings.Contains(p["detail"].(string), "use github:create.") {
		t.Errorf("the name that agents see: %v", p)
	}
	p = h.problem(400, "unknown_action", h.admin, "PUT", set("connector:c1:Craete"), `{"mode":"allow"}`)
	if p["field"] != "/key" || !strings.Contains(p["detail"].(string), "nearest: create, ") || strings.Count(p["detail"].(string), ", ") != 3 {
		t.Errorf("a typo: %v", p)
	}
	if n := h.count("policy_overrides"); n != 0 {
		t.Errorf("%d stored", n)
	}
	h.want(200, h.admin, "PUT", set("github:*"), `{"mode":"deny"}`)

	// A server that was not asked yet is asked.
	was := h.connector("c1").URL
	h.serves("http://new.example/mcp")
	h.problem(400, "unknown_action", h.admin, "PUT", set("github:craete"), `{"mode":"deny"}`)

	// What is not known cannot be checked, and that is said.
	h.serves(was)
	h.exec("UPDATE connectors SET enabled = 0 WHERE id = 'c1'")
	warns := func(key string, words ...string) {
		t.Helper()
		got, _ := h.want(200, h.admin, "PUT", set(key), `{"mode":"deny"}`).json(t)["warning"].(string)
		for _, w := range words {
			if !strings.Contains(got, w) {
				t.Errorf("%s: the warning %q does not say %q", key, got, w)
			}
		}
		if got != "" && len(words) == 0 {
			t.Errorf("%s: there is nothing to warn of: %s", key, got)
		}
	}
	warns("github:craete", `github is off and never listed an action "craete"`, "Did you mean create")
	warns("github:create")
	h.serves("http://down.example/mcp")
	h.exec("UPDATE connectors SET enabled = 1 WHERE id = 'c1'")
	warns("github:later", `github cannot be asked and never listed an action "later"`)
	warns("github:*")
	h.serves("http://empty.example/mcp")
	h.problem(400, "unknown_action", h.admin, "PUT", set("github:later"), `{"mode":"deny"}`)
	h.want(204, h.admin, "DELETE", set("github:later"), "") // the way back stays open
}

func TestInvoke(t *testing.T) {
	h := newHouse(t)
	const path = "/api/v1/sessions/s1/actions/invoke"
	read := h.want(200, h.agent, "POST", path, `{"source":"github","action":"list","params":{"n":9007199254740993,"big":1e400}}`)
	if !strings.Contains(read.body, `"n":9007199254740993,"big":1e400`) {
		t.Errorf("the result lost digits: %s", read.body)
	}
	if got := string(h.gate.calls[0].Params); got != `{"n":9007199254740993,"big":1e400}` {
		t.Errorf("the params lost digits: %s", got)
	}
	if h.gate.deliveries() != 1 {
		t.Error("the Gate was not told of the delivery")
	}
	held := h.want(202, h.agent, "POST", path, `{"source":"github","action":"create","params":{}}`, "Idempotency-Key", "k1").json(t)
	inv := held["invocation"].(map[string]any)
	if inv["status"] != "pending" || inv["approval_url"] != public+"/invocations/"+inv["id"].(string) || h.gate.calls[1].IdempotencyKey != "k1" {
		t.Errorf("held %v", held)
	}
	denied := h.problem(403, "denied", h.agent, "POST", path, `{"source":"github","action":"drop"}`)
	if denied["invocation"] == nil {
		t.Errorf("a denial names no invocation: %v", denied)
	}
	failed := h.want(200, h.agent, "POST", path, `{"source":"github","action":"broken"}`).json(t)
	if failed["invocation"].(map[string]any)["status"] != "failed" || failed["result"] == nil {
		t.Errorf("failed %v", failed)
	}
	p := h.problem(400, "invalid_params", h.agent, "POST", path, `{"source":"github","action":"create","params":{"wrong":1}}`)
	if p["field"] != "/params/wrong" {
		t.Errorf("problem %v", p)
	}
	h.problem(404, "unknown_action", h.agent, "POST", path, `{"source":"github","action":"nothing"}`)
	h.problem(400, "invalid_field", h.agent, "POST", path, `{"source":"github","action":"list","idempotency_key":"a"}`, "Idempotency-Key", "b")
	h.problem(400, "invalid_field", h.agent, "POST", path+"?wait=soon", `{"source":"github","action":"list"}`)
	h.problem(403, "other_session", h.other, "POST", path, `{"source":"github","action":"list"}`)
	h.problem(403, "session_only", h.owner, "POST", path, `{"source":"github","action":"list"}`)
}

// Who is denied is told by whom, and what to do next.
func TestADenialSaysWhose(t *testing.T) {
	h := newHouse(t)
	for reason, want := range map[string]string{
		action.DeniedPolicy:   "is denied by policy; nothing was executed. group 'developer' has level 1",
		action.DeniedHuman:    "was denied by a person; nothing was executed. Reason given: group",
		action.DeniedRepeated: "because a person recently denied the same call",
		action.DeniedOften:    "is denied in this session from now on",
		action.DeniedQuota:    "because this session reached a limit of the gateway; nothing was executed. Reason given: ",
	} {
		id := h.pending("s1")
		h.ends(id, action.StatusDenied, reason, "group 'developer' has level 1 (read) at github")
		p := h.problem(403, "denied", h.agent, "GET", "/api/v1/sessions/s1/actions/invocations/"+id+"/result", "")
		if !strings.Contains(p["detail"].(string), want) || p["invocation"] != id {
			t.Errorf("%s: %v", reason, p)
		}
	}
}

func TestSessionReadsItsOwn(t *testing.T) {
	h := newHouse(t)
	mine, theirs := h.pending("s1"), h.pending("s2")
	const base = "/api/v1/sessions/s1/actions"
	list := h.want(200, h.agent, "GET", base+"/invocations", "").json(t)
	if len(list["items"].([]any)) != 1 {
		t.Errorf("list %v", list)
	}
	h.want(200, h.agent, "GET", base+"/invocations/"+mine, "")
	h.want(404, h.agent, "GET", base+"/invocations/"+theirs, "")
	h.want(202, h.agent, "GET", base+"/invocations/"+mine+"/result", "")
	h.want(404, h.agent, "GET", base+"/invocations/"+theirs+"/result", "")
	h.want(404, h.admin, "POST", base+"/invocations/"+theirs+"/approve", "")
	h.want(200, h.admin, "POST", base+"/invocations/"+mine+"/approve", "")
	done := h.want(200, h.agent, "GET", base+"/invocations/"+mine+"/result?wait=1s", "").json(t)
	if done["result"] == nil || h.gate.deliveries() != 1 {
		t.Errorf("result %v, %d deliveries", done, h.gate.deliveries())
	}
	available := h.want(200, h.agent, "GET", base+"/available", "").json(t)
	if len(available["items"].([]any)) != 4 {
		t.Errorf("available %v", available)
	}
}

func TestDecide(t *testing.T) {
	h := newHouse(t)
	id := h.pending("s1")
	path := "/api/v1/invocations/" + id
	full := h.want(200, h.admin, "GET", path+"/params", "")
	if !strings.Contains(full.body, `{"n":9007199254740993,"password":"hunter2","ref":1,"title":"Bug"}`) || full.json(t)["full"] != true {
		t.Errorf("params %s", full.body)
	}
	if row := h.want(200, h.member, "GET", path, ""); strings.Contains(row.body, "hunter2") {
		t.Errorf("a row shows a secret: %s", row.body)
	}
	p := h.problem(400, "unknown_field", h.admin, "POST", path+"/approve", `{"approved_by":"someone"}`)
	if p["field"] != "/approved_by" {
		t.Errorf("problem %v", p)
	}
	h.problem(409, "params_changed", h.admin, "POST", path+"/approve", `{"params_hash":"another"}`)
	h.problem(403, "role_required", h.member, "POST", path+"/approve", `{}`)
	h.problem(403, "people_only", h.agent, "POST", path+"/approve", `{}`)

	seen := must(h.db.Invocation(t.Context(), org, id))
	out := h.want(200, h.admin, "POST", path+"/approve?wait=5s", `{"params_hash":"`+seen.ParamsHash+`","tool_hash":"tool-hash"}`).json(t)
	inv := out["invocation"].(map[string]any)
	if inv["approved_by"] != "u-ben" || inv["status"] != "completed" || out["result"] == nil {
		t.Errorf("approved %v", out)
	}
	p = h.problem(409, "already_decided", h.owner, "POST", path+"/deny", `{"reason":"no"}`)
	if p["invocation"] != id {
		t.Errorf("problem %v", p)
	}
	second := h.pending("s1")
	denied := h.want(200, h.owner, "POST", "/api/v1/invocations/"+second+"/deny", `{"reason":"Use staging."}`).json(t)["invocation"].(map[string]any)
	if denied["status"] != "denied" || denied["denied_note"] != "Use staging." || denied["approved_by"] != "u-ada" {
		t.Errorf("denied %v", denied)
	}
	h.problem(404, "invocation_not_found", h.admin, "POST", "/api/v1/invocations/none/approve", "")
	third := h.pending("s1")
	h.ends(third, action.StatusExpired, "", "")
	h.problem(410, "expired", h.admin, "POST", "/api/v1/invocations/"+third+"/approve", "")
}

func TestUsers(t *testing.T) {
	h := newHouse(t)
	u := h.want(201, h.admin, "POST", "/api/v1/users", `{"name":"Dee"}`).json(t)
	if u["role"] != "member" {
		t.Errorf("user %v", u)
	}
	path := "/api/v1/users/" + u["id"].(string)
	h.problem(403, "owner_required", h.admin, "PATCH", path, `{"role":"owner"}`)
	h.problem(403, "owner_required", h.admin, "POST", "/api/v1/users", `{"name":"E","role":"owner"}`)
	h.problem(403, "owner_required", h.admin, "POST", "/api/v1/users/u-ada/login-link", "")
	h.problem(403, "owner_required", h.admin, "DELETE", "/api/v1/users/u-ada", "")
	h.problem(409, "last_owner", h.owner, "DELETE", "/api/v1/users/u-ada", "")
	h.problem(409, "last_owner", h.owner, "PATCH", "/api/v1/users/u-ada", `{"role":"member"}`)
	h.want(200, h.owner, "PATCH", path, `{"role":"owner"}`)
	h.want(200, h.owner, "PATCH", "/api/v1/users/u-ada", `{"role":"member"}`)
	h.problem(403, "role_required", h.owner, "PATCH", path, `{"role":"member"}`)
}

func TestAKeyIsNeverMoreThanItsUser(t *testing.T) {
	h := newHouse(t)
	h.problem(403, "owner_required", h.admin, "POST", "/api/v1/api-keys", `{"name":"x","role":"owner"}`)
	k := h.want(201, h.admin, "POST", "/api/v1/api-keys", `{"name":"x","role":"admin"}`).json(t)
	key := k["key"].(string)
	if list := h.want(200, h.member, "GET", "/api/v1/api-keys", ""); strings.Contains(list.body, key) || strings.Contains(h.log.String(), key) {
		t.Error("a key was shown again")
	}
	h.want(201, key, "POST", "/api/v1/users", `{"name":"x"}`)
	h.want(200, h.owner, "PATCH", "/api/v1/users/u-ben", `{"role":"member"}`)
	h.problem(403, "role_required", key, "POST", "/api/v1/users", `{"name":"x"}`)
	h.want(204, h.owner, "DELETE", "/api/v1/users/u-ben", "")
	h.problem(401, "unauthenticated", key, "GET", "/api/v1/me", "")

	k = h.want(201, h.owner, "POST", "/api/v1/api-keys", `{"name":"y"}`).json(t)
	h.want(204, h.owner, "DELETE", "/api/v1/api-keys/"+k["id"].(string), "")
	h.problem(401, "key_revoked", k["key"].(string), "GET", "/api/v1/me", "")
}

func TestHealth(t *testing.T) {
	h := newHouse(t)
	h.want(200, "", "GET", "/healthz", "", "Host", "10.0.0.7:8787")
	h.want(200, "", "GET", "/readyz", "")
	h.srv.Close()
	h.problem(http.StatusServiceUnavailable, "shutting_down", "", "GET", "/readyz", "")
}

// Who asks for what is not there learns where to look for what is.
func TestWhatIsMissingNamesItsList(t *testing.T) {
	h := newHouse(t)
	theirs := h.pending("s2")
	for _, row := range []struct{ credential, method, path, list string }{
		{h.member, "GET", "/api/v1/grants/none", "/api/v1/grants"},
		{h.admin, "DELETE", "/api/v1/grants/none", "/api/v1/grants"},
		{h.member, "GET", "/api/v1/grant-requests/none", "/api/v1/grant-requests"},
		{h.admin, "POST", "/api/v1/grant-requests/none/approve", "/api/v1/grant-requests"},
		{h.admin, "DELETE", "/api/v1/gates/none", "/api/v1/gates"},
		{h.member, "GET", "/api/v1/sessions/none", "/api/v1/sessions"},
		{h.member, "GET", "/api/v1/sessions/none/actions/available", "/api/v1/sessions"},
		{h.member, "GET", "/api/v1/invocations/none", "/api/v1/invocations"},
		{h.admin, "POST", "/api/v1/invocations/none/deny", "/api/v1/invocations"},
		{h.agent, "GET", "/api/v1/sessions/s1/actions/invocations/none", "/api/v1/sessions/s1/actions/invocations"},
		{h.agent, "GET", "/api/v1/sessions/s1/actions/invocations/" + theirs, "/api/v1/sessions/s1/actions/invocations"},
	} {
		p := h.want(404, row.credential, row.method, row.path, "").json(t)
		if !strings.HasSuffix(p["detail"].(string), " GET "+row.list+" lists them.") {
			t.Errorf("%s %s: %v", row.method, row.path, p["detail"])
		}
	}
}

// A request for a grant is no held call, though both wait in the inbox.
func TestARequestIsNotDecidedAsACall(t *testing.T) {
	h := newHouse(t)
	id := h.want(202, h.agent, "POST", "/api/v1/sessions/s1/actions/grants", `{"source":"github","action":"create"}`).json(t)["id"].(string)
	for _, base := range []string{"/api/v1/invocations/", "/api/v1/sessions/s1/actions/invocations/"} {
		for _, verb := range []string{"approve", "deny"} {
			p := h.problem(404, "is_grant_request", h.admin, "POST", base+id+"/"+verb, "")
			if !strings.Contains(p["detail"].(string), "/api/v1/grant-requests/"+id+"/approve approves it.") {
				t.Errorf("%s %s: %v", base, verb, p)
			}
		}
	}
}
