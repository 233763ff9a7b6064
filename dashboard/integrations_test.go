package dashboard_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

const integrationsPath = "/api/v1/integrations"

func TestConnectingWithAKey(t *testing.T) {
	h := newHouse(t)
	const body = `{"provider":"linear","kind":"api_key","secret":"acme-CANARY","settings":{"team":"ENG"},"timeout_seconds":60}`
	var made map[string]any
	hints := h.hinted(func() { made = h.want(201, h.admin, "POST", integrationsPath, body).json(t) })
	if made["usable"] != true || made["provider_title"] != "Linear" || made["account"] != "account-acme" || hints == 0 {
		t.Errorf("made %v, %d hints", made, hints)
	}
	id := made["id"].(string)
	again := h.want(200, h.owner, "POST", integrationsPath, `{"provider":"linear","secret":"acme-CANARY2","name":"Ours"}`)
	if again.json(t)["id"] != id || h.count("integrations") != 1 {
		t.Errorf("connected again: %s", again.body)
	}
	want := action.ConnectRequest{
		Organization: org, Provider: "linear", Kind: action.KindAPIKey, Secret: "acme-CANARY", Settings: json.RawMessage(`{"team":"ENG"}`),
		Visibility: action.VisibleOrganization, TimeoutSeconds: 60, By: "u-ben", Login: h.out.wishes[0].Login,
	}
	if diff := cmp.Diff(want, h.out.wishes[0]); diff != "" || want.Login == "" {
		t.Errorf("wanted (-want +got):\n%s", diff)
	}
	h.out.dead = map[string]bool{"acme-CANARY3": true, "account-acme-CANARY3": true}
	if p := h.problem(400, "upstream_credential", h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"acme-CANARY3"}`); p["field"] != "/secret" {
		t.Errorf("a key that is no good: %v", p)
	}
	h.out.dead = map[string]bool{"account-acme": true}
	checked := h.want(200, h.admin, "POST", integrationsPath+"/"+id+"/check", "").json(t)
	if checked["usable"] != false || checked["status"] != "revoked" || !strings.Contains(checked["unusable_reason"].(string), "Connect the account again") {
		t.Errorf("checked %v", checked)
	}
	h.exec("UPDATE integrations SET reason = ?", "It says \u202eno\n.")
	if r := h.want(200, h.member, "GET", integrationsPath+"/"+id, ""); strings.Contains(r.body, "\u202e") || r.json(t)["reason"] != `It says \u202eno\n.` || strings.Contains(r.json(t)["unusable_reason"].(string), "\n") {
		t.Errorf("a service's words are shown as they are: %s", r.body)
	}
	all := h.want(200, h.member, "GET", integrationsPath, "").body + h.want(200, h.member, "GET", integrationsPath+"/"+id, "").body + h.log.String() + again.body
	if strings.Contains(all, "CANARY") {
		t.Errorf("the credential came back: %s", all)
	}
	if r := h.want(200, h.admin, "DELETE", integrationsPath+"/"+id, ""); r.body != "{\"revoked\":true}\n" {
		t.Errorf("disconnected: %s", r.body)
	}
	h.problem(404, "integration_not_found", h.admin, "GET", integrationsPath+"/"+id, "")
	if !strings.Contains(h.log.String(), `msg="integration disconnected" integration=`+id+` provider=linear revoked=true by=u-ben`) {
		t.Errorf("the log:\n%s", h.log)
	}
}

func TestConnectionsThatCannotBe(t *testing.T) {
	h := newHouse(t)
	for body, want := range map[string]string{
		`{"provider":"jira","secret":"a-b"}`:                                            "/provider",
		`{"provider":"linear"}`:                                                         "/secret",
		`{"provider":"linear","secret":"a\nb"}`:                                         "/secret",
		`{"provider":"linear","kind":"bot_token","secret":"a-b"}`:                       "/kind",
		`{"provider":"linear","kind":"oauth2","secret":"a-b"}`:                          "/kind",
		`{"provider":"github","secret":"a-b","own":true}`:                               "/own",
		`{"provider":"linear","secret":"a-b","own":true,"visibility":"organization"}`:   "/visibility",
		`{"provider":"linear","secret":"a-b","broker":"nango"}`:                         "/broker",
		`{"provider":"linear","secret":"a-b","base_url":"http://linear.example"}`:       "/base_url",
		`{"provider":"linear","secret":"a-b","base_url":"https://u:p@linear.example"}`:  "/base_url",
		`{"provider":"linear","secret":"a-b","base_url":"https://linear.example/?a=b"}`: "/base_url",
		`{"provider":"linear","secret":"a-b","settings":[]}`:                            "/settings",
		`{"provider":"linear","secret":"a-b","settings":{"tema":"ENG"}}`:                "/settings/tema",
		`{"provider":"linear","secret":"a-b","timeout_seconds":121}`:                    "/timeout_seconds",
		`{"provider":"linear","secret":"a-b","name":"` + "\u202e" + `"}`:                "/name",
		`{"provider":"cloudlogs","secret":"a-b"}`:                                       "/secret",
	} {
		r := h.want(400, h.admin, "POST", integrationsPath, body)
		if r.json(t)["field"] != want {
			t.Errorf("%s: %s", body, r.body)
		}
	}
	h.want(400, h.admin, "POST", integrationsPath+"/connect", `{"provider":"cloudlogs"}`)
	h.want(400, h.admin, "POST", integrationsPath+"/connect", `{"provider":"linear","kind":"api_key"}`)
	h.want(400, h.admin, "POST", integrationsPath+"/connect", `{"provider":"github","broker":"nango"}`)
	h.want(400, h.admin, "POST", integrationsPath+"/connect", `{"provider":"linear","scopes":["a b"]}`)
	if len(h.out.wishes)+len(h.out.begun) != 0 {
		t.Errorf("a service was asked: %v", h.out.wishes)
	}
	h.want(201, h.admin, "POST", integrationsPath, `{"provider":"cloudlogs"}`)
	h.want(201, h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"a-b","base_url":"http://127.0.0.1:9000"}`)
}

// A member connects in his own name alone, and manages that alone; what is
// private to somebody is not there for anybody else, whoever he is.
func TestWhoseIntegrationsAre(t *testing.T) {
	h := newHouse(t)
	const key = `"provider":"linear","secret":"HUSH-x"`
	h.problem(403, "role_required", h.member, "POST", integrationsPath, "{"+key+"}")
	h.problem(403, "role_required", h.member, "POST", integrationsPath+"/connect", `{"provider":"linear"}`)
	own := h.want(201, h.member, "POST", integrationsPath, "{"+key+`,"own":true}`).json(t)["id"].(string)
	private := h.want(201, h.owner, "POST", integrationsPath, "{"+key+`,"visibility":"private"}`).json(t)["id"].(string)
	shared := h.want(201, h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"all-x"}`).json(t)["id"].(string)
	h.bind(shared, private)
	minted := h.want(201, h.owner, "POST", "/api/v1/sessions", `{"connections":["`+private+`"]}`).json(t)["session_id"].(string)

	const elsewhere = "https://linear.example.com"
	mine := "{" + key + `,"own":true,"base_url":"` + elsewhere + `"}`
	if p := h.problem(403, "role_required", h.member, "POST", integrationsPath, mine); p["field"] != "/base_url" {
		t.Errorf("a member led the gateway astray: %v", p)
	}
	h.problem(403, "role_required", h.member, "POST", integrationsPath+"/connect", `{"provider":"linear","own":true,"base_url":"`+elsewhere+`"}`)
	there := h.want(201, h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"there-x","base_url":"`+elsewhere+`"}`).json(t)["id"].(string)
	h.want(200, h.member, "POST", integrationsPath, mine)
	h.want(200, h.admin, "DELETE", integrationsPath+"/"+there, "")

	ids := func(credential, path string) (got []string) {
		for _, in := range h.want(200, credential, "GET", path, "").list(t) {
			got = append(got, in["id"].(string))
		}
		slices.Sort(got)
		return got
	}
	for credential, want := range map[string][]string{h.member: {own, shared}, h.owner: {private, shared}, h.admin: {shared}} {
		slices.Sort(want)
		if diff := cmp.Diff(want, ids(credential, integrationsPath)); diff != "" {
			t.Error(diff)
		}
	}
	b := h.signIn("u-ben")
	for _, path := range []string{integrationsPath + "/" + own, integrationsPath + "/" + private} {
		for _, method := range []string{"GET", "PATCH", "DELETE"} {
			body := map[string]string{"PATCH": `{"name":"Mine"}`}[method]
			h.problem(404, "integration_not_found", h.admin, method, path, body)
		}
		h.problem(404, "integration_not_found", h.admin, "POST", path+"/check", "")
		h.problem(404, "integration_not_found", h.admin, "GET", path+"/metadata", "")
	}
	if p := h.problem(400, "invalid_field", h.admin, "POST", "/api/v1/sessions", `{"connections":["`+shared+`","`+private+`"]}`); p["field"] != "/connections/1" {
		t.Errorf("bound to what is not his: %v", p)
	}
	h.problem(400, "invalid_field", h.admin, "PUT", "/api/v1/automations/nightly/connections", `{"connections":["`+private+`"]}`)
	seen := h.want(200, h.admin, "GET", "/api/v1/automations/nightly/connections", "").body + h.want(200, h.admin, "GET", "/api/v1/sessions/"+minted, "").body +
		h.want(200, h.admin, "GET", "/api/v1/sessions", "").body + b.settings() + b.get("/integrations/linear").body
	for _, what := range []string{`"` + private + `"`, `"` + own + `"`, "HUSH"} {
		if strings.Contains(seen, what) {
			t.Errorf("another admin sees %s", what)
		}
	}
	if !strings.Contains(h.want(200, h.owner, "GET", "/api/v1/sessions/"+minted, "").body, private) {
		t.Error("its owner does not see what the session is bound to")
	}
	h.problem(403, "role_required", h.member, "PATCH", integrationsPath+"/"+shared, `{"name":"Mine"}`)
	h.problem(403, "role_required", h.member, "DELETE", integrationsPath+"/"+shared, "")
	h.problem(403, "role_required", h.member, "POST", integrationsPath+"/"+shared+"/check", "")
	h.problem(403, "role_required", h.member, "GET", integrationsPath+"/"+shared+"/metadata", "")
	h.want(200, h.member, "GET", integrationsPath+"/"+own+"/metadata", "")
	h.want(200, h.member, "PATCH", integrationsPath+"/"+own, `{"name":"Mine"}`)
	h.problem(400, "invalid_field", h.member, "PATCH", integrationsPath+"/"+own, `{"visibility":"organization"}`)
	h.want(200, h.member, "DELETE", integrationsPath+"/"+own, "")
}

// A key of a lesser role than its person's is not that person: agents may read
// the one that the gateway leaves on its machine.
func TestAKeyOfALesserRole(t *testing.T) {
	h := newHouse(t)
	const key = `"provider":"linear","secret":"HUSH-x"`
	private := h.want(201, h.owner, "POST", integrationsPath, "{"+key+`,"visibility":"private"}`).json(t)["id"].(string)
	own := h.want(201, h.owner, "POST", integrationsPath, "{"+key+`,"own":true}`).json(t)["id"].(string)
	shared := h.want(201, h.owner, "POST", integrationsPath, `{"provider":"linear","secret":"all-x"}`).json(t)["id"].(string)
	h.bind(shared, private)
	h.want(201, h.owner, "POST", "/api/v1/sessions", `{"connections":["`+private+`"]}`)
	asAdmin, asMember := h.lesserKey("u-ada", action.RoleAdmin), h.lesserKey("u-ada", action.RoleMember)
	for name, lesser := range map[string]string{"admin": asAdmin, "member": asMember} {
		before := h.rows(org)
		for _, id := range []string{private, own} {
			for _, route := range []string{"GET ", "PATCH ", "DELETE ", "POST /check", "GET /metadata"} {
				method, rest, _ := strings.Cut(route, " ")
				h.problem(404, "integration_not_found", lesser, method, integrationsPath+"/"+id+rest, map[string]string{"PATCH": `{"name":"Mine"}`}[method])
			}
		}
		h.problem(400, "invalid_field", lesser, "POST", "/api/v1/sessions", `{"connections":["`+private+`"]}`)
		h.problem(403, "role_required", lesser, "POST", integrationsPath, "{"+key+`,"own":true}`)
		h.problem(403, "role_required", lesser, "POST", integrationsPath, "{"+key+`,"visibility":"private"}`)
		h.problem(403, "role_required", lesser, "POST", integrationsPath+"/connect", `{"provider":"linear","own":true}`)
		if diff := cmp.Diff(before, h.rows(org)); diff != "" || len(h.out.begun) != 0 {
			t.Errorf("a key of the role %s changed something:\n%s", name, diff)
		}
		for _, path := range []string{integrationsPath, "/api/v1/sessions", "/api/v1/automations/nightly/connections"} {
			if body := h.want(200, lesser, "GET", path, "").body; strings.Contains(body, `"`+private+`"`) || strings.Contains(body, `"`+own+`"`) {
				t.Errorf("a key of the role %s reads at %s: %s", name, path, body)
			}
		}
	}
	for _, route := range []string{"PATCH ", "DELETE ", "POST /check"} {
		method, rest, _ := strings.Cut(route, " ")
		h.problem(403, "role_required", asMember, method, integrationsPath+"/"+shared+rest, map[string]string{"PATCH": `{"name":"Mine"}`}[method])
	}
	h.problem(403, "role_required", asMember, "POST", integrationsPath, "{"+key+"}")
	h.problem(403, "role_required", asMember, "POST", integrationsPath+"/connect", `{"provider":"linear"}`)
	h.problem(403, "role_required", asMember, "POST", "/api/v1/oauth/finish", `{"provider":"linear","state":"begun-1","code":"x"}`)
	h.problem(400, "invalid_field", asAdmin, "PUT", "/api/v1/automations/nightly/connections", `{"connections":["`+private+`"]}`)
	h.problem(400, "invalid_field", asAdmin, "PATCH", integrationsPath+"/"+shared, `{"visibility":"private"}`)
	h.want(200, asAdmin, "PATCH", integrationsPath+"/"+shared, `{"name":"Ours"}`) // which its role does
	id := h.want(201, asAdmin, "POST", "/api/v1/sessions", `{"automation":"nightly"}`).json(t)["session_id"]
	minted := must(h.db.Session(t.Context(), id.(string)))
	if diff := cmp.Diff([]string{shared}, minted.Connections); diff != "" {
		t.Errorf("an automation's session is bound to more: %s", diff)
	}
}

// What only somebody could use is given back before he is removed, which a
// service that cannot be reached does not keep from happening.
func TestRemovingWhoeverConnected(t *testing.T) {
	for name, away := range map[string]error{"a good day": nil, "a bad day": action.Errorf(action.ErrUnavailable, "away", "It is away.")} {
		h := newHouse(t)
		own := h.want(201, h.member, "POST", integrationsPath, `{"provider":"linear","secret":"a-x","own":true}`).json(t)["id"].(string)
		h.want(201, h.owner, "POST", integrationsPath, `{"provider":"linear","secret":"b-x","own":true}`)
		private := h.want(201, h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"c-x","visibility":"private"}`).json(t)["id"].(string)
		h.want(201, h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"d-x"}`)
		h.problem(409, "last_owner", h.owner, "DELETE", "/api/v1/users/u-ada", "")
		h.problem(403, "owner_required", h.admin, "DELETE", "/api/v1/users/u-ada", "")
		if len(h.out.ended) != 0 {
			t.Errorf("%s: somebody who stays lost %v", name, h.out.ended)
		}
		h.out.away = away
		hints := h.hinted(func() {
			h.want(204, h.owner, "DELETE", "/api/v1/users/u-cyd", "")
			h.want(204, h.owner, "DELETE", "/api/v1/users/u-ben", "")
		})
		want := []string{own, private}
		if away != nil {
			want = nil
			h.lacks("the log", h.log.String(), "It is away.", "integration="+own, "integration="+private)
		}
		if diff := cmp.Diff(want, h.out.ended); diff != "" || hints == 0 || h.count("users") != 1 {
			t.Errorf("%s: %d hints, %d people, ended (-want +got):\n%s", name, hints, h.count("users"), diff)
		}
	}
}

func TestChangingAnIntegration(t *testing.T) {
	h := newHouse(t)
	id := h.want(201, h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"acme-1","name":"Ours"}`).json(t)["id"].(string)
	path := integrationsPath + "/" + id
	changed := h.want(200, h.owner, "PATCH", path, `{"name":" Acme ","settings":{"team":"ENG"},"timeout_seconds":90,"secret":"acme-CANARY"}`)
	if v := changed.json(t); v["name"] != "Acme" || v["timeout_seconds"] != json.Number("90") || v["revision"] != json.Number("2") || v["id"] != id {
		t.Errorf("changed %s", changed.body)
	}
	w := h.out.wishes[1]
	if w.Account != "account-acme" || w.Secret != "acme-CANARY" || w.Name != "Ours" || w.By != "u-ada" {
		t.Errorf("wanted %+v", w)
	}
	before := h.rows(org)
	if p := h.problem(409, "other_account", h.owner, "PATCH", path, `{"secret":"globex-CANARY","name":"Globex"}`); p["detail"] == "" {
		t.Errorf("another account: %v", p)
	}
	for body, field := range map[string]string{
		`{"settings":{"tema":"x"}}`:              "/settings/tema",
		`{"name":"  "}`:                          "/name",
		`{"secret":"a\u0000-b"}`:                 "/secret",
		`{"visibility":"private","name":"Mine"}`: "/visibility", // somebody else made it
	} {
		if p := h.problem(400, codeOf(field), h.owner, "PATCH", path, body); p["field"] != field {
			t.Errorf("%s: %v", body, p)
		}
	}
	if diff := cmp.Diff(before, h.rows(org)); diff != "" {
		t.Errorf("a refused change changed something:\n%s", diff)
	}
	h.want(200, h.admin, "PATCH", path, `{"visibility":"private"}`)
	h.problem(404, "integration_not_found", h.owner, "GET", path, "")
	h.exec("UPDATE integrations SET kind = 'oauth2'")
	h.problem(400, "invalid_field", h.admin, "PATCH", path, `{"secret":"acme-2"}`)
	if strings.Contains(h.log.String(), "CANARY") {
		t.Error("the log has the credential")
	}
}

// codeOf is the code of an error about a field.
func codeOf(field string) string {
	if strings.HasPrefix(field, "/settings/") {
		return "invalid_settings"
	}
	return "invalid_field"
}

// Who began a connection ends it, in the browser that he began it in; a state
// of a connector's sign-in stays one.
func TestConnectingInABrowser(t *testing.T) {
	h := newHouse(t)
	h.signable()
	cyd, other := h.signIn("u-cyd"), h.signIn("u-cyd")
	link := cyd.change("POST", integrationsPath+"/connect", `{"provider":"linear","own":true,"scopes":["read"]}`).json(t)
	if link["host"] != "service.example" || link["state"] != "begun-1" || link["url"] == "" {
		t.Errorf("begun %v", link)
	}
	if w := h.out.begun["begun-1"]; w.Kind != action.KindOAuth2 || !w.Own || w.By != "u-cyd" || len(w.Scopes) != 1 {
		t.Errorf("begun %+v", w)
	}
	const finish = "/api/v1/oauth/finish"
	const body = `{"provider":"linear","state":"begun-1","code":"CANARY"}`
	for name, r := range map[string]reply{
		"another browser": other.change("POST", finish, body), "a key": h.do(h.member, "POST", finish, body), "an admin": h.do(h.admin, "POST", finish, body),
	} {
		if r.StatusCode != 404 || r.json(t)["code"] != "no_such_flow" {
			t.Errorf("%s ended it: %d %s", name, r.StatusCode, r.body)
		}
	}
	done := cyd.change("POST", finish, body).json(t)
	in, _ := done["integration"].(map[string]any)
	if done["of"] != "integration" || in["user_id"] != "u-cyd" || in["visibility"] != "private" || len(done) != 2 {
		t.Errorf("done %v", done)
	}
	if r := cyd.change("POST", finish, body); r.StatusCode != 404 {
		t.Errorf("a state counts twice: %d", r.StatusCode)
	}
	ben := h.signIn("u-ben")
	ben.change("POST", connectorsPath+"/github/sign-in", "")
	if r := cyd.change("POST", finish, `{"state":"state-c1","code":"x"}`); r.StatusCode != 403 || len(h.out.flows) != 1 {
		t.Errorf("a member ended a connector's sign-in: %d %s", r.StatusCode, r.body)
	}
	if done := ben.change("POST", finish, `{"state":"state-c1","code":"x","session_state":"y"}`).json(t); done["of"] != "connector" || done["id"] != "c1" {
		t.Errorf("a connector's: %v", done)
	}
	ben.change("POST", connectorsPath+"/github/sign-in", "")
	if r := ben.change("POST", finish, `{"state":"state-c1","error":"access_denied"}`); r.json(t)["code"] != "sign_in_refused" {
		t.Errorf("a connector's that is refused: %s", r.body)
	}
	ben.change("POST", integrationsPath+"/connect", `{"provider":"github"}`)
	if r := ben.change("POST", finish, `{"provider":"github","state":"begun-1","installation_id":"4711","setup_action":"install","authuser":"0","scope":["a"],"hd":null}`); r.StatusCode != 200 || !strings.Contains(r.body, `"account":"4711"`) {
		t.Errorf("an installation: %s", r.body)
	}
	broker := ben.change("POST", integrationsPath+"/connect", `{"provider":"linear","broker":"nango"}`).json(t)
	if r := ben.change("POST", finish, `{"provider":"linear","state":"`+broker["state"].(string)+`","connection_id":"c-9"}`); broker["token"] == nil || r.StatusCode != 200 {
		t.Errorf("a broker's: %v %s", broker, r.body)
	}
	ben.change("POST", integrationsPath+"/connect", `{"provider":"linear"}`)
	if r := ben.change("POST", finish, `{"provider":"linear","state":"begun-1","error":"access_denied","error_description":"No.","prompt":"none"}`); r.StatusCode != 403 {
		t.Errorf("a refusal: %s", r.body)
	}
	ben.change("POST", connectorsPath+"/github/sign-in", "")
	if err := h.db.SetUserRole(t.Context(), org, "u-ben", action.RoleMember, "u-ada"); err != nil {
		t.Fatal(err)
	}
	if r := ben.change("POST", finish, `{"state":"state-c1","code":"x"}`); r.StatusCode != 403 || len(h.out.flows) != 1 {
		t.Errorf("whoever was demoted since ended a connector's sign-in: %d %s", r.StatusCode, r.body)
	}
	if strings.Contains(h.log.String(), "CANARY") {
		t.Error("the code is in the log")
	}
}

// What came to the page of one service ends nothing of another's, nor a
// connector's, whose server may have led the browser there.
func TestAnAnswerIsForWhomItCameTo(t *testing.T) {
	h := newHouse(t)
	h.signable()
	const finish = "/api/v1/oauth/finish"
	ben := h.signIn("u-ben")
	ben.change("POST", connectorsPath+"/github/sign-in", "")
	ben.change("POST", integrationsPath+"/connect", `{"provider":"linear"}`)
	for name, body := range map[string]string{
		"at the connectors'":  `{"state":"begun-1","code":"x"}`,
		"at another's":        `{"provider":"github","state":"begun-1","code":"x"}`,
		"a connector's there": `{"provider":"linear","state":"state-c1","code":"x"}`,
		"at nobody's":         `{"provider":"jira","state":"begun-1","code":"x"}`,
	} {
		if r := ben.change("POST", finish, body); r.StatusCode < 400 || len(h.out.begun) != 1 || len(h.out.flows) != 1 || h.count("integrations") != 0 {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
		}
	}
	if slices.ContainsFunc(h.out.answers, func(a action.ConnectCallback) bool { return a.Provider != "github" && a.Provider != "linear" }) {
		t.Errorf("an answer to a connector went on: %v", h.out.answers)
	}
	ben.change("POST", finish, `{"provider":"linear","state":"begun-1","code":"c","iss":"https://linear.example"}`)
	want := action.ConnectCallback{Provider: "linear", Iss: "https://linear.example", State: "begun-1", Code: "c"}
	if diff := cmp.Diff(want, h.out.answers[len(h.out.answers)-1]); diff != "" || len(h.out.begun) != 0 {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
	ben.change("POST", integrationsPath+"/connect", `{"provider":"linear"}`)
	if err := h.db.SetUserRole(t.Context(), org, "u-ben", action.RoleMember, "u-ada"); err != nil {
		t.Fatal(err)
	}
	if r := ben.change("POST", finish, `{"provider":"linear","state":"begun-1","code":"x"}`); r.StatusCode != 403 || h.count("integrations") != 1 {
		t.Errorf("whoever was demoted since connected the organization: %d %s", r.StatusCode, r.body)
	}
	page := h.want(200, "", "GET", "/oauth/callback/linear?state=begun-1&code=CANARY", "").body
	if strings.Contains(page, "CANARY") || !strings.Contains(page, `data-page="callback"`) {
		t.Errorf("the page:\n%s", page)
	}
}

func TestMetadata(t *testing.T) {
	h := newHouse(t)
	id := h.want(201, h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"acme-1","name":"Ours"}`).json(t)["id"].(string)
	r := h.want(200, h.owner, "GET", integrationsPath+"/"+id+"/metadata?what=labels&team=ENG", "")
	if r.body != `{"big":9007199254740993,"of":"Ours"}`+"\n" || h.out.queried.Get("team") != "ENG" || h.out.queried.Get("what") != "labels" {
		t.Errorf("%s, asked %v", r.body, h.out.queried)
	}
	if p := h.problem(400, "invalid_query", h.admin, "GET", integrationsPath+"/"+id+"/metadata?what=bad", ""); p["field"] != "/query/what" {
		t.Errorf("a query that is wrong: %v", p)
	}
}

func TestRegistrations(t *testing.T) {
	h := newHouse(t)
	const apps = integrationsPath + "/apps"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	quoted, _ := json.Marshal(text)
	r := h.want(200, h.admin, "PUT", apps+"/github", `{"app_id":"42","slug":"gate","private_key":`+string(quoted)+`,"client_id":"c","client_secret":"CANARY","base_url":"https://ghe.example/api/v3"}`)
	if v := r.json(t); !slices.Equal(v["secrets"].([]any), []any{"client_secret", "private_key"}) || v["updated_by"] != "u-ben" {
		t.Errorf("set %s", r.body)
	}
	if h.out.secretsSent["private_key"] != text || h.out.secretsSent["client_secret"] != "CANARY" || h.count("provider_apps") != 1 {
		t.Errorf("sealed %v", h.out.secretsSent)
	}
	h.want(200, h.admin, "PUT", apps+"/nango", `{"api_key":"CANARY","keys":{"linear":"linear-prod"}}`)
	all := h.want(200, h.admin, "GET", apps, "").body + r.body + h.log.String() + h.signIn("u-ben").get("/integrations/github").body
	if strings.Contains(all, "CANARY") || strings.Contains(all, "PRIVATE KEY-") {
		t.Errorf("a secret came back: %s", all)
	}
	before := h.rows(org)
	for what, field := range map[string]string{
		`linear {}`:                                                               "/client_id",
		`linear {"client_secret":"x"}`:                                            "/client_id",
		`linear {"client_id":"a b\u0007"}`:                                        "/client_id",
		`linear {"client_id":"a","base_url":"http://a.test"}`:                     "/base_url",
		`linear {"client_id":"a","api_key":"x"}`:                                  "/api_key",
		`linear {"client_id":"a","app_id":"1","slug":"s","private_key":"x"}`:      "/app_id",
		`github {"app_id":"1","slug":"s","private_key":"x"}`:                      "/private_key",
		`github {"app_id":"1","private_key":"x"}`:                                 "/slug",
		`github {"app_id":"abc","slug":"s","private_key":` + string(quoted) + `}`: "/app_id",
		`github {"client_id":"a","base_url":"https://ghe.example"}`:               "/base_url",
		`github {"client_id":"a","base_url":"https://ghe.example/api"}`:           "/base_url",
		`cloudlogs {"client_id":"a"}`:                                             "/provider",
		`jira {"client_id":"a"}`:                                                  "/provider",
		`nango {}`:                                                                "/api_key",
		`nango {"api_key":"k","client_id":"c"}`:                                   "/client_id",
		`nango {"api_key":"k","keys":{"jira":"x"}}`:                               "/keys/jira",
	} {
		provider, body, _ := strings.Cut(what, " ")
		if r := h.want(400, h.admin, "PUT", apps+"/"+provider, body); r.json(t)["field"] != field {
			t.Errorf("%s: %s", what, r.body)
		}
	}
	if h.rows(org) != before {
		t.Error("a refused registration changed something")
	}
	for _, at := range []string{"https://ghe.example/api/v3/", "https://api.acme.ghe.example", "http://127.0.0.1:9"} {
		h.want(200, h.admin, "PUT", apps+"/github", `{"client_id":"a","base_url":"`+at+`"}`)
	}
	h.want(200, h.admin, "PUT", apps+"/linear", `{"client_id":"a","base_url":"https://linear.example"}`)
	h.want(204, h.admin, "DELETE", apps+"/nango", "")
	if p := h.problem(404, "provider_app_not_found", h.admin, "DELETE", apps+"/nango", ""); !strings.Contains(p["detail"].(string), "is not registered at nango.") {
		t.Errorf("forgotten twice: %v", p)
	}
	if p := h.problem(400, "invalid_field", h.admin, "PUT", apps+"/cloudlogs", `{"client_id":"a"}`); !strings.Contains(p["detail"].(string), "Cloud logs does not need a registration") {
		t.Errorf("of what needs none: %v", p)
	}
}

func TestWhatSessionsAreBoundTo(t *testing.T) {
	h := newHouse(t)
	add := func(id, provider string, status action.IntegrationStatus, user string) {
		h.connected(action.Integration{ID: id, Provider: provider, User: user, Status: status})
	}
	add("l1", "linear", action.IntegrationActive, "")
	add("l2", "linear", action.IntegrationRevoked, "")
	add("g1", "github", action.IntegrationActive, "")
	add("g2", "github", action.IntegrationActive, "")
	add("mine", "linear", action.IntegrationActive, "u-cyd")
	h.want(200, h.admin, "PUT", "/api/v1/automations/nightly/connections", `{"connections":["linear","g1"]}`)
	if r := h.want(200, h.member, "GET", "/api/v1/automations/nightly/connections", ""); r.body != `{"automation_id":"nightly","connections":["g1","l1"]}`+"\n" {
		t.Errorf("bound %s", r.body)
	}
	bound := func(credential, body string) []string {
		id := h.want(201, credential, "POST", "/api/v1/sessions", body).json(t)["session_id"]
		return must(h.db.Session(t.Context(), id.(string))).Connections
	}
	for body, want := range map[string][]string{
		`{}`:                                     nil,
		`{"connections":["all"]}`:                {"all"},
		`{"connections":["linear"]}`:             {"l1"},
		`{"connections":["module:linear","l1"]}`: {"l1"},
		`{"connections":["l2"]}`:                 nil, // it is revoked: left out
		`{"connections":["g1","g2","l1"]}`:       {"g1", "g2", "l1"},
	} {
		if diff := cmp.Diff(want, bound(h.member, body)); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	if diff := cmp.Diff([]string{"g1", "l1"}, bound(h.admin, `{"automation":"nightly"}`)); diff != "" {
		t.Errorf("an automation's: %s", diff)
	}
	if got := bound(h.admin, `{"automation":"nightly","connections":[]}`); got != nil {
		t.Errorf("an automation's that is bound to none: %v", got)
	}
	for body, says := range map[string]string{
		`{"connections":["l1","l2"]}`:   "one integration of Linear",
		`{"connections":["github"]}`:    "Use the ID of one: g1 (g1), g2 (g2)",
		`{"connections":["cloudlogs"]}`: "no active integration of cloudlogs",
		`{"connections":["jira"]}`:      "providers are linear, github, cloudlogs, gmail",
		`{"connections":["all","l1"]}`:  "must stand alone",
		`{"connections":["mine"]}`:      "personal connection",
	} {
		p := h.problem(400, "invalid_field", h.member, "POST", "/api/v1/sessions", body)
		if !strings.Contains(p["detail"].(string), says) || !strings.HasPrefix(p["field"].(string), "/connections/") {
			t.Errorf("%s: %v", body, p)
		}
	}
	h.problem(400, "invalid_field", h.admin, "PUT", "/api/v1/automations/nightly/connections", `{"connections":["all"]}`)
}

// What stands where a source is named may be a module's id.
func TestSourcesThatAreModules(t *testing.T) {
	h := newHouse(t)
	put := func(key string) string { return "/api/v1/policy/modes/" + key }
	const deny = `{"mode":"deny"}`
	if v := h.want(200, h.admin, "PUT", put("linear:create_issue"), deny).json(t); v["key"] != "linear:create_issue" {
		t.Errorf("of the module: %v", v)
	}
	p := h.problem(400, "unknown_action", h.admin, "PUT", put("linear:create_isue"), deny)
	if !strings.Contains(p["detail"].(string), "nearest: create_issue, list_issues") {
		t.Errorf("a typo: %v", p)
	}
	h.problem(400, "unknown_action", h.admin, "PUT", put("linear:linear_create_issue"), deny)
	p = h.problem(400, "unknown_action", h.admin, "PUT", put("gmail:foo"), deny)
	if p["detail"] != "gmail has no actions. Name an action of another source." {
		t.Errorf("of what has none: %v", p)
	}
	p = h.problem(404, "no_such_source", h.admin, "PUT", put("lniear:create_issue"), deny)
	if !strings.Contains(p["detail"].(string), "sources are cloudlogs, git, github, gmail, linear, platform.") {
		t.Errorf("a source that is none: %v", p)
	}
	// GitHub is a connector too: its own until the organization uses the module.
	for key, want := range map[string]string{"github:create": "connector:c1:create", "module:github:merge_pr": "github:merge_pr", "connector:c1:list": "connector:c1:list"} {
		if v := h.want(200, h.admin, "PUT", put(key), deny).json(t); v["key"] != want {
			t.Errorf("%s: %v", key, v)
		}
	}
	h.want(201, h.admin, "POST", integrationsPath, `{"provider":"github","kind":"api_key","secret":"a-b"}`)
	p = h.problem(400, "ambiguous_source", h.admin, "PUT", put("github:create"), deny)
	if !strings.Contains(p["detail"].(string), "connector:c1") || !strings.Contains(p["detail"].(string), "module:github") {
		t.Errorf("ambiguous: %v", p)
	}
	h.want(200, h.admin, "PUT", put("module:github:*"), deny)
	h.want(200, h.admin, "PUT", "/api/v1/capabilities/dev/module:github", `{"level":"read"}`)
	h.problem(400, "ambiguous_source", h.admin, "PUT", "/api/v1/capabilities/dev/github", `{"level":"read"}`)
	h.want(200, h.admin, "PUT", "/api/v1/policy/quotas/module:github:*", `{"per":"session","calls":1,"seconds":60}`)
	h.want(204, h.admin, "DELETE", put("module:github:*"), "")
	r := h.problem(404, "no_such_source", h.agent, "POST", "/api/v1/sessions/s1/actions/grants", `{"source":"jira","action":"x","reason":"r"}`)
	if strings.Contains(r["detail"].(string), "cloudlogs") {
		t.Errorf("an agent learns what there is: %v", r)
	}
}

func TestTheTimeoutOfAConnector(t *testing.T) {
	h := newHouse(t)
	v := h.want(200, h.admin, "PATCH", connectorsPath+"/github", `{"timeout_seconds":90}`).json(t)
	if v["timeout_seconds"] != json.Number("90") {
		t.Errorf("changed %v", v)
	}
	for _, n := range []string{"-1", "121"} {
		if p := h.problem(400, "invalid_request", h.admin, "PATCH", connectorsPath+"/github", `{"timeout_seconds":`+n+`}`); p["field"] != "/timeout_seconds" {
			t.Errorf("%s: %v", n, p)
		}
	}
}
