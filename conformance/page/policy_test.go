package page_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to write past the gateway
)

// TestModeBySearch: a mode is set by choosing a source and an action, with what
// is in force before; found by searching; explained; and taken back, with what
// is in force then.
func TestModeBySearch(t *testing.T) {
	s := begin(t)
	owner := s.person("owner")
	owner.goTo("/policy")
	owner.click("Add override")
	form := owner.within("form[data-form=mode]")
	form.fill("[name=source]", s.source("demo"))
	owner.waitFor(`document.querySelectorAll("#set-mode datalist option[value=read]").length === 1`, "the actions of the source to be offered")
	form.fill("[name=action]", "read")
	form.sees("Allowed", "It is read-only", "inferred")
	form.fill("[name=mode]", "deny")
	owner.photo("policy-set-a-mode")
	form.click("Save")
	s.afterwards("DELETE", "/api/v1/policy/modes/demo:read")

	owner.waitFor(`location.search.includes("key=")`, "the page with the mode")
	owner.within("#explain").sees("Denied", "The organization's mode for this action is deny")
	owner.fill("#modes [name=q]", "demo:re")
	row := owner.within(`#mode-rows tr[data-text^="demo:read "]`)
	row.sees("demo", "read", "deny", "everyone", "Olga Owner")
	owner.fill("#modes [name=q]", "no such thing")
	row.hides("td")
	owner.within("#modes").sees("0 of")
	owner.fill("#modes [name=q]", "demo:read")
	row.click("Remove demo:read")
	owner.within("#confirm").sees("The default for reads then applies: allow")
	owner.confirm()
	owner.waitFor(`!document.querySelector('#mode-rows tr[data-text^="demo:read "]')`, "the mode to be gone")
}

// TestExplainIsALink: the question is in the address, and its answer names the
// layers in order, without anything that runs.
func TestExplainIsALink(t *testing.T) {
	s := begin(t)
	agent := s.agent("Explain to me")
	ada := s.person("member")
	ada.goTo("/policy?" + url.Values{"key": {"demo:write"}, "session": {agent.Session}, "params": {`{"text":"milk"}`}}.Encode())
	panel := ada.within("#explain")
	panel.sees("Requires approval", "automation no match", "organization no match", "capability no match", "inferred", "No grant exists for this call")
	if n := len(s.invocations("session=" + agent.Session)); n != 0 {
		t.Errorf("explaining made %d calls", n)
	}
	panel.fill("[name=params]", `{"nothing":`)
	panel.click("Explain")
	panel.shows(".error")
	panel.fill("[name=params]", "")
	panel.fill("[name=session]", "")
	panel.fill("[name=action]", "wipe")
	panel.click("Explain")
	panel.sees("Denied", "It is destructive")
	ada.photo("policy-explain")
}

// TestDefaultGroup: an admin chooses the group of sessions that are created without
// one, and the session of a member is held to its access.
func TestDefaultGroup(t *testing.T) {
	s := beginAlone(t)
	owner, ada := s.person("owner"), s.person("member")
	s.must("PUT", "/api/v1/capabilities/readers/demo", args{"level": "read"}, nil)
	owner.goTo("/policy")
	owner.within("#capabilities").sees("No default group", "such as those of members")
	owner.click("Choose a default group")
	settings := owner.within("[data-form=settings]")
	settings.fill("[name=default_group]", "readers")
	owner.photo("policy-default-group")
	settings.click("Save")
	owner.waitFor(`document.querySelector("#capabilities").textContent.includes("New sessions without a group are in the default group readers")`, "the default group to be in force")
	owner.within("#capabilities").misses("No default group")

	ada.goTo("/sessions")
	ada.fill("#new-session [name=title]", "Ada's own")
	ada.within("#new-session").click("Create session")
	ada.within("#session-once").sees("In the group readers, whose access limits it.")
	var token string
	ada.eval(`document.querySelector("#session-env").textContent.split("=")[1]`, &token)
	agent := s.agentOf("", token)
	if got := agent.call("demo_read", args{"text": "milk"}).text(); got != "read milk" {
		t.Errorf("a read: %q", got)
	}
	if denied := agent.call("demo_write", args{"text": "milk"}); !denied.result().IsError || !strings.Contains(denied.text(), "group 'readers' has level 1 (read)") {
		t.Errorf("a write: %q", denied.text())
	}

	owner.click("readers at demo: read")
	owner.within("#capability[open]").click("Remove")
	owner.confirm()
	owner.sees("this is its only capability")
	ada.goTo("/policy?key=demo:write")
	ada.within("#explain").sees("Denied", "group 'readers' has level 1 (read)")
	ada.within("#choices").sees("Sessions created without a group are in readers.")
}

// TestGroupFromTemplate: a group begins with the access that a template proposes.
func TestGroupFromTemplate(t *testing.T) {
	s := beginAlone(t)
	owner := s.person("owner")
	owner.goTo("/policy")
	owner.click("Create group from template")
	form := owner.within("form[data-form=group]")
	form.fill("[name=group]", "crew")
	form.fill("[name=template]", "contributor")
	owner.photo("policy-group-template")
	form.click("Create group")
	owner.waitFor(`document.querySelector("#capabilities th[scope=row]")?.textContent === "crew"`, "the group to be created")
	owner.within(`[data-group="crew"][data-name="demo"]`).sees("write")
	agent := s.agent("In the crew", args{"group": "crew"})
	if got := agent.call("demo_write", args{"text": "milk"}).text(); got != "wrote milk" {
		t.Errorf("a write: %q", got)
	}

	owner.click("Create group from template")
	form.fill("[name=group]", "crew")
	form.fill("[name=template]", "operator")
	form.click("Create group")
	form.sees("already has capabilities")
}

// TestCapabilityCell: what a group may do at a provider is edited in its cell.
func TestCapabilityCell(t *testing.T) {
	s := begin(t)
	owner := s.person("owner")
	s.must("PUT", "/api/v1/capabilities/story-cell/demo", args{"level": "read"}, nil)
	s.afterwards("DELETE", "/api/v1/capabilities/story-cell/demo")
	owner.goTo("/policy")
	table := owner.within("#capabilities")
	table.click("story-cell at demo: read")
	form := owner.within("#capability[open]")
	form.fill("[name=level]", "3")
	form.click("Save")
	owner.waitFor(`document.querySelector("#capability [name=required_gate]:invalid")`, "the gate to be asked for")
	form.fill("[name=required_gate]", "deploy")
	form.fill("[name=denied_actions]", "wipeout")
	form.click("Save")
	form.sees(`has no action "wipeout"`)
	form.fill("[name=denied_actions]", "write")
	form.fill("[name=rate]", "20")
	form.fill("[name=seconds]", "3600")
	owner.photo("policy-capability")
	form.click("Save")
	cell := owner.within(`[data-group="story-cell"][data-name="demo"]`)
	cell.sees("production", "gate deploy", "denied: write", "20 calls per hour")

	gates := owner.within("#gates")
	gates.click("Approve a gate")
	gates.fill("[name=gate]", "deploy")
	gates.fill("[name=group]", "story-cell")
	gates.fill("[name=task]", "T-42")
	gates.click("Approve")
	gates.sees("T-42", "all tools behind this gate", "Olga Owner")
	owner.goTo("/policy?" + url.Values{"key": {"demo:wipe"}, "group": {"story-cell"}, "task": {"T-42"}}.Encode())
	owner.within("#explain").sees("Allowed", "The capability of group")
	owner.within("#gates").click("Revoke the approval of deploy for T-42")
	owner.confirm()
	owner.waitFor(`document.readyState === "complete" && document.querySelector("#gates")?.innerText.includes("revoked")`, "the approval to be revoked")
	owner.within("#explain").sees("Denied")

	table.clickOn(`[data-group="story-cell"][data-name="demo"]`)
	form.click("Remove")
	owner.within("#confirm").sees("lose all access to demo")
	owner.confirm()
	owner.waitFor(`document.readyState === "complete" && !document.querySelector('[data-group="story-cell"]')`, "the capability to be gone")
}

// TestGrantByHand: a grant that somebody makes lets a call run, its bar moves,
// and once revoked it lets nothing run.
func TestGrantByHand(t *testing.T) {
	s := begin(t)
	owner := s.person("owner")
	agent := s.agent("Grants by hand")
	owner.goTo("/grants")
	owner.click("Create grant")
	form := owner.within("form[data-form=grant]")
	form.fill("[name=session_id]", agent.Session)
	form.fill("[name=source]", s.source("demo"))
	form.fill("[name=action]", "write")
	form.fill("[name=max_calls]", "")
	form.sees("The number of calls is not limited")
	form.fill("[name=max_calls]", "2")
	form.fill("[name=pins]", "/text = milk")
	form.click("Create grant")
	form.sees("Put strings in quotes")
	form.fill("[name=pins]", `/text = "milk"`)
	form.click("Create grant")
	// Other stories grant milk, too, and to leave before the answer would cancel the request.
	owner.shows(`#grants a[href="/activity?session=` + agent.Session + `"]`)
	of := "/grants?show=all&session=" + agent.Session
	owner.goTo(of)
	list := owner.within("#grants")
	list.sees("0 of 2, 2 left", `/text = "milk"`, "created manually")

	if got := agent.call("demo_write", args{"text": "milk"}).text(); got != "wrote milk" {
		t.Errorf("the agent was told %q", got)
	}
	owner.goTo(of)
	list.sees("1 of 2, 1 left")
	var used float64
	owner.eval(`document.querySelector("#grants progress").position`, &used)
	if used != 0.5 {
		t.Errorf("the bar is at %v", used)
	}
	owner.photo("grants")
	list.click("Revoke the grant of demo write")
	owner.confirm()
	list.sees("revoked", "by Olga Owner")
	agent.call("demo_write", args{"text": "milk"})
	agent.held()
}

// TestPolicyOfAMember: a member sees what holds and no way to change it.
func TestPolicyOfAMember(t *testing.T) {
	s := begin(t)
	s.must("PUT", "/api/v1/capabilities/story-member/demo", args{"level": "write"}, nil)
	s.afterwards("DELETE", "/api/v1/capabilities/story-member/demo")
	s.mode("demo:wipe", "deny")
	member := s.person("member")
	member.goTo("/policy")
	member.within("#capabilities").sees("story-member", "write")
	member.within("#modes").sees("wipe", "deny")
	for path, forms := range map[string]string{"/policy": "#explain form, #modes .search", "/grants": ".search", "/audit": ".search"} {
		member.goTo(path)
		var left []string
		member.eval(`[...document.querySelectorAll("main form, main button")].filter((e) => !e.closest(`+quote(forms)+`)).map((e) => e.outerHTML.slice(0, 120))`, &left)
		if len(left) > 0 {
			t.Errorf("%s offers a member %q", path, left)
		}
	}
	member.goTo("/audit")
	member.within("#changes").sees("Group access added", "story-member/demo", "write")
}

// TestAuditIsVerified: what was changed is told in words; the evidence holds,
// also beside a head that was kept, and one that is none is refused beside its
// field.
func TestAuditIsVerified(t *testing.T) {
	s := begin(t)
	owner := s.person("owner")
	s.mode("demo:write", "deny")
	s.must("PUT", "/api/v1/policy/modes/demo:write", args{"mode": "require_approval"}, nil)
	owner.goTo("/audit?subject=demo:write")
	owner.within("#changes tbody tr").sees("Override changed", "demo:write", "mode", "deny", "require_approval")
	owner.click("Verify")
	report := owner.within("#report")
	report.sees("Verification passed", "compared")
	var head string
	await(t, "a head of the chain", func() bool {
		owner.goTo("/audit")
		owner.eval(`document.querySelector("#head").textContent`, &head)
		return !strings.Contains(head, `"seq":0`)
	})
	owner.click("Verify against a stored head")
	owner.fill("[name=head]", head)
	owner.click("Verify against head")
	report.sees("Verification passed", "The stored head")
	owner.fill("[name=head]", strings.Replace(head, `"seq":`, `"seq":9`, 1))
	owner.click("Verify against head")
	owner.within("form[data-form=kept]").sees("was not signed with this gateway's key")
	owner.photo("audit")
	owner.dark()
	owner.photo("audit-dark")
	owner.phone()
	owner.photo("audit-phone")
	owner.fits()
}

// TestTamperingShows: who writes to the database past the gateway is found out,
// with the place, in words.
func TestTamperingShows(t *testing.T) {
	s := beginAlone(t)
	s.must("PUT", "/api/v1/policy/modes/demo:write", args{"mode": "deny"}, nil)
	await(t, "the change to be sealed", func() bool {
		var r struct {
			OK       bool `json:"ok"`
			Checked  int  `json:"checked"`
			Unsealed int  `json:"unsealed"`
		}
		s.must("POST", "/api/v1/audit/verify", nil, &r)
		return r.OK && r.Checked > 0 && r.Unsealed == 0
	})
	db, err := sql.Open("sqlite", filepath.Join(s.data, "sallyport.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		"DROP TRIGGER policy_events_update",
		`UPDATE policy_events SET after = '{"mode":"allow"}' WHERE subject LIKE '%:write'`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	owner := s.person("owner")
	owner.goTo("/audit")
	owner.click("Verify")
	report := owner.within("#report")
	report.sees("Verification failed", "A row was modified after it was sealed", "policy", "find out who had write access to it")
	owner.photo("audit-broken")
}

// source is the id of a connector's actions.
func (s *story) source(slug string) string {
	s.t.Helper()
	var c struct {
		Source string `json:"source_id"`
	}
	s.must("GET", "/api/v1/connectors/"+slug, nil, &c)
	return c.Source
}

// afterwards sends a request when the story has ended, whatever its answer is.
func (s *story) afterwards(method, path string) {
	s.t.Cleanup(func() { _, _ = s.send(context.Background(), method, path, nil, nil) })
}
