package dashboard_test

import (
	"strings"
	"testing"

	"sallyport/action"
)

// signable gives the connector OAuth.
func (h *house) signable() {
	h.m.connectors[0].OAuth = &action.OAuthSettings{Kind: action.OAuthCode}
}

func TestSigningInToAConnector(t *testing.T) {
	h := newHouse(t)
	h.problem(400, "no_sign_in", h.admin, "POST", connectorsPath+"/github/sign-in", "")
	h.signable()
	status := func() any {
		return h.want(200, h.member, "GET", connectorsPath+"/github", "").json(t)["oauth_status"].(map[string]any)["status"]
	}
	if s := status(); s != "not_connected" {
		t.Errorf("before: %v", s)
	}
	b := h.signIn("u-ben")
	begun := b.change("POST", connectorsPath+"/github/sign-in", "").json(t)
	if begun["authorize_url"] != "https://login.example/authorize?state=state-c1" {
		t.Errorf("begun %v", begun)
	}
	const finish, body = "/api/v1/oauth/finish", `{"state":"state-c1","code":"CANARY","iss":"https://login.example"}`
	h.want(403, "", "POST", finish, body, "Cookie", b.cookie, "Origin", public) // the cookie alone reads
	h.problem(404, "no_such_sign_in", h.owner, "POST", finish, body)            // another person's
	done := b.change("POST", finish, body)
	if s := done.json(t)["oauth_status"].(map[string]any); s["status"] != "connected" || s["by"] != "u-ben" || s["issuer"] != "https://login.example" || s["scope"] != "read write" {
		t.Errorf("finished %s", done.body)
	}
	if r := b.change("POST", finish, body); r.StatusCode != 404 {
		t.Errorf("a state counts twice: %d", r.StatusCode)
	}
	h.m.signedIn[0].Status, h.m.signedIn[0].Reason = action.OAuthReconnect, "The service took the sign-in back."
	if s := status(); s != "reconnect_needed" {
		t.Errorf("dead tokens: %v", s)
	}
	h.want(204, h.admin, "POST", connectorsPath+"/github/sign-out", "")
	if s := status(); s != "not_connected" {
		t.Errorf("signed out: %v", s)
	}
	if strings.Contains(h.log.String()+done.body, "CANARY") {
		t.Error("the code is in the log, or came back")
	}
	if hints := h.hinted(func() { h.want(204, h.admin, "POST", connectorsPath+"/github/sign-out", "") }); hints == 0 {
		t.Error("nobody hears of a sign-out")
	}
}

// The service leads a browser here from elsewhere, so that it brings no cookie
// of its own: the page is everybody's, shows nothing of the address, and
// decides nothing.
func TestTheWayBackFromASignIn(t *testing.T) {
	h := newHouse(t)
	h.signable()
	b := h.signIn("u-ben")
	b.change("POST", connectorsPath+"/github/sign-in", "")
	r := h.want(200, "", "GET", "/oauth/callback?state=state-c1&code=CANARY&iss=x", "")
	if strings.Contains(r.body, "CANARY") || strings.Contains(r.body, "state-c1") || !strings.Contains(r.body, `data-page="callback"`) {
		t.Errorf("the page:\n%s", r.body)
	}
	if len(h.m.signedIn) != 0 || len(h.m.flows) != 1 {
		t.Error("a GET finished the sign-in")
	}
	if strings.Contains(h.log.String(), "CANARY") {
		t.Error("the code is in the log")
	}
}

func TestClientMetadata(t *testing.T) {
	h := newHouse(t)
	h.m.document = nil
	h.problem(404, "no_client_metadata", "", "GET", "/oauth/client.json", "")
	h.m.document = []byte(`{"client_name":"Sallyport"}`)
	r := h.want(200, "", "GET", "/oauth/client.json", "")
	if r.body != `{"client_name":"Sallyport"}` || r.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(r.Header.Get("Cache-Control"), "public") {
		t.Errorf("%v %s", r.Header, r.body)
	}
}

func TestOnboarding(t *testing.T) {
	h := newHouse(t)
	h.watched()
	const onboard = connectorsPath + "/github/onboard"
	before := h.m.rows(org)
	for body, code := range map[string]string{
		`{"tools":[{"tool":"drop","behaviour_hash":"b-3","text_hash":"t-3","mode":"deny"},{"tool":"create","behaviour_hash":"b-1","text_hash":"t-1","mode":"allow"}]}`: "tool_changed",
		`{"tools":[{"tool":"create","mode":"allow"}]}`:                                                             "tool_changed",
		`{"tools":[{"tool":"gone","mode":"allow"}]}`:                                                               "tool_not_found",
		`{"tools":[{"tool":"resources/read","mode":"deny"},{"tool":"none","behaviour_hash":"b","text_hash":"t"}]}`: "tool_not_found",
		`{"tools":[{"tool":"drop","behaviour_hash":"b-3","text_hash":"t-3","mode":"deny"},{"tool":"drop","behaviour_hash":"b-3","text_hash":"t-3","mode":"allow"}]}`: "invalid_field",
		`{"tools":[]}`: "invalid_request",
	} {
		if r := h.do(h.admin, "POST", onboard, body); r.StatusCode < 400 || r.json(t)["code"] != code {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	if h.m.rows(org) != before {
		t.Error("a refused onboarding changed something")
	}
	list := h.want(200, h.admin, "POST", onboard, `{"tools":[
		{"tool":"drop","behaviour_hash":"b-3","text_hash":"t-3","mode":"require_approval"},
		{"tool":"list","behaviour_hash":"b-1","text_hash":"t-1"},
		{"tool":"create","behaviour_hash":"b-2","text_hash":"t-2","mode":"allow"},
		{"tool":"resources/read","mode":"deny"}]}`).list(t)
	for i, want := range []string{"reviewed", "reviewed", "reviewed", "removed"} {
		if list[i]["state"] != want {
			t.Errorf("tool %v is %v", list[i]["tool"], list[i]["state"])
		}
	}
	var modes []string
	for _, o := range h.m.overrides {
		modes = append(modes, o.Key.Action+" "+string(o.Mode))
	}
	if got := strings.Join(modes, ", "); got != "create allow, drop require_approval, resources/read deny" {
		t.Errorf("modes %s", got)
	}
}

// What a source asked of the caller is shown with the call.
func TestTheDetailShowsWhatWasAsked(t *testing.T) {
	h := newHouse(t)
	id := h.pending("s1")
	h.m.asked = `{"round":"r1","outcome":"answered","questions":[{"method":"elicitation/create","params":{"message":"Which \u202eone?"},"reply":{"action":"accept"}}]}`
	body := h.signIn("u-cyd").get("/invocations/" + id).body
	for _, want := range []string{"Its source asked the caller something.", "elicitation/create", `\u202e`, "accept"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
