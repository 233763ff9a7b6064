package dashboard_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

// list returns the items of a list.
func (r reply) list(t *testing.T) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, item := range r.json(t)["items"].([]any) {
		out = append(out, item.(map[string]any))
	}
	return out
}

// hinted counts the hints of policy that f publishes.
func (h *house) hinted(f func()) (n int) {
	h.t.Helper()
	cancel := h.hints.Subscribe(func(x action.Hint) {
		if x.Kind == action.HintPolicy && x.Organization == org {
			n++
		}
	})
	defer cancel()
	f()
	return n
}

// What is not right is refused with the field, changes nothing and tells
// nobody.
func TestBadPolicyChangesNothing(t *testing.T) {
	h := newHouse(t)
	wished := h.want(202, h.agent, "POST", "/api/v1/sessions/s1/actions/grants", `{"source":"github","action":"create","max_calls":5}`).json(t)["id"].(string)
	id := h.pending("s1")
	const (
		capability = "PUT /api/v1/capabilities/developer/github"
		quota      = "PUT /api/v1/policy/quotas/github:create"
		gates      = "POST /api/v1/gates"
		grants     = "POST /api/v1/grants"
		wish       = "POST /api/v1/sessions/s1/actions/grants"
		settings   = "PUT /api/v1/policy/settings"
		review     = "POST /api/v1/connectors/github/review"
	)
	approve, narrow := "POST /api/v1/invocations/"+id+"/approve", "POST /api/v1/grant-requests/"+wished+"/approve"
	before := h.rows(org)
	hints := h.hinted(func() {
		for _, row := range []struct{ route, body, field string }{
			{"PUT /api/v1/policy/modes/github:create", `{"mode":"perhaps"}`, "/mode"},
			{"PUT /api/v1/policy/modes/github:cr*te", `{"mode":"deny"}`, "/key"},
			{"PUT /api/v1/policy/modes/git*:create", `{"mode":"deny"}`, "/key"},

			{capability, `{"level":4}`, "/level"},
			{capability, `{"level":-1}`, "/level"},
			{capability, `{"level":1.5}`, "/level"},
			{capability, `{"level":"admin"}`, "/level"},
			{capability, `{"level":null}`, "/level"},
			{capability, `{}`, "/level"},
			{capability, `{"level":3}`, "/required_gate"},
			{capability, `{"level":2,"allowed_actions":["cr*"]}`, "/allowed_actions/0"},
			{capability, `{"level":2,"allowed_actions":["create","nothing"]}`, "/allowed_actions/1"},
			{capability, `{"level":2,"denied_actions":["*"]}`, "/denied_actions/0"},
			{capability, `{"level":2,"rate":{"calls":0,"seconds":60}}`, "/rate/calls"},
			{capability, `{"level":2,"rate":{"calls":1,"seconds":86401}}`, "/rate/seconds"},
			{capability, `{"level":2,"rate":{"calls":1}}`, "/rate/seconds"},
			{capability, `{"level":2,"expires_at":"2026-03-01T12:00:00Z"}`, "/expires_at"},
			{capability, `{"level":2,"expires_in":"-1h"}`, "/expires_in"},
			{capability, `{"level":2,"expires_in":"soon"}`, "/expires_in"},
			{capability, `{"level":2,"expires_in":"1h","expires_at":"2027-03-01T12:00:00Z"}`, "/expires_in"},
			{"PUT /api/v1/capabilities/developer/gihtub", `{"level":2}`, "/provider"},

			{gates, `{"gate":"deploy","group":"g","task":""}`, "/task"},
			{gates, `{"gate":"deploy","group":"g","task":"T-1","actions":["*"]}`, "/actions/0"},
			{gates, `{"gate":"deploy","group":"g","task":"T-1","actions":["github:create","github:c*"]}`, "/actions/1"},
			{gates, `{"gate":"deploy","group":"g","task":"T-1","actions":["gihtub:create"]}`, "/actions/0"},
			{gates, `{"gate":"deploy","group":"g","task":"T-1","actions":[]}`, "/actions"},
			{gates, `{"gate":"deploy","group":"g","task":"T-1","expires_at":"2020-01-01T00:00:00Z"}`, "/expires_at"},

			{quota, `{"per":"team","calls":1,"seconds":60}`, "/per"},
			{quota, `{"per":"session","calls":-1,"seconds":60}`, "/calls"},
			{quota, `{"per":"session","calls":1,"seconds":0}`, "/seconds"},
			{"PUT /api/v1/policy/quotas/github:nothing", `{"per":"session","calls":1,"seconds":60}`, "/key"},
			{settings, `{"denial_limit":-1}`, "/denial_limit"},
			{settings, `{"self_approval":"no"}`, "/self_approval"},

			{grants, `{"scope":"world","source":"github","action":"create"}`, "/scope"},
			{grants, `{"scope":"session","source":"github","action":"create"}`, "/session_id"},
			{grants, `{"scope":"org","source":"gihtub","action":"create"}`, "/source"},
			{grants, `{"scope":"org","source":"github","action":"cr*te"}`, "/action"},
			{grants, `{"scope":"org","source":"github"}`, "/action"},
			{grants, `{"scope":"org","any":true,"action":"create"}`, "/action"},
			{grants, `{"scope":"org","source":"github","action":"create","pins":{"channel":"C1"}}`, "/pins"},
			{grants, `{"scope":"org","source":"github","action":"create","max_calls":-1}`, "/max_calls"},
			{grants, `{"scope":"org","source":"github","action":"create","expires_at":"2020-01-01T00:00:00Z"}`, "/expires_at"},
			{grants, `{"scope":"org","source":"github","action":"create","tool_hash":"x"}`, "/tool_hash"},
			{wish, `{"source":"github","action":"create","max_calls":0}`, "/max_calls"},
			{wish, `{"source":"github","action":"create","pins":{"/a":1,"b":2}}`, "/pins"},
			{wish, `{"source":"github","action":"create","expires_in":"0s"}`, "/expires_in"},
			{wish, `{"source":"github","action":"create","session_id":"s2"}`, "/session_id"},
			{narrow, `{"scope":"org"}`, "/scope"},
			{narrow, `{"max_calls":6}`, "/max_calls"},
			{narrow, `{"expires_in":"0"}`, "/expires_in"},
			{narrow, `{"pins":{"channel":"C1"}}`, "/pins"},
			{narrow, `{"action":"drop"}`, "/action"},

			{approve, `{"mode":"always"}`, "/mode"},
			{approve, `{"mode":"once","grant":{}}`, "/mode"},
			{approve, `{"grant":{"scope":"world"}}`, "/grant/scope"},
			{approve, `{"grant":{"max_calls":0}}`, "/grant/max_calls"},
			{approve, `{"grant":{"expires_at":"2020-01-01T00:00:00Z"}}`, "/grant/expires_at"},
			{approve, `{"grant":{"pins":{"title":"Bug"}}}`, "/grant/pins"},
			{approve, `{"grant":{"pin":["/nothing"]}}`, "/grant/pin"},
			{approve, `{"grant":{"source":"linear"}}`, "/grant/source"},

			{review, `{}`, "/tools"},
			{review, `{"tools":[]}`, "/tools"},
			{review, `{"all":true,"tools":[{"tool":"create","behaviour_hash":"b","text_hash":"t"}]}`, "/tools"},
			{review, `{"tools":[{"tool":"create","text_hash":"t"}]}`, "/tools/0/behaviour_hash"},
			{review, `{"tools":[{"tool":"drop"},{"tool":"create","behaviour_hash":"b"}]}`, "/tools/1/text_hash"},
			{"POST /api/v1/connectors", `{"name":"a","url":"https://x.example/","review":"never"}`, "/review"},
			{"POST /api/v1/connectors", `{"name":"a","url":"https://x.example/","tool_risks":{"drop/all":"mild"}}`, "/tool_risks/drop~1all"},
			{"PATCH /api/v1/connectors/github", `{"tool_risks":{"drop":""}}`, "/tool_risks/drop"},
			{"GET /api/v1/policy/explain?session=s1&action=github:create&params=%7B%22wrong%22:1%7D", ``, "/params/wrong"},
			{"GET /api/v1/policy/explain?session=s1&action=github:create&params=%7B", ``, "/params"},
			{"GET /api/v1/policy/explain?session=s1&action=github:*", ``, "/action"},
			{"GET /api/v1/audit/export?from=yesterday", ``, "/from"},
			{"GET /api/v1/audit/export?from=2026-02-01&to=2026-01-01", ``, "/to"},
			{"GET /api/v1/audit/export?status=pending,odd", ``, "/status"},
			{"GET /api/v1/audit/export?format=xml", ``, "/format"},
			{"POST /api/v1/audit/verify", `{"head":{"organization_id":"org2","seq":1,"hash":"a","mac":"b","at":"2026-01-01T00:00:00Z"}}`, "/head/organization_id"},
		} {
			method, path, _ := strings.Cut(row.route, " ")
			credential := h.admin
			if row.route == wish {
				credential = h.agent
			}
			r := h.do(credential, method, path, row.body)
			field, _ := r.json(t)["field"].(string)
			if (r.StatusCode != 400 && r.StatusCode != 404) || !strings.HasPrefix(field, row.field) {
				t.Errorf("%s %s: %d %s, want %s", row.route, row.body, r.StatusCode, r.body, row.field)
			}
		}
	})
	if diff := cmp.Diff(before, h.rows(org)); diff != "" || hints != 0 {
		t.Errorf("something changed, %d hints:\n%s", hints, diff)
	}
}

// Every change of policy is by somebody, and told to the rest of the gateway.
func TestEveryChangeOfPolicyIsHinted(t *testing.T) {
	h := newHouse(t)
	h.listed("create", nil, &action.ToolVersion{Definition: json.RawMessage(`{}`)}, "")
	id := h.pending("s1")
	var asked []string
	ask := func() {
		r := h.want(202, h.agent, "POST", "/api/v1/sessions/s1/actions/grants", fmt.Sprintf(`{"source":"github","action":"create","max_calls":%d}`, len(asked)+1))
		asked = append(asked, r.json(t)["id"].(string))
	}
	if n := h.hinted(ask); n != 1 {
		t.Errorf("a request is told %d times", n)
	}
	ask()
	var made string // by the request before
	for _, row := range []struct{ route, body string }{
		{"PUT /api/v1/policy/modes/github:create", `{"mode":"deny"}`},
		{"DELETE /api/v1/policy/modes/github:create", ``},
		{"PUT /api/v1/capabilities/developer/github", `{"level":"read"}`},
		{"DELETE /api/v1/capabilities/developer/github", ``},
		{"POST /api/v1/gates", `{"gate":"deploy","group":"g","task":"T-1"}`},
		{"DELETE /api/v1/gates/{made}", ``},
		{"PUT /api/v1/policy/quotas/github:*", `{"per":"session","calls":1,"seconds":60}`},
		{"DELETE /api/v1/policy/quotas/github:*?per=session", ``},
		{"PUT /api/v1/policy/settings", `{"self_approval":false}`},
		{"POST /api/v1/grants", `{"scope":"org","source":"github","action":"create"}`},
		{"DELETE /api/v1/grants/{made}", ``},
		{"POST /api/v1/invocations/" + id + "/approve", `{"mode":"grant"}`},
		{"POST /api/v1/grant-requests/" + asked[0] + "/approve", ``},
		{"POST /api/v1/grant-requests/" + asked[1] + "/deny", ``},
		{"POST /api/v1/connectors/github/review", `{"all":true}`},
		{"PATCH /api/v1/connectors/github", `{"review":"required"}`},
		{"PUT /api/v1/secrets/gh", `{"value":"v","host":"h.example"}`},
		{"DELETE /api/v1/connectors/github", ``},
	} {
		method, path, _ := strings.Cut(row.route, " ")
		if n := h.hinted(func() {
			r := h.do(h.admin, method, strings.Replace(path, "{made}", made, 1), row.body)
			if r.StatusCode >= 300 {
				t.Errorf("%s: %d %s", row.route, r.StatusCode, r.body)
			}
			if r.StatusCode == 201 {
				made = r.json(t)["id"].(string)
			}
		}); n != 1 {
			t.Errorf("%s is told %d times", row.route, n)
		}
	}
	events := h.want(200, h.member, "GET", "/api/v1/policy/events?limit=2", "").json(t)
	if first := events["items"].([]any)[0].(map[string]any); first["kind"] != "connector" || first["by"] != "u-ben" || events["next_cursor"] == nil {
		t.Errorf("events %v", events)
	}
	if got := h.want(200, h.member, "GET", "/api/v1/policy/events?kind=settings", "").list(t); len(got) != 1 {
		t.Errorf("events of settings %v", got)
	}
}

func TestCapabilities(t *testing.T) {
	h := newHouse(t)
	const path = "/api/v1/capabilities/developer/github"
	for level, want := range map[string]string{`0`: "0", `1`: "1", `"write"`: "2", `"none"`: "0", `3`: "3", `"production"`: "3"} {
		c := h.want(200, h.admin, "PUT", path, `{"level":`+level+`,"required_gate":"deploy"}`).json(t)
		if c["level"] != json.Number(want) || c["provider"] != "connector:c1" || c["name"] != "github" || c["granted_by"] != "u-ben" {
			t.Errorf("%s: %v", level, c)
		}
	}
	all := h.want(200, h.admin, "PUT", path, `{"level":2,"allowed_actions":null,"rate":null,"expires_at":null}`).json(t)
	if v, ok := all["allowed_actions"]; !ok || v != nil || all["rate"] != nil {
		t.Errorf("without a list all are allowed: %v", all)
	}
	none := h.want(200, h.admin, "PUT", path, `{"level":2,"allowed_actions":[],"denied_actions":["drop"],"rate":{"calls":5,"seconds":60},"expires_in":"24h"}`).json(t)
	if v, ok := none["allowed_actions"].([]any); !ok || len(v) != 0 || none["expires_at"] != "2026-03-02T12:00:00Z" || none["rate"] == nil {
		t.Errorf("an empty list allows none: %v", none)
	}
	if got := h.want(200, h.member, "GET", "/api/v1/capabilities?group=developer", "").list(t); len(got) != 1 || got[0]["name"] != "github" {
		t.Errorf("list %v", got)
	}
	if got := h.want(200, h.member, "GET", "/api/v1/capabilities?group=other", "").list(t); len(got) != 0 {
		t.Errorf("list of another group %v", got)
	}
	h.want(204, h.admin, "DELETE", path, "")
	h.want(404, h.admin, "DELETE", path, "")

	snap := h.want(200, h.member, "GET", "/api/v1/capabilities/developer?task=T-1", "").json(t)
	if snap["group"] != "developer" || snap["task"] != "T-1" || !strings.Contains(string(mustJSON(t, snap)), `"denied":true`) {
		t.Errorf("snapshot of a group %v", snap)
	}
	h.mint(action.Session{ID: "s3", Organization: org, Group: "ops", Task: "T-2"})
	own := h.want(200, h.signer.Mint("s3"), "GET", "/api/v1/sessions/s3/actions/capabilities", "").json(t)
	if own["group"] != "ops" || own["task"] != "T-2" {
		t.Errorf("snapshot of a session %v", own)
	}
	h.problem(403, "other_session", h.other, "GET", "/api/v1/sessions/s1/actions/capabilities", "")
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGates(t *testing.T) {
	h := newHouse(t)
	a := h.want(201, h.admin, "POST", "/api/v1/gates", `{"gate":"deploy","group":"g","task":"T-1","actions":["GitHub:drop","github:*"],"expires_in":"1h"}`).json(t)
	if diff := cmp.Diff([]any{"connector:c1:drop", "connector:c1:*"}, a["actions"]); diff != "" || a["approved_by"] != "u-ben" || a["expires_at"] != "2026-03-01T13:00:00Z" {
		t.Errorf("gate %v %s", a, diff)
	}
	every := h.want(201, h.owner, "POST", "/api/v1/gates", `{"gate":"deploy","group":"g","task":"T-2","actions":null}`).json(t)
	if every["actions"] != nil {
		t.Errorf("gate for every action %v", every)
	}
	if got := h.want(200, h.member, "GET", "/api/v1/gates?task=T-2", "").list(t); len(got) != 1 {
		t.Errorf("gates %v", got)
	}
	h.want(204, h.admin, "DELETE", "/api/v1/gates/"+a["id"].(string), "")
	h.want(404, h.admin, "DELETE", "/api/v1/gates/none", "")
}

func TestQuotasAndSettings(t *testing.T) {
	h := newHouse(t)
	q := h.want(200, h.admin, "PUT", "/api/v1/policy/quotas/github:create", `{"per":"group","calls":3,"seconds":60}`).json(t)
	if q["key"] != "connector:c1:create" || q["name"] != "github:create" || q["updated_by"] != "u-ben" {
		t.Errorf("quota %v", q)
	}
	h.want(200, h.admin, "PUT", "/api/v1/policy/quotas/*", `{"per":"organization","calls":100,"seconds":86400}`)
	if got := h.want(200, h.member, "GET", "/api/v1/policy/quotas", "").list(t); len(got) != 2 {
		t.Errorf("quotas %v", got)
	}
	h.problem(400, "invalid_request", h.admin, "DELETE", "/api/v1/policy/quotas/github:create", "")
	h.want(404, h.admin, "DELETE", "/api/v1/policy/quotas/github:create?per=session", "")
	h.want(204, h.admin, "DELETE", "/api/v1/policy/quotas/github:create?per=group", "")

	for _, row := range []struct{ body, want string }{
		{``, `{"self_approval":true,"denial_limit":3,"unverified_events":false}`},
		{`{"denial_limit":0}`, `{"self_approval":true,"denial_limit":0,"unverified_events":false}`},
		{`{"self_approval":false}`, `{"self_approval":false,"denial_limit":0,"unverified_events":false}`},
		{`{"unverified_events":true}`, `{"self_approval":false,"denial_limit":0,"unverified_events":true}`},
		{`{}`, `{"self_approval":false,"denial_limit":0,"unverified_events":true}`},
	} {
		if row.body != "" {
			h.want(200, h.owner, "PUT", "/api/v1/policy/settings", row.body)
		}
		if got := strings.TrimSpace(h.want(200, h.member, "GET", "/api/v1/policy/settings", "").body); got != row.want {
			t.Errorf("after %s: %s, want %s", row.body, got, row.want)
		}
	}
}

// TestDefaultGroup: owners and admins choose the group of sessions that are created
// without one, and members cannot choose another.
func TestDefaultGroup(t *testing.T) {
	h := newHouse(t)
	settings := func(group string) string { return fmt.Sprintf(`{"default_group":%q}`, group) }
	h.problem(400, "default_group_unknown", h.admin, "PUT", "/api/v1/policy/settings", settings("readers"))
	h.want(200, h.admin, "PUT", "/api/v1/capabilities/readers/github", `{"level":"read"}`)
	h.problem(403, "role_required", h.member, "PUT", "/api/v1/policy/settings", settings("readers"))
	if got := h.want(200, h.admin, "PUT", "/api/v1/policy/settings", settings("readers")).json(t); got["default_group"] != "readers" {
		t.Errorf("settings %v", got)
	}
	for _, row := range []struct {
		who, body, want string
	}{{h.member, `{}`, "readers"}, {h.admin, `{}`, "readers"}, {h.admin, `{"group":"writers"}`, "writers"}} {
		s := h.want(201, row.who, "POST", "/api/v1/sessions", row.body).json(t)
		stored := h.want(200, h.member, "GET", "/api/v1/sessions/"+s["session_id"].(string), "").json(t)
		if s["group"] != row.want || stored["group"] != row.want {
			t.Errorf("%s: group %v, stored %v, want %s", row.body, s["group"], stored["group"], row.want)
		}
	}
	h.problem(403, "role_required", h.member, "POST", "/api/v1/sessions", `{"group":"writers"}`)
	if e := h.want(200, h.member, "GET", "/api/v1/policy/events?kind=settings", "").list(t)[0]; e["after"].(map[string]any)["default_group"] != "readers" || e["by"] != "u-ben" {
		t.Errorf("history %v", e)
	}
	h.problem(409, "default_group_empty", h.admin, "DELETE", "/api/v1/capabilities/readers/github", "")
	admin, member := h.signIn("u-ben"), h.signIn("u-cyd")
	admin.shows(t, "/policy", `<option value="readers" selected>readers</option>`)
	member.shows(t, "/policy", "Sessions created without a group are in readers.")
	h.want(200, h.admin, "PUT", "/api/v1/capabilities/readers/github", `{"level":"none"}`)
	admin.shows(t, "/policy", "The default group has no access.")

	h.want(200, h.admin, "PUT", "/api/v1/policy/settings", settings(""))
	admin.shows(t, "/policy", "No default group.")
	h.want(204, h.admin, "DELETE", "/api/v1/capabilities/readers/github", "")
	if strings.Contains(admin.shows(t, "/policy"), "No default group.") {
		t.Error("the page warns although no group has access")
	}
	if s := h.want(201, h.member, "POST", "/api/v1/sessions", `{}`).json(t); s["group"] != nil {
		t.Errorf("group %v", s["group"])
	}
}

// TestGroupFromTemplate: a template sets capabilities at all sources, or at those that are
// named, and never changes a group.
func TestGroupFromTemplate(t *testing.T) {
	h := newHouse(t)
	templates := h.want(200, h.member, "GET", "/api/v1/group-templates", "").list(t)
	var names []any
	for _, t := range templates {
		names = append(names, t["name"])
	}
	if want := []any{"researcher", "contributor", "operator"}; !slices.Equal(names, want) {
		t.Fatalf("templates %v, want %v", names, want)
	}
	const groups = "/api/v1/groups"
	created := func(body string) string {
		t.Helper()
		var got []string
		for _, c := range h.want(201, h.admin, "POST", groups, body).list(t) {
			got = append(got, fmt.Sprintln(c["group"], c["name"], c["level"], c["denied_actions"], c["required_gate"], c["granted_by"]))
		}
		return strings.Join(got, "")
	}
	all := must(h.db.ListConnectors(t.Context(), org))
	if got := created(`{"group":"readers","template":"researcher"}`); strings.Count(got, "readers ") != len(all) || !strings.Contains(got, "readers github 1 <nil> <nil> u-ben\n") {
		t.Errorf("a researcher at all sources: %s", got)
	}
	if got, want := created(`{"group":"writers","template":"contributor","providers":["github","module:github","cloudlogs","github"]}`),
		"writers cloudlogs 1 <nil> <nil> u-ben\nwriters github 2 <nil> <nil> u-ben\nwriters github 2 [merge_pr] <nil> u-ben\n"; got != want {
		t.Errorf("a contributor:\n%swant\n%s", got, want)
	}
	if got, want := created(`{"group":"ops","template":"operator","providers":["github"],"required_gate":"deploy"}`), "ops github 3 <nil> deploy u-ben\n"; got != want {
		t.Errorf("an operator: %s", got)
	}
	if got, want := created(`{"group":"ops2","template":"operator","providers":["github"]}`), "ops2 github 3 <nil> production u-ben\n"; got != want {
		t.Errorf("an operator: %s", got)
	}
	for body, want := range map[string][2]string{
		`{"group":"x","template":"nothing"}`:                             {"invalid_field", "/template"},
		`{"group":"x","template":"researcher","required_gate":"deploy"}`: {"invalid_field", "/required_gate"},
		`{"group":"x","template":"researcher","providers":["nowhere"]}`:  {"no_such_source", "/providers/0"},
		`{"group":"readers","template":"operator"}`:                      {"group_exists", "/group"},
	} {
		r := h.do(h.admin, "POST", groups, body).json(t)
		if r["code"] != want[0] || r["field"] != want[1] {
			t.Errorf("%s: %v at %v, want %v", body, r["code"], r["field"], want)
		}
	}
	h.problem(403, "role_required", h.member, "POST", groups, `{"group":"x","template":"researcher"}`)
	if got := h.want(200, h.admin, "GET", "/api/v1/capabilities?group=x", "").list(t); len(got) != 0 {
		t.Errorf("refused requests left %v", got)
	}
}

func TestExplainSaysWhy(t *testing.T) {
	h := newHouse(t)
	e := h.want(200, h.member, "GET", "/api/v1/policy/explain?session=s1&action=GitHub:create&params=%7B%22n%22:1e400%7D", "").json(t)
	if e["reason"] != "A write action has this mode unless somebody says otherwise." || e["policy_version"] != json.Number(fmt.Sprint(must(h.db.PolicyVersion(t.Context(), org)))) || e["risk"] != "write" || e["listed"] != true {
		t.Errorf("explanation %v", e)
	}
	if h.count("all_calls") != 0 {
		t.Error("an explanation wrote a row")
	}
}

func TestSessionsOfEvents(t *testing.T) {
	h := newHouse(t)
	if p := h.problem(403, "role_required", h.member, "POST", "/api/v1/sessions", `{"event_id":"e1"}`); p["field"] != "/event_id" {
		t.Errorf("problem %v", p)
	}
	minted := h.want(201, h.admin, "POST", "/api/v1/sessions", `{"event_id":"e1"}`).json(t)
	if s := h.want(200, h.member, "GET", "/api/v1/sessions/"+minted["session_id"].(string), "").json(t); s["event_id"] != "e1" {
		t.Errorf("session %v", s)
	}
}

// A call that would ask, and be refused before anybody is, is told of.
func TestExplainForeseesRefusals(t *testing.T) {
	h := newHouse(t)
	for range 3 {
		h.want(200, h.admin, "POST", "/api/v1/invocations/"+h.heldDrifted()+"/deny", "")
	}
	const path = "/api/v1/policy/explain?session=s1&action=github:"
	e := h.want(200, h.member, "GET", path+"drifted", "").json(t)
	if e["refused"] != "often" || e["refused_note"] == nil || e["mode"] != "require_approval" || e["listed"] != true {
		t.Errorf("refused %v", e)
	}
	if e := h.want(200, h.member, "GET", path+"create", "").json(t); e["refused"] != nil || e["refused_note"] != nil {
		t.Errorf("not refused %v", e)
	}
}

// A path that lacks a name is refused where it is, and not sent elsewhere.
func TestPathsWithoutANameAreNotRedirected(t *testing.T) {
	h := newHouse(t)
	for _, path := range []string{"/api/v1/capabilities//notes", "/api/v1/capabilities/developer//", "/api/v1/capabilities/../notes", "/api//v1/connectors", "/api/v1/policy/modes/./x"} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			h.problem(400, "invalid_path", h.admin, method, path, "")
		}
	}
	h.want(200, h.admin, "PUT", "/api/v1/capabilities/a%2F%2Fb/github", `{"level":1}`)
	h.problem(404, "no_such_route", h.admin, "GET", "/api/v1/capabilities/", "")
}
