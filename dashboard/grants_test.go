package dashboard_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

func TestGrants(t *testing.T) {
	h := newHouse(t)
	g := h.want(201, h.admin, "POST", "/api/v1/grants",
		`{"scope":"session","session_id":"s1","source":"GitHub","action":"create","pins":{"/n":9007199254740993},"max_calls":5,"expires_in":"24h"}`).json(t)
	delete(g, "created_at")
	first := "/api/v1/grants/" + g["id"].(string)
	want := map[string]any{
		"id": g["id"], "organization_id": org, "session_id": "s1", "scope": "session", "source_id": "connector:c1", "name": "github", "action": "create",
		"pins": map[string]any{"/n": json.Number("9007199254740993")}, "max_calls": json.Number("5"), "expires_at": "2026-03-02T12:00:00Z",
		"tool_hash": "tool-hash", "used_calls": json.Number("0"), "created_by": "u-ben",
	}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Error(diff)
	}
	all := h.want(201, h.owner, "POST", "/api/v1/grants", `{"scope":"org","any":true}`).json(t)
	if all["scope"] != "organization" || all["any"] != true || all["tool_hash"] != nil || all["session_id"] != nil {
		t.Errorf("any of all %v", all)
	}
	h.want(201, h.owner, "POST", "/api/v1/grants", `{"session_id":"s2","source":"github","any":true}`)
	h.problem(404, "session_not_found", h.owner, "POST", "/api/v1/grants", `{"session_id":"none","source":"github","action":"create"}`)
	h.problem(404, "unknown_action", h.owner, "POST", "/api/v1/grants", `{"scope":"org","source":"github","action":"nothing"}`)

	for path, n := range map[string]int{
		"/api/v1/grants": 3, "/api/v1/grants?session=s1": 1, "/api/v1/grants?source=github": 2, "/api/v1/grants?action=create": 1, "/api/v1/grants?limit=1": 1,
	} {
		if got := h.want(200, h.member, "GET", path, "").list(t); len(got) != n {
			t.Errorf("%s: %v", path, got)
		}
	}
	// A session sees its own and the organization's, as far as they can be used.
	covering := func() int {
		return len(h.want(200, h.agent, "GET", "/api/v1/sessions/s1/actions/grants", "").list(t))
	}
	if covering() != 2 {
		t.Error("a session does not see what covers it, or sees another's")
	}
	gone := h.want(200, h.admin, "DELETE", first, "").json(t)
	if gone["revoked_by"] != "u-ben" || gone["revoked_at"] == nil || covering() != 1 {
		t.Errorf("revoked %v", gone)
	}
	if got := h.want(200, h.member, "GET", "/api/v1/grants?usable=true", "").list(t); len(got) != 2 {
		t.Errorf("usable %v", got)
	}
	if got := h.want(200, h.member, "GET", first, "").json(t); got["revoked_at"] == nil {
		t.Errorf("grant %v", got)
	}
	h.want(404, h.admin, "DELETE", "/api/v1/grants/none", "")
}

// granted adds a grant as it may have become.
func (h *house) granted(id string, g action.Grant) {
	h.t.Helper()
	var spent *time.Time
	if g.MaxCalls != nil && g.UsedCalls == *g.MaxCalls {
		spent = ptr(h.clock.now())
	}
	h.insert("grants", "id", id, "organization_id", org, "scope", g.Scope, "session_id", g.Session, "source_id", text(g.Source), "action", text(g.Action), "covers_any", g.Any,
		"pins", g.Pins, "tool_hash", g.ToolHash, "max_calls", g.MaxCalls, "used_calls", g.UsedCalls, "expires_at", g.ExpiresAt, "created_by", or(g.CreatedBy, "u-ada"),
		"created_at", h.clock.now(), "spent_at", spent, "revoked_at", g.RevokedAt, "revoked_by", g.RevokedBy, "invocation_id", g.Invocation, "request_id", g.Request)
}

// A session sees its own grants whole, and of the organization's nothing that
// other people chose or did.
func TestASessionSeesLittleOfTheOrganizationsGrants(t *testing.T) {
	h := newHouse(t)
	for scope, session := range map[action.GrantScope]string{action.ScopeOrganization: "", action.ScopeSession: "s1"} {
		h.granted(string(scope), action.Grant{Session: session, Terms: action.Terms{
			Scope: scope, Source: "connector:c1", Action: "create", Pins: map[string]json.RawMessage{"/b": json.RawMessage(`"CANARY"`), "/a": json.RawMessage(`"CANARY"`)}, MaxCalls: ptr(int64(5)),
		}, UsedCalls: 2, ToolHash: canary, Invocation: canary + session, Request: canary + session, CreatedBy: canary})
	}
	grants := func(credential string) map[string]map[string]any {
		byID := map[string]map[string]any{}
		for _, g := range h.want(200, credential, "GET", "/api/v1/sessions/s1/actions/grants", "").list(t) {
			byID[g["id"].(string)] = g
		}
		return byID
	}
	agent, person := grants(h.agent), grants(h.member)
	little := map[string]any{
		"id": "organization", "organization_id": org, "scope": "organization", "source_id": "connector:c1", "name": "github", "action": "create",
		"calls_left": json.Number("3"), "pinned": []any{"/a", "/b"},
	}
	if diff := cmp.Diff(little, agent["organization"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(person["session"], agent["session"]); diff != "" {
		t.Error(diff)
	}
	for scope, g := range person {
		for _, field := range []string{"pins", "tool_hash", "used_calls", "max_calls", "invocation_id", "request_id", "created_by", "created_at"} {
			if g[field] == nil {
				t.Errorf("a person does not see %s of the %s's grant: %v", field, scope, g)
			}
		}
	}
}

func TestApproveAndGrant(t *testing.T) {
	h := newHouse(t)
	for _, row := range []struct {
		body  string
		scope action.GrantScope
		calls *int64
		pins  int
		none  bool
	}{
		{body: ``, none: true},
		{body: `{}`, none: true},
		{body: `{"mode":"once"}`, none: true},
		{body: `{"mode":"grant"}`, scope: action.ScopeSession},
		{body: `{"grant":{}}`, scope: action.ScopeSession},
		{body: `{"grant":null}`, none: true},
		{body: `{"mode":"grant","grant":{"scope":"org","max_calls":2,"expires_in":"1h","pin":["/title"]}}`, scope: action.ScopeOrganization, calls: ptr(int64(2)), pins: 1},
	} {
		for _, base := range []string{"/api/v1/invocations/", "/api/v1/sessions/s1/actions/invocations/"} {
			h.gate.verdicts = nil
			id := h.pending("s1")
			out := h.want(200, h.admin, "POST", base+id+"/approve", row.body).json(t)
			v := h.gate.verdicts[0]
			if row.none {
				if v.Grant != nil || out["grant"] != nil {
					t.Errorf("%s makes a grant: %v", row.body, out)
				}
				continue
			}
			if v.Grant == nil || v.Grant.Scope != row.scope || !cmp.Equal(v.Grant.MaxCalls, row.calls) || len(v.Pin) != row.pins || v.By != "u-ben" {
				t.Errorf("%s: verdict %+v", row.body, v)
			}
			g := out["grant"].(map[string]any)
			if g["id"] != v.Grant.ID || g["name"] != "github" || g["invocation_id"] != id || out["invocation"].(map[string]any)["status"] != "approved" {
				t.Errorf("%s answers %v", row.body, out)
			}
		}
	}
	// The wait does not lose the grant.
	out := h.want(200, h.admin, "POST", "/api/v1/invocations/"+h.pending("s1")+"/approve?wait=1s", `{"mode":"grant"}`).json(t)
	if out["grant"] == nil || out["result"] == nil {
		t.Errorf("after a wait %v", out)
	}
	id := h.pending("s1")
	h.problem(409, "params_changed", h.admin, "POST", "/api/v1/invocations/"+id+"/approve", `{"mode":"grant","params_hash":"another"}`)
	if p := h.problem(400, "invalid_grant", h.admin, "POST", "/api/v1/invocations/"+id+"/approve", `{"grant":{"pin":["/nothing"]}}`); p["invocation"] != id {
		t.Errorf("problem %v", p)
	}
}

// A standing yes to a tool that is not as it was reviewed is said apart, to an
// approval as to a grant by hand. Agents never say it.
func TestAnUnreviewedToolIsGrantedOnPurpose(t *testing.T) {
	h := newHouse(t)
	id := h.heldDrifted()
	approve := "/api/v1/invocations/" + id + "/approve"
	for _, body := range []string{`{"mode":"grant"}`, `{"grant":{}}`, `{"grant":{"unreviewed":false}}`} {
		if p := h.problem(409, "tool_unreviewed", h.admin, "POST", approve, body); p["field"] != "/grant/unreviewed" || p["invocation"] != id {
			t.Errorf("%s: %v", body, p)
		}
	}
	if out := h.want(200, h.admin, "POST", approve, `{"grant":{"unreviewed":true}}`).json(t); out["grant"] == nil {
		t.Errorf("approved %v", out)
	}
	h.want(200, h.admin, "POST", "/api/v1/invocations/"+h.heldDrifted()+"/approve", `{}`) // this once

	const grant = `"scope":"org","source":"github","action":"drifted"`
	if p := h.problem(409, "tool_unreviewed", h.admin, "POST", "/api/v1/grants", `{`+grant+`}`); p["field"] != "/unreviewed" {
		t.Errorf("by hand %v", p)
	}
	h.want(201, h.admin, "POST", "/api/v1/grants", `{`+grant+`,"unreviewed":true}`)
	h.problem(409, "tool_unreviewed", h.agent, "POST", "/api/v1/sessions/s1/actions/grants", `{`+grant+`}`)
	h.problem(400, "unknown_field", h.agent, "POST", "/api/v1/sessions/s1/actions/grants", `{`+grant+`,"unreviewed":true}`)
}

// A tool that changed after an agent asked for it is not granted unseen.
func TestARequestForAToolThatDrifted(t *testing.T) {
	h := newHouse(t)
	request := h.want(202, h.agent, "POST", "/api/v1/sessions/s1/actions/grants", `{"source":"github","action":"create"}`).json(t)["id"].(string)
	h.exec(`UPDATE grant_requests SET terms = replace(terms, '"create"', '"drifted"')`)
	for _, body := range []string{``, `{"max_calls":1}`} {
		p := h.problem(409, "tool_unreviewed", h.admin, "POST", "/api/v1/grant-requests/"+request+"/approve", body)
		if p["field"] != nil || !strings.Contains(p["detail"].(string), "create a grant with unreviewed") || h.count("grants") != 0 {
			t.Errorf("%s: %v", body, p)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// What an agent asks for waits; a person grants that or less.
func TestGrantRequests(t *testing.T) {
	h := newHouse(t)
	const wish = "/api/v1/sessions/s1/actions/grants"
	r := h.want(202, h.agent, "POST", wish, `{"scope":"org","source":"github","action":"create","pins":{"/a":1},"max_calls":5,"expires_in":"8h","reason":"Twelve bugs."}`).json(t)
	terms := r["terms"].(map[string]any)
	if r["status"] != "pending" || r["session_id"] != "s1" || r["name"] != "github" || r["reason"] != "Twelve bugs." || terms["scope"] != "organization" ||
		terms["source_id"] != "connector:c1" || terms["expires_at"] != "2026-03-01T20:00:00Z" || r["tool_hash"] != "tool-hash" {
		t.Errorf("request %v", r)
	}
	if h.count("grants") != 0 {
		t.Fatal("a wish made a grant")
	}
	first, second, third := r["id"].(string), h.want(202, h.agent, "POST", wish, `{"source":"github","any":true}`).json(t)["id"].(string), h.want(202, h.agent, "POST", wish, `{"source":"github","action":"create"}`).json(t)["id"].(string)
	if got := h.want(200, h.member, "GET", "/api/v1/grant-requests?status=pending&session=s1", "").list(t); len(got) != 3 || got[2]["id"] != first {
		t.Errorf("requests %v", got)
	}
	h.problem(400, "invalid_request", h.member, "GET", "/api/v1/grant-requests?status=open", "")

	out := h.want(200, h.admin, "POST", "/api/v1/grant-requests/"+first+"/approve", `{"scope":"session","max_calls":2,"pins":{"/b":2},"expires_in":"1h"}`).json(t)
	g := out["grant"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"/a": json.Number("1"), "/b": json.Number("2")}, g["pins"]); diff != "" || g["session_id"] != "s1" ||
		g["max_calls"] != json.Number("2") || g["expires_at"] != "2026-03-01T13:00:00Z" || g["request_id"] != first || g["tool_hash"] != "tool-hash" {
		t.Errorf("granted %v", out)
	}
	if out["request"].(map[string]any)["status"] != "approved" || out["request"].(map[string]any)["grant_id"] != g["id"] {
		t.Errorf("request %v", out["request"])
	}
	h.problem(409, "already_decided", h.owner, "POST", "/api/v1/grant-requests/"+first+"/approve", `{}`)
	asked := h.want(200, h.admin, "POST", "/api/v1/grant-requests/"+second+"/approve", "").json(t)["grant"].(map[string]any)
	if asked["any"] != true || asked["scope"] != "session" || asked["max_calls"] != nil {
		t.Errorf("granted as asked %v", asked)
	}
	denied := h.want(200, h.admin, "POST", "/api/v1/grant-requests/"+third+"/deny", `{"reason":"One at a time."}`).json(t)["request"].(map[string]any)
	if denied["status"] != "denied" || denied["decided_note"] != "One at a time." || denied["decided_by"] != "u-ben" {
		t.Errorf("denied %v", denied)
	}
	if got := h.want(200, h.member, "GET", "/api/v1/grant-requests/"+third, "").json(t); got["status"] != "denied" {
		t.Errorf("request %v", got)
	}
}

// A pin that was asked for stays.
func TestARequestIsNarrowedAndNeverWidened(t *testing.T) {
	h := newHouse(t)
	id := h.want(202, h.agent, "POST", "/api/v1/sessions/s1/actions/grants", `{"source":"github","action":"create","pins":{"/a":1},"max_calls":5,"expires_in":"8h"}`).json(t)["id"].(string)
	for body, field := range map[string]string{
		`{"pins":{"/a":2}}`:   "/pins",
		`{"max_calls":6}`:     "/max_calls",
		`{"expires_in":"9h"}`: "/expires_at",
		`{"scope":"org"}`:     "/scope",
	} {
		if p := h.problem(400, "invalid_grant", h.admin, "POST", "/api/v1/grant-requests/"+id+"/approve", body); p["field"] != field {
			t.Errorf("%s: %v", body, p)
		}
	}
	if h.count("grants") != 0 || must(h.db.GrantRequest(t.Context(), org, id)).Status != action.RequestPending {
		t.Error("a wider grant was made")
	}
}
