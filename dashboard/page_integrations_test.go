package dashboard_test

import (
	"strings"
	"testing"

	"sallyport/action"
)

func TestThePageOfAService(t *testing.T) {
	h := newHouse(t)
	h.m.integrations = []action.Integration{
		{ID: "i1", Organization: org, Provider: "linear", Kind: action.KindAPIKey, Account: "a1", AccountName: "Acme\u202e", Name: "Ours", Visibility: action.VisibleOrganization, Status: action.IntegrationActive, CreatedBy: "u-ada"},
		{ID: "i2", Organization: org, Provider: "linear", Kind: action.KindOAuth2, Account: "a2", Name: "Dead", Visibility: action.VisibleOrganization, Status: action.IntegrationExpired, Reason: "Its token ended.", CreatedBy: "u-ada"},
		{ID: "i3", Organization: org, Provider: "linear", Kind: action.KindAPIKey, Account: "a3", Name: "Cyd's", User: "u-cyd", Visibility: action.VisiblePrivate, Status: action.IntegrationActive, CreatedBy: "u-cyd"},
	}
	const path = "/integrations/linear"
	ben, cyd := h.signIn("u-ben"), h.signIn("u-cyd")
	h.lacks("the settings", ben.settings(), `href="/integrations/linear#i1"`, `\u202e`, "Its token ended. Connect the account again", `<option value="i1">`)
	admin := ben.get(path).body
	h.lacks("the page", admin, `data-integration="i1"`, `data-disconnect="i2"`, `\u202e`, "The gateway is not registered at Linear yet", `data-kind="api_key"`,
		"The team whose issues are meant", `name="private"`, `data-form="app" data-provider="linear"`, `data-form="app" data-provider="nango"`, "create_issue", public+"/oauth/callback/linear<")
	member := cyd.get(path).body
	h.lacks("a member's page", member, `data-integration="i3"`, "in the name of cyd alone", `<input type="hidden" name="own" value="on">`, "An owner or admin does that.")
	for _, what := range []string{`data-integration="i1"`, `data-disconnect="i1"`, `name="private"`, `data-form="app"`} {
		if strings.Contains(member, what) {
			t.Errorf("a member is offered %s", what)
		}
	}
	h.m.apps = []action.ProviderApp{{Organization: org, Provider: "nango", Secrets: []string{"api_key"}}}
	h.lacks("with a broker", cyd.get(path).body, "data-browser", `name="nango" required`, `data-form="broker"`, `name="connection_id" required`)
	for path, want := range map[string]string{"github": `/oauth/callback/github</code>, which is its Setup URL too`, "cloudlogs": "Owners and admins connect Cloud logs."} {
		who := ben
		if path == "cloudlogs" {
			who = cyd
		}
		h.lacks(path, who.get("/integrations/"+path).body, want)
	}
	h.lacks("without actions", ben.get("/integrations/gmail").body, "Gmail has no actions for agents.")
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
	h.m.integrations = []action.Integration{
		{ID: "i1", Organization: org, Provider: "linear", Account: "a1", AccountName: "Acme", Name: "Ours", BaseURL: "https://linear.test/x", Visibility: action.VisibleOrganization, Status: action.IntegrationActive},
		{ID: "i2", Organization: org, Provider: "linear", Account: "a2", Name: "Unbound", Visibility: action.VisibleOrganization, Status: action.IntegrationActive},
		{ID: "i3", Organization: org, Provider: "linear", Account: "a3", Name: "Pat's", CreatedBy: "u-pat", Visibility: action.VisiblePrivate, Status: action.IntegrationActive},
		{ID: "i4", Organization: org, Provider: "github", Account: "a4", Name: "Code", Visibility: action.VisibleOrganization, Status: action.IntegrationActive},
	}
	h.m.sessions[0].Connections = []string{"i1", "i4"}
	id := h.m.add(action.Invocation{Organization: org, Session: "s1", Source: "linear", SourceName: "Linear", Action: "create_issue", Status: action.StatusDenied, Summary: "Make an issue", CreatedAt: h.clock.now()})
	b := h.signIn("u-ben")
	page := b.get("/invocations/" + id).body
	h.lacks("the page", page, "Account <b>Acme (Ours) at linear.test</b>", "Make an issue")
	for _, what := range []string{"Unbound", "Pat&#39;s", "Code"} {
		if strings.Contains(page, what) {
			t.Errorf("the page names %s", what)
		}
	}
	h.m.sessions[0].Connections = []string{"i1", "i3"}
	h.lacks("with one that is private", b.get("/invocations/"+id).body, "One of the accounts", "perhaps one that you may not see")
	h.m.sessions[0].Connections = []string{"all"}
	h.lacks("with all", b.get("/invocations/"+id).body, "One of the accounts", "a2 (Unbound)")
	for chosen, want := range map[string]string{"i1": "Account <b>Acme (Ours) at linear.test</b>", "i3": "Account <b>of an integration that you may not see, or that is disconnected: i3</b>"} {
		h.gate.set(id, func(inv *action.Invocation) { inv.Integration = chosen })
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
