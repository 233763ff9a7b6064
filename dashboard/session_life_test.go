package dashboard_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

// A key makes one session: who asks again gets it, and its token.
func TestSessionsAreMadeOnceByAKey(t *testing.T) {
	h := newHouse(t)
	const path, wish = "/api/v1/sessions", `{"title":"x","idempotency_key":"k1"}`
	first := h.want(201, h.member, "POST", path, wish).json(t)
	again := h.want(200, h.member, "POST", path, `{"title":"x"}`, "Idempotency-Key", "k1").json(t)
	if first["existed"] != false || again["existed"] != true {
		t.Errorf("existed: %v, then %v", first["existed"], again["existed"])
	}
	delete(first, "existed")
	delete(again, "existed")
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the same wish again (-first +again):\n%s", diff)
	}
	for _, other := range []string{`{"title":"y","idempotency_key":"k1"}`, `{"title":"x","model":"claude-sonnet-4","idempotency_key":"k1"}`} {
		h.problem(409, "idempotency_key_reused", h.member, "POST", path, other)
	}
	// Whose token it is is not for others who know the key.
	h.problem(409, "idempotency_key_reused", h.admin, "POST", path, wish)
	h.problem(400, "invalid_field", h.member, "POST", path, wish, "Idempotency-Key", "k2")
	h.want(201, h.member, "POST", path, `{"title":"x"}`)
}

// What a session lives by is checked when it is minted, and read back.
func TestWhatASessionLivesBy(t *testing.T) {
	h := newHouse(t)
	const path = "/api/v1/sessions"
	m := h.want(201, h.member, "POST", path, `{"prompt":"Be brief.","tools":"search","model":"anthropic/claude-opus-4-6","idle_timeout":"30m"}`).json(t)
	got := h.want(200, h.member, "GET", path+"/"+m["session_id"].(string), "").json(t)
	for field, want := range map[string]any{"prompt": "Be brief.", "tools": "search", "model": "claude-opus-4.6", "idle_timeout": "30m0s", "status": "pending"} {
		if got[field] != want {
			t.Errorf("%s is %v, want %v", field, got[field], want)
		}
	}
	if p := h.problem(400, "unknown_model", h.member, "POST", path, `{"model":"gpt-0"}`); p["field"] != "/model" || !strings.Contains(p["detail"].(string), "claude-opus-4.6") {
		t.Errorf("problem %v", p)
	}
	for _, idle := range []string{"soon", "0s", "-1m", "1ms", "9000h"} {
		if p := h.problem(400, "invalid_field", h.member, "POST", path, `{"idle_timeout":"`+idle+`"}`); p["field"] != "/idle_timeout" {
			t.Errorf("%s: problem %v", idle, p)
		}
	}
	never := h.want(201, h.member, "POST", path, `{"idle_timeout":"never"}`).json(t)
	if got := h.want(200, h.member, "GET", path+"/"+never["session_id"].(string), "").json(t); got["idle_timeout"] != "never" {
		t.Errorf("session %v", got)
	}
}

// Owners and admins move sessions; each move is told at once, and a wrong one
// says where the session is.
func TestSessionsAreMoved(t *testing.T) {
	h := newHouse(t)
	m := h.want(201, h.member, "POST", "/api/v1/sessions", `{}`).json(t)
	id := m["session_id"].(string)
	path := "/api/v1/sessions/" + id
	var hints []action.Hint
	stop := h.hints.Subscribe(func(x action.Hint) { hints = append(hints, x) })
	for _, step := range []struct{ word, status string }{{"pause", "paused"}, {"resume", "pending"}, {"fail", "failed"}} {
		h.problem(403, "role_required", h.member, "POST", path+"/"+step.word, "")
		body := ""
		if step.word == "fail" {
			body = `{"note":"It went in circles."}`
		}
		if s := h.want(200, h.admin, "POST", path+"/"+step.word, body).json(t); s["status"] != step.status {
			t.Errorf("%s: session %v", step.word, s)
		}
	}
	if s := h.want(200, h.member, "GET", path, "").json(t); s["ended_note"] != "It went in circles." {
		t.Errorf("session %v", s)
	}
	for _, word := range []string{"pause", "resume", "stop", "fail"} {
		h.problem(409, "session_ended", h.admin, "POST", path+"/"+word, "")
	}
	h.problem(401, "session_revoked", m["token"].(string), "GET", "/api/v1/me", "")
	if stop(); len(slices.DeleteFunc(hints, func(x action.Hint) bool { return x.Kind != action.HintSession || x.Session != id })) < 3 {
		t.Errorf("hints %v", hints)
	}
	for state, want := range map[string]bool{"failed": true, "ended": true, "stopped": false, "live": false} {
		if list := h.want(200, h.member, "GET", "/api/v1/sessions?state="+state, ""); strings.Contains(list.body, id) != want {
			t.Errorf("%s: %s", state, list.body)
		}
	}
}

// A session that stops holds nothing any more.
func TestStoppingWithdraws(t *testing.T) {
	h := newHouse(t)
	held := h.pending("s1")
	h.want(200, h.admin, "POST", "/api/v1/sessions/s1/stop", "")
	if inv := h.want(200, h.member, "GET", "/api/v1/invocations/"+held, "").json(t); inv["denied_reason"] != "withdrawn" {
		t.Errorf("invocation %v", inv)
	}
}

func TestWhoRenamesSessions(t *testing.T) {
	h := newHouse(t)
	mine := "/api/v1/sessions/" + h.want(201, h.member, "POST", "/api/v1/sessions", `{}`).json(t)["session_id"].(string)
	if s := h.want(200, h.member, "PATCH", mine, `{"title":"Mine"}`).json(t); s["title"] != "Mine" {
		t.Errorf("session %v", s)
	}
	h.problem(403, "role_required", h.member, "PATCH", mine, `{"idle_timeout":"1h"}`)
	h.problem(403, "role_required", h.member, "PATCH", "/api/v1/sessions/s1", `{"title":"Not mine"}`)
	if s := h.want(200, h.admin, "PATCH", mine, `{"idle_timeout":"1h"}`).json(t); s["title"] != "Mine" || s["idle_timeout"] != "1h0m0s" {
		t.Errorf("session %v", s)
	}
	if s := h.want(200, h.admin, "PATCH", mine, `{"idle_timeout":""}`).json(t); s["idle_timeout"] != nil {
		t.Errorf("session %v", s)
	}
}

// Connections that cannot work are left out, and it is said why; names that
// nothing has stay mistakes.
func TestWhatCannotWorkIsLeftOut(t *testing.T) {
	h := newHouse(t)
	h.connected(action.Integration{ID: "good", Provider: "github", Name: "Chat"})
	h.connected(action.Integration{ID: "dead", Provider: "linear", Name: "Tracker", Status: action.IntegrationExpired, Reason: "It expired."})
	h.connected(action.Integration{ID: "spent", Provider: "github", Name: "Errors"})
	h.connected(action.Integration{ID: "hers", Provider: "github", Name: "Private", Status: action.IntegrationRevoked, Visibility: action.VisiblePrivate})
	h.out.dead = map[string]bool{"spent": true}
	m := h.want(201, h.owner, "POST", "/api/v1/sessions", `{"connections":["good","linear","spent"]}`).json(t)
	left := m["left_out"].([]any)
	if len(left) != 2 || !strings.Contains(left[0].(map[string]any)["reason"].(string), "It expired.") || left[1].(map[string]any)["name"] != "Errors" {
		t.Errorf("left out %v", left)
	}
	s := h.want(200, h.owner, "GET", "/api/v1/sessions/"+m["session_id"].(string), "").json(t)
	if diff := cmp.Diff([]any{"good"}, s["connections"]); diff != "" || len(s["left_out"].([]any)) != 2 {
		t.Errorf("session %v", s)
	}
	none := h.want(201, h.owner, "POST", "/api/v1/sessions", `{"connections":["hers"]}`).json(t)
	if s := h.want(200, h.member, "GET", "/api/v1/sessions/"+none["session_id"].(string), ""); strings.Contains(s.body, "Private") {
		t.Errorf("a member reads of what is private: %s", s.body)
	}
	h.problem(400, "invalid_field", h.owner, "POST", "/api/v1/sessions", `{"connections":["unknown"]}`)
}
