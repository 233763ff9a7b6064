package page_test

import "testing"

// TestProfileOfConnector: a profile is chosen when a connector is added; its page
// counts the tools by mode, warns that agents share a server with state, and
// changes the modes of all tools, of those that are denied, or by pattern.
func TestProfileOfConnector(t *testing.T) {
	s := begin(t)
	up := startUpstream(append(demoTools(), tool{Name: "browser_click", Description: "Clicks.", Risk: "write", Does: "clicked "})...)
	t.Cleanup(up.close)
	owner := s.person("owner")
	owner.goTo("/connectors/new?preset=custom")
	owner.waitFor(`document.querySelector("[name=profile]").value === "ask" && document.querySelectorAll("[name=profile] option").length === 4`, "ask to be the default of four profiles")
	owner.fill("[name=name]", "Kitchen")
	owner.fill("[name=url]", up.URL)
	says := func(form, name, want string) {
		t.Helper()
		owner.waitFor(`document.querySelector(`+quote(form+" small[data-says="+name+"]")+`).textContent === `+quote(want), "the sentence of the selected option")
		owner.waitFor(`[...document.querySelectorAll(`+quote(form+" [name="+name+"] option")+`)].every((o) => o.textContent.length < 40)`, "options that a closed field shows in full")
	}
	says("form", "profile", "Reads are allowed, everything else needs approval.")
	owner.fill("[name=profile]", "strict")
	says("form", "profile", "Reads are allowed, writes need approval, destructive tools are denied.")
	owner.clickOn("details summary")
	owner.fill("[name=protocol]", "2025-11-25")
	owner.photo("connector-choose-profile")
	owner.click("Check and add")
	owner.waitFor(`/^\/connectors\/[0-9a-f-]{36}$/.test(location.pathname) && document.readyState === "complete"`, "the page of the new connector")
	owner.sees("4 tools: 1 allowed, 2 ask, 1 denied", "with the profile strict", "Its tools work with a browser (browser_click), and all agents share one session with the server")

	set := func(to, tools, want string, press ...string) {
		t.Helper()
		owner.clickOn("#set-modes summary")
		form := owner.within("#set-modes")
		form.fill("[name=to]", to)
		if tools != "" {
			form.fill("[name=tools]", tools)
		}
		for _, selector := range press {
			form.clickOn(selector)
		}
		form.click("Set modes")
		owner.waitFor(`document.querySelector("#mode-counts")?.textContent.includes(`+quote(want)+`)`, "the modes: "+want)
	}
	owner.sees("MCP 2025-11-25, pinned")
	owner.clickOn("#set-modes summary")
	says("#set-modes", "to", "Reads are allowed, writes need approval, destructive tools are denied.")
	owner.fill("#set-modes [name=to]", "deny")
	says("#set-modes", "to", "")
	owner.clickOn("#set-modes summary")
	set("ask", "", "4 tools: 1 allowed, 3 ask with the profile strict", "[name=only_denied]")
	set("deny", "browser_*, wi*", "4 tools: 1 allowed, 1 ask, 2 denied")
	set("read-only", "", "4 tools: 1 allowed, 3 denied with the profile read-only")
	owner.photo("connector-profile")

	owner.clickOn("#set-modes summary")
	form := owner.within("#set-modes")
	form.fill("[name=tools]", "nothing*")
	form.click("Set modes")
	form.shows("[role=alert]")
	owner.sees("4 tools: 1 allowed, 3 denied")

	owner.clickOn("#edit-connector summary")
	owner.clickOn("#edit-connector details summary")
	owner.clickOn("#edit-connector [name=per_agent]")
	owner.waitFor(`document.querySelector("#edit-connector [name=protocol]").value === "2025-11-25"`, "the pinned version in the form")
	owner.fill("#edit-connector [name=protocol]", "")
	owner.within("#edit-connector").click("Save")
	owner.waitFor(`!document.querySelector("#shared-state")`, "no warning once each agent has a session")
	owner.waitFor(`!document.body.textContent.includes(", pinned")`, "the version to be agreed again")
}
