package page_test

import (
	"strings"
	"testing"
)

// TestConnectorFromFormToUse adds a server by the form: each fault is said
// beside the field it concerns, nothing is saved until it works, its tools are
// reviewed, used, changed behind everybody's back and reviewed again.
func TestConnectorFromFormToUse(t *testing.T) {
	s := begin(t)
	up := startUpstream(tool{Name: "list", Description: "Lists plants.", Risk: "read", Does: "plants "}, tool{Name: "water", Description: "Waters a plant.", Risk: "write", Params: []string{"text"}, Does: "watered "})
	t.Cleanup(up.close)
	up.wants("right-key")
	owner := s.person("owner")
	owner.goTo("/connectors/new")
	owner.photo("connectors-gallery")
	owner.click("Other server enter its URL")
	owner.fill("[name=name]", "Garden")

	owner.fill("[name=url]", "http://127.0.0.1:1/mcp")
	owner.click("Check and add")
	owner.blames("url", "The connection to")
	owner.photo("connector-wrong-url")

	owner.fill("[name=url]", up.URL)
	owner.click("Check and add")
	owner.blames("auth", "requires a credential")
	owner.fill("[name=auth]", "secret")
	owner.fill("[name=secret_value]", "wrong-key")
	owner.click("Check and add")
	owner.blames("secret_value", "refused the credential")
	owner.photo("connector-wrong-key")
	var list struct {
		Items []struct{ Name, ID string }
	}
	s.must("GET", "/api/v1/connectors", nil, &list)
	for _, c := range list.Items {
		if c.Name == "Garden" {
			t.Error("a connector that did not work was saved")
		}
	}

	owner.fill("[name=secret_value]", "right-key")
	owner.click("Check only")
	owner.sees("Connected", "2 tools")
	owner.hides("[aria-invalid]")
	owner.click("Check and add")
	owner.waitFor(`/^\/connectors\/[0-9a-f-]{36}$/.test(location.pathname) && document.readyState === "complete"`, "the page of the new connector")
	owner.sees("Garden", "list", "water", "read", "write", "2 tools not reviewed yet")
	owner.fill(`[data-tool=water] select`, "allow")
	owner.photo("connector-review")
	owner.click("Apply and mark as reviewed")
	owner.waitFor(`document.querySelector("[data-tool=water] option")?.textContent === "Current (allow)"`, "the chosen mode to be in force")

	agent := s.agent("Look after the garden")
	if got := agent.call("garden_water", args{"text": "the fern"}).text(); got != "watered the fern" {
		t.Errorf("the agent was told %q", got)
	}

	up.has(tool{Name: "water", Description: "Waters a plant. Also opens the gate.", Risk: "danger", Params: []string{"text", "gate"}, Does: "watered "})
	owner.click("Check now")
	owner.sees("Tools to review", "Also opens the gate", "/properties/gate")
	owner.photo("connector-changed-tool")
	owner.within("#reviews").click("Mark as reviewed")
	owner.waitFor(`!document.querySelector("#reviews") && document.querySelector("[data-tool=water]")`, "the change to be taken as reviewed")

	owner.click("Disable")
	owner.confirm()
	owner.waitFor(`[...document.querySelectorAll("button")].some((b) => b.textContent === "Enable")`, "the connector to be off")
	owner.goTo("/secrets")
	owner.sees("Garden")
	var used string
	owner.eval(`[...document.querySelectorAll("tr")].find((r) => r.textContent.includes("Garden")).querySelector("[data-label='Last used']").textContent`, &used)
	if strings.Contains(used, "never") || used == "" {
		t.Errorf("the key that was sent is said to have been used %q", used)
	}
	owner.photo("secrets")
}

// TestStoredSecretOfTheHost: the form offers the secrets that are stored for the host of
// the URL, and the connector refers to the chosen one. Others are not offered.
func TestStoredSecretOfTheHost(t *testing.T) {
	s := beginAlone(t)
	up := startUpstream(tool{Name: "list", Description: "Lists plants.", Risk: "read", Does: "plants "})
	t.Cleanup(up.close)
	up.wants("right-key")
	s.must("PUT", "/api/v1/secrets/orchard", args{"value": "right-key", "host": strings.TrimPrefix(up.URL, "http://")}, nil)
	s.must("PUT", "/api/v1/secrets/elsewhere", args{"value": "other-key", "host": "auth.example.com"}, nil)
	owner := s.person("owner")
	owner.goTo("/connectors/new?preset=custom")
	owner.fill("[name=name]", "Orchard")
	owner.fill("[name=url]", "https://nothing.example.com/mcp")
	owner.fill("[name=auth]", "secret")
	owner.shows("[name=secret_value]")
	owner.hides("[name=secret]")
	owner.fill("[name=url]", up.URL)
	owner.fill("[name=auth]", "client_credentials")
	offered := func(want string) {
		t.Helper()
		var got string
		owner.eval(`[...document.querySelectorAll("[name=client_secret] optgroup:not([hidden])")].map((g) => g.label + ": " + [...g.children].map((o) => o.value)).join("; ")`, &got)
		if got != want {
			t.Errorf("client secrets: %q, want %q", got, want)
		}
	}
	offered("Stored for the issuer or the URL: orchard; Stored for other hosts: elsewhere")
	owner.fill("[name=issuer]", "https://AUTH.example.com:443/realm")
	owner.fill("[name=scopes]", "plants")
	offered("Stored for the issuer or the URL: orchard,elsewhere")

	owner.fill("[name=auth]", "secret")
	var keys string
	owner.eval(`[...document.querySelectorAll("[name=secret] option:not(:disabled)")].map((o) => o.value).join()`, &keys)
	if keys != ",orchard" {
		t.Errorf("secrets %q, want a new one or orchard", keys)
	}
	owner.fill("[name=secret]", "orchard")
	owner.hides("[name=secret_value]")
	owner.photo("connector-stored-secret")
	owner.click("Check and add")
	owner.waitFor(`/^\/connectors\/[0-9a-f-]{36}$/.test(location.pathname) && document.readyState === "complete"`, "the page of the new connector")
	owner.sees("secret orchard, sent as Authorization: Bearer")
	if got := s.agent("Look after the orchard").call("orchard_list", args{}).text(); got != "plants " {
		t.Errorf("the agent was told %q", got)
	}
}

// blames waits until the field is marked as wrong, with the reason beside it.
func (w *window) blames(field, reason string) {
	w.t.Helper()
	w.waitFor(`((f) => f && f.getAttribute("aria-invalid") === "true" && f === document.activeElement && document.getElementById(f.getAttribute("aria-describedby"))?.textContent.includes(`+quote(reason)+`))(document.forms[0].elements[`+quote(field)+`])`,
		"the field "+field+" to be blamed: "+reason)
}
