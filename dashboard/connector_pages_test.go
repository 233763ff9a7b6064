package dashboard_test

import (
	"regexp"
	"strings"
	"testing"

	"sallyport/action"
)

func (h *house) lacks(where, body string, wanted ...string) {
	h.t.Helper()
	for _, want := range wanted {
		if !strings.Contains(body, want) {
			h.t.Errorf("%s lacks %s", where, want)
		}
	}
}

func TestThePageOfAConnector(t *testing.T) {
	h := newHouse(t, known)
	h.watched()
	const path = "/connectors/c1"
	b := h.signIn("u-ben")
	body := b.get(path).body
	h.lacks("the page", body, "5 tools, 3 resources, 1 resource template, 2 prompts", "MCP 2025-11-25", "1.5 ms", "TLS 1.3", "1 tool was dropped",
		`data-form="change"`, `data-form="onboard"`, `data-review-all="c1"`, "2 tools not reviewed yet.", public+"/oauth/callback")
	rows := regexp.MustCompile(`<tr data-tool="([^"]*)"( data-behaviour="b-\d" data-text="t-\d")?( data-fresh)?>`).FindAllStringSubmatch(body, -1)
	var got []string
	for _, r := range rows {
		got = append(got, r[1]+r[3])
	}
	want := "drop data-fresh, list data-fresh, prompts/get, resources/read, create, gone"
	if strings.Join(got, ", ") != want {
		t.Errorf("the page lists %s, want %s", strings.Join(got, ", "), want)
	}
	h.lacks("the tools", body, `<option value="">Default (allow)</option>`, `<option value="">Default (deny)</option>`)

	member := h.signIn("u-cyd").get(path).body
	if strings.Contains(member, "data-call") || strings.Contains(member, "data-form=\"change\"") || strings.Contains(member, "<select") || strings.Contains(member, "data-sign-in") {
		t.Error("a member is offered what he may not do")
	}
	if r := b.get("/connectors/none"); r.StatusCode != 404 {
		t.Errorf("of no connector: %d", r.StatusCode)
	}
}

// A sign-in that is due is said where people look, with what to do.
func TestASignInThatIsDue(t *testing.T) {
	h := newHouse(t)
	h.signable()
	b := h.signIn("u-ben")
	h.lacks("the list", b.settings(), "sign-in needed", `data-sign-in="c1"`)
	h.lacks("the page", b.get("/connectors/c1").body, "Not signed in.", `data-sign-in="c1"`, `id="sign-in-error" role="alert" hidden`)
	h.signedIn(action.OAuthGrant{Status: action.OAuthReconnect, Reason: "The service took it back."})
	for _, path := range []string{"/connectors", "/connectors/c1"} {
		h.lacks(path, b.get(path).body, "reconnect needed", "The service took it back.", `data-sign-in="c1"`)
	}
	h.exec("UPDATE oauth_grants SET status = 'connected', reason = NULL, by = 'u-ben'")
	h.lacks("the page", b.get("/connectors/c1").body, "connected</span> by ben at", "https://login.example", "Sign out")
	if strings.Contains(b.settings(), "data-sign-in") {
		t.Error("a connector that is connected asks for a sign-in")
	}
}

func TestAServerThatIsDown(t *testing.T) {
	h := newHouse(t)
	h.serves("http://down.example/mcp")
	b := h.signIn("u-cyd")
	for _, path := range []string{"/connectors", "/connectors/c1"} {
		h.lacks(path, b.get(path).body, "error</span>", "The server did not answer.", "Next retry")
	}
	h.lacks("the page", b.get("/connectors/c1").body, "upstream_unreachable", "No tools. The server could not be reached.")
	h.serves("http://open.example/mcp")
	h.lacks("the list", b.settings(), "backing off</span>", "It failed again and again.")
}

// The form offers what is known, and warns of what a server may ask.
func TestTheFormOfANewConnector(t *testing.T) {
	h := newHouse(t, known)
	ben := h.signIn("u-ben")
	h.lacks("the gallery", ben.get("/connectors/new").body, `href="/connectors/new?preset=linear"`, "<b>Pager</b>", "<b>Other server</b>")
	if n := strings.Count(ben.get("/connectors/new").body, "preset=custom"); n != 1 {
		t.Errorf("the server without an address is offered %d times", n)
	}
	h.lacks("the form of a known one", ben.get("/connectors/new?preset=linear").body, `name="preset" value="linear"`, "<h1>Add Linear</h1>", "leave empty for the default")
	if r := ben.get("/connectors/new?preset=nothing"); r.StatusCode != 404 || !strings.Contains(r.body, "add the server by its URL") {
		t.Errorf("an unknown preset: %d", r.StatusCode)
	}
	body := ben.get("/connectors/new?preset=custom").body
	h.lacks("the form", body, `name="secret_value" type="password"`, `data-press="try"`, `name="url" type="url" required`)
	for _, kind := range action.AskKinds() {
		if !regexp.MustCompile(`value="` + string(kind) + `"> <span>\w+ <small>The server can [^<]+</small>`).MatchString(body) {
			t.Errorf("%s is offered without a warning", kind)
		}
	}
}

// What is wrong with a server is said where it is set right.
func TestAFaultNamesItsField(t *testing.T) {
	h := newHouse(t)
	h.serves("http://down.example/mcp")
	h.lacks("the view", h.want(200, h.admin, "GET", "/api/v1/connectors/c1", "").body, `"code":"upstream_unreachable","message":"The server did not answer.","field":"/url"`)
	h.lacks("the form", h.signIn("u-ben").get("/connectors/c1").body, `data-fault="/url" data-fault-text="The server did not answer."`)
}

// A secret is shown by its name, its host and its uses, and by nothing else.
func TestSecretsPage(t *testing.T) {
	h := newHouse(t)
	h.want(200, h.admin, "PUT", "/api/v1/secrets/spare", `{"value":"hush-hush","host":"api.example.com"}`)
	body := h.signIn("u-ben").get("/secrets").body
	h.lacks("the page", body, "<code>spare</code>", "api.example.com", "never", `data-call="DELETE /api/v1/secrets/spare"`, `data-form="secret"`)
	if strings.Contains(body, "hush-hush") {
		t.Error("the page shows a secret's value")
	}
	if body = h.signIn("u-cyd").get("/secrets").body; strings.Contains(body, "data-call") || strings.Contains(body, "data-form") {
		t.Error("a member is offered to change a secret")
	}
}
