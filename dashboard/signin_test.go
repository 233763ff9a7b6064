package dashboard_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

// signable gives the connector OAuth.
func (h *house) signable() {
	h.oauth(action.OAuthSettings{Kind: action.OAuthCode})
}

func (h *house) oauth(settings action.OAuthSettings) {
	h.t.Helper()
	h.exec("UPDATE connectors SET oauth = ? WHERE id = 'c1'", settings)
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
	h.exec("UPDATE oauth_grants SET status = 'reconnect_needed', reason = 'The service took the sign-in back.'")
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
	h.signedIn(action.OAuthGrant{})
	if hints := h.hinted(func() { h.want(204, h.admin, "POST", connectorsPath+"/github/sign-out", "") }); hints == 0 {
		t.Error("nobody hears of a sign-out")
	}
}

// Tokens that a change loses are given back before it, while the connector is
// still as it was; a service that cannot be reached keeps nothing from changing.
func TestTokensThatAreLostAreGivenBack(t *testing.T) {
	const one, there = connectorsPath + "/github", "https://mcp.example.com/mcp"
	for body, lost := range map[string]bool{
		`{"name":"Renamed"}`:                                                                     false,
		`{"url":"https://MCP.example.com/v2"}`:                                                   false,
		`{"url":"https://mcp.example.org/mcp"}`:                                                  true,
		`{"oauth":{"kind":"none"}}`:                                                              true,
		`{"oauth":{"kind":"password"}}`:                                                          false, // it is refused
		`{"oauth":{"kind":"authorization_code","client_id":"old","scopes":["a"]}}`:               false,
		`{"oauth":{"kind":"authorization_code","client_id":"new"}}`:                              true,
		`{"oauth":{"kind":"authorization_code","client_id":"old","issuer":"https://a.example"}}`: true,
		`{"oauth":{"kind":"client_credentials","client_id":"old","client_secret":"k"}}`:          true,
		``: true, // it is removed
	} {
		h := newHouse(t)
		h.want(200, h.admin, "PUT", "/api/v1/secrets/k", `{"value":"v","host":"a.example"}`)
		h.oauth(action.OAuthSettings{Kind: action.OAuthCode, ClientID: "old"})
		h.out.away = action.Errorf(action.ErrUnavailable, "away", "It is away.")
		if body == "" {
			h.want(204, h.admin, "DELETE", one, "")
		} else {
			h.do(h.admin, "PATCH", one, body)
		}
		var want []parting
		if lost {
			want = []parting{{there, "old", true, 5 * time.Second}}
		}
		if diff := cmp.Diff(want, h.out.left, cmp.AllowUnexported(parting{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
		if said := strings.Contains(h.log.String(), "It is away."); said != lost {
			t.Errorf("%s: the log:\n%s", body, h.log)
		}
		if body == "" && h.count("connectors") != 0 || strings.Contains(body, "none") && h.connector("c1").OAuth != nil {
			t.Errorf("%s: it did not happen", body)
		}
	}
}

// Whoever leaves for a service is told where to, and asked unless somebody
// said so before: the server alone says where people sign in.
func TestWhereASignInLeads(t *testing.T) {
	for name, row := range map[string]struct {
		issuer string // that is found
		named  string // in the settings
		grant  action.OAuthGrant
		want   map[string]any
	}{
		"a new one":           {want: map[string]any{"host": "login.example", "known": false}},
		"of another host":     {issuer: "https://id.example/o", want: map[string]any{"host": "login.example", "issuer": "https://id.example/o", "known": false}},
		"the settings' own":   {named: "https://login.example", want: map[string]any{"host": "login.example", "known": true}},
		"the one before":      {grant: action.OAuthGrant{Connector: "c1", Issuer: "https://login.example"}, want: map[string]any{"host": "login.example", "known": true}},
		"another than before": {grant: action.OAuthGrant{Connector: "c1", Issuer: "https://else.example"}, want: map[string]any{"host": "login.example", "known": false}},
		"another connector's": {grant: action.OAuthGrant{Connector: "c2", Issuer: "https://login.example"}, want: map[string]any{"host": "login.example", "known": false}},
	} {
		h := newHouse(t)
		h.signable()
		h.oauth(action.OAuthSettings{Kind: action.OAuthCode, Issuer: row.named})
		h.out.issuer = row.issuer
		row.want["authorize_url"] = "https://login.example/authorize?state=state-c1"
		if row.grant.Issuer != "" {
			h.signedIn(row.grant)
		}
		if diff := cmp.Diff(row.want, h.want(200, h.admin, "POST", connectorsPath+"/github/sign-in", "").json(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A list asks for its tokens once, and is there without them.
func TestAListOfSignIns(t *testing.T) {
	h := newHouse(t)
	h.signable()
	h.want(201, h.admin, "POST", connectorsPath, `{"name":"b","url":"https://b.example/","oauth":{"kind":"authorization_code"}}`)
	h.signedIn(action.OAuthGrant{})
	h.signedIn(action.OAuthGrant{Organization: "org2", Connector: h.connector("b").ID})
	h.out.lookedUp = 0
	b := h.signIn("u-ben")
	statuses := func() (list []any) {
		for _, c := range h.want(200, h.member, "GET", connectorsPath, "").list(t) {
			s, _ := c["oauth_status"].(map[string]any)
			list = append(list, s["status"])
		}
		return list
	}
	if diff := cmp.Diff([]any{"not_connected", "connected"}, statuses()); diff != "" {
		t.Error(diff)
	}
	h.lacks("the page", b.settings(), "sign-in needed")
	if h.out.lookedUp != 0 {
		t.Errorf("%d tokens were read one by one", h.out.lookedUp)
	}
	h.out.away = errors.New("a row that cannot be read")
	if diff := cmp.Diff([]any{nil, nil}, statuses()); diff != "" {
		t.Error(diff)
	}
	h.lacks("the page", b.settings(), "https://b.example/")
	h.lacks("the log", h.log.String(), "a row that cannot be read")
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
	if h.count("oauth_grants") != 0 || len(h.out.flows) != 1 {
		t.Error("a GET finished the sign-in")
	}
	if strings.Contains(h.log.String(), "CANARY") {
		t.Error("the code is in the log")
	}
}

func TestClientMetadata(t *testing.T) {
	h := newHouse(t)
	h.out.document = nil
	h.problem(404, "no_client_metadata", "", "GET", "/oauth/client.json", "")
	h.out.document = []byte(`{"client_name":"Sallyport"}`)
	r := h.want(200, "", "GET", "/oauth/client.json", "")
	if r.body != `{"client_name":"Sallyport"}` || r.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(r.Header.Get("Cache-Control"), "public") {
		t.Errorf("%v %s", r.Header, r.body)
	}
}

func TestOnboarding(t *testing.T) {
	h := newHouse(t)
	h.watched()
	const onboard = connectorsPath + "/github/onboard"
	before := h.rows(org)
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
	if h.rows(org) != before {
		t.Error("a refused onboarding changed something")
	}
	list := h.want(200, h.admin, "POST", onboard, `{"tools":[
		{"tool":"drop","behaviour_hash":"b-3","text_hash":"t-3","mode":"require_approval"},
		{"tool":"list","behaviour_hash":"b-1","text_hash":"t-1"},
		{"tool":"create","behaviour_hash":"b-2","text_hash":"t-2","mode":"allow"},
		{"tool":"resources/read","mode":"deny"}]}`).list(t)
	for _, tool := range list {
		if gone := tool["tool"] == "gone"; gone != (tool["state"] == "removed") || !gone && tool["state"] != "reviewed" || len(list) != 4 {
			t.Errorf("tool %v is %v", tool["tool"], tool["state"])
		}
	}
	var modes []string
	overrides, _, err := h.db.Overrides(t.Context(), org)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range overrides {
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
	const asked = `{"round":"r1","outcome":"answered","questions":[{"method":"elicitation/create","params":{"message":"Which \u202eone?"},"reply":{"action":"accept"}}]}`
	h.insert("invocation_events", "id", "asked", "organization_id", org, "invocation_id", id, "kind", action.SourceAsked, "at", h.clock.now(), "data", asked)
	body := h.signIn("u-cyd").get("/invocations/" + id).body
	for _, want := range []string{"The source requested input from the caller", "elicitation/create", `\u202e`, "accept"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
