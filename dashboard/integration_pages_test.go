package dashboard_test

import (
	"fmt"
	"strings"
	"testing"

	"sallyport/action"
)

func TestThePageOfAService(t *testing.T) {
	h := newHouse(t)
	h.connected(action.Integration{ID: "i1", Provider: "linear", AccountName: "Acme\u202e", Name: "Ours"})
	h.connected(action.Integration{ID: "i2", Provider: "linear", Kind: action.KindOAuth2, Name: "Dead", Status: action.IntegrationExpired, Reason: "Its token ended."})
	h.connected(action.Integration{ID: "i3", Provider: "linear", Name: "Cyd's", User: "u-cyd", CreatedBy: "u-cyd"})
	const path = "/integrations/linear"
	ben, cyd := h.signIn("u-ben"), h.signIn("u-cyd")
	h.lacks("the settings", ben.settings(), `href="/integrations/linear#i1"`, `\u202e`, "Its token ended. Connect the account again", `<option value="i1">`)
	admin := ben.get(path).body
	h.lacks("the page", admin, `data-integration="i1"`, `data-disconnect="i2"`, `\u202e`, "No app is registered with Linear yet", `data-kind="api_key"`,
		"The team whose issues are meant", `name="private"`, `data-form="app" data-provider="linear"`, `data-form="app" data-provider="nango"`, "create_issue", public+"/oauth/callback/linear<")
	member := cyd.get(path).body
	h.lacks("a member's page", member, `data-integration="i3"`, "cyd (personal)", `<input type="hidden" name="own" value="on">`, "Ask an owner or admin to register one.")
	for _, what := range []string{`data-integration="i1"`, `data-disconnect="i1"`, `name="private"`, `data-form="app"`} {
		if strings.Contains(member, what) {
			t.Errorf("a member is offered %s", what)
		}
	}
	h.insert("provider_apps", "organization_id", org, "provider", "nango", "secrets", []string{"api_key"}, "sealed", []byte("sealed"), "updated_by", "u-ada", "updated_at", h.clock.now())
	h.lacks("with a broker", cyd.get(path).body, "data-browser", `name="nango" required`, `data-form="broker"`, `name="connection_id" required`)
	for path, want := range map[string]string{"github": "and setup URL: <code>" + public + "/oauth/callback/github</code>", "cloudlogs": "Only owners and admins can connect Cloud logs."} {
		who := ben
		if path == "cloudlogs" {
			who = cyd
		}
		h.lacks(path, who.get("/integrations/"+path).body, want)
	}
	h.lacks("without actions", ben.get("/integrations/gmail").body, "Gmail has no tools for agents.")
	for from, to := range map[string]string{"/settings/integrations": "/integrations", "/settings/connectors/c1": "/connectors/c1", "/settings/connectors/%2Fevil.example": "/connectors/%2Fevil.example"} {
		if r := ben.get(from); r.StatusCode != 302 || r.Header.Get("Location") != to {
			t.Errorf("%s: %d to %s", from, r.StatusCode, r.Header.Get("Location"))
		}
	}
	for _, from := range []string{"/settings/%2Fevil.example", "/settings/..%2F%2Fevil.example", "/settings/%5Cevil.example", "/settings/none"} {
		if r := ben.get(from); r.StatusCode != 404 {
			t.Errorf("%s: %d to %s", from, r.StatusCode, r.Header.Get("Location"))
		}
	}
	if r := ben.get("/integrations/jira"); r.StatusCode != 404 {
		t.Errorf("of no service: %d", r.StatusCode)
	}
}

// Whoever approves a call is told whose credential it would use.
func TestTheAccountOfACall(t *testing.T) {
	h := newHouse(t)
	h.connected(action.Integration{ID: "i1", Provider: "linear", AccountName: "Acme", Name: "Ours", BaseURL: "https://linear.test/x"})
	h.connected(action.Integration{ID: "i2", Provider: "linear", Account: "a2", Name: "Unbound"})
	h.connected(action.Integration{ID: "i3", Provider: "linear", Name: "Pat's", CreatedBy: "u-pat", Visibility: action.VisiblePrivate})
	h.connected(action.Integration{ID: "i4", Provider: "github", Name: "Code"})
	calls := 0
	call := func(chosen string, bound ...string) (id string) {
		calls++
		session := fmt.Sprintf("bound-%d", calls)
		h.insert("sessions", "id", session, "organization_id", org, "kind", action.Interactive, "type", action.TypeCoding, "connections", bound, "created_by", "u-ada", "created_at", h.clock.now())
		return h.add(action.Invocation{
			Session: session, Source: "linear", SourceName: "Linear", Action: "create_issue", Status: action.StatusDenied, DeniedReason: action.DeniedPolicy, Summary: "Make an issue", Integration: chosen,
		})
	}
	id := call("", "i1", "i4")
	b := h.signIn("u-ben")
	page := b.get("/invocations/" + id).body
	h.lacks("the page", page, "Account: <b>Acme (Ours) at linear.test</b>", "Make an issue")
	for _, what := range []string{"Unbound", "Pat&#39;s", "Code"} {
		if strings.Contains(page, what) {
			t.Errorf("the page names %s", what)
		}
	}
	h.lacks("with one that is private", b.get("/invocations/"+call("", "i1", "i3")).body, "One of these accounts:", "possibly one that is not visible to you")
	h.lacks("with all", b.get("/invocations/"+call("", "all")).body, "One of these accounts:", "a2 (Unbound)")
	for chosen, want := range map[string]string{"i1": "Account: <b>Acme (Ours) at linear.test</b>", "i3": "Account: <b>integration i3 (disconnected or not visible to you)</b>"} {
		id := call(chosen, "all")
		page := b.get("/invocations/" + id).body
		h.lacks("once it is chosen", page, want, "<dt>Integration</dt><dd><code>"+chosen+"</code>")
		if strings.Contains(page, "Unbound") || strings.Contains(page, "Pat&#39;s") {
			t.Errorf("the page names others than %s", chosen)
		}
		if v := h.want(200, h.member, "GET", "/api/v1/invocations/"+id, "").json(t); v["integration_id"] != chosen {
			t.Errorf("the API says %v", v)
		}
	}
}
