package page_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// rows are the ids of the calls that the list shows, in its order.
func (w *window) rows() (ids []string) {
	w.t.Helper()
	w.eval(`[...document.querySelectorAll("#rows > tr")].map((r) => r.id.replace("call-", ""))`, &ids)
	return ids
}

// TestActivityIsNarrowedDown: by links, by the form, page by page, and as a
// file; the address says it all.
func TestActivityIsNarrowedDown(t *testing.T) {
	s := begin(t)
	agent := s.agent("Look for me")
	for n := range 52 {
		agent.call("demo_read", args{"text": fmt.Sprint("page ", n)}).text()
	}
	agent.call("demo_wipe", args{"text": "all"}).text()
	call := agent.call("demo_write", args{"text": "milk"})
	id := agent.held()
	owner := s.person("owner")
	owner.within("#inv-" + id).click("Approve")
	call.text()

	of := "/activity?session=" + agent.Session
	owner.goTo(of)
	if got := owner.rows(); len(got) != 50 || got[0] != id {
		t.Errorf("the first page has %d calls, %.100q", len(got), got)
	}
	owner.sees("54 matching calls", "Look for me", "allow", "require approval")
	owner.photo("activity")
	owner.click("Older")
	owner.waitFor(`document.querySelectorAll("#rows > tr").length === 4`, "the second page")
	owner.click("Newest")
	owner.waitFor(`document.querySelectorAll("#rows > tr").length === 50`, "the first page again")

	owner.click("denied")
	owner.waitFor(`document.querySelectorAll("#rows > tr").length === 1`, "what was denied")
	owner.sees("wipe", "1 matching call")
	owner.click("last hour")
	owner.waitFor(`location.search.includes("last=hour") && location.search.includes("status=denied")`, "both filters in the address")
	owner.goTo(of)
	owner.click("More filters")
	owner.fill("[name=action]", "write")
	owner.eval(`document.querySelector("[name=person]").value = "me"`, nil)
	owner.photo("activity-form")
	owner.click("Apply")
	owner.waitFor(`location.search.includes("person=me") && document.querySelectorAll("#rows > tr").length === 1`, "what the form asks for")
	if got := owner.rows(); !slices.Equal(got, []string{id}) {
		t.Errorf("what the owner decided: %q", got)
	}
	if q, err := url.ParseQuery(strings.TrimPrefix(owner.path(), "/activity?")); err != nil || len(q) != 3 {
		t.Errorf("the address says more than was asked: %s", owner.path())
	}
	var lines []string
	owner.eval(`fetch(document.querySelector("a[download]").href).then(async (r) => [r.headers.get("content-disposition"), ...(await r.text()).trim().split("\n")])`, &lines)
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "attachment") || !strings.Contains(lines[1], id) {
		t.Errorf("the export: %.300q", lines)
	}
	owner.goTo(of + "&risk=danger&mode=allow")
	owner.sees("No matching calls", "Clear filters")
	member := s.person("member")
	member.goTo(of)
	member.sees("54 matching calls")
	member.hides("a[download]")
}

// TestActivityIsLive: what comes is counted and moves nothing until somebody
// wants it; what is shown is up to date.
func TestActivityIsLive(t *testing.T) {
	s := begin(t)
	agent := s.agent("Come and go")
	agent.call("demo_read", args{"text": "one"}).text()
	call := agent.call("demo_write", args{"text": "two"})
	id := agent.held()
	owner := s.person("owner")
	owner.goTo("/activity?session=" + agent.Session)
	owner.within("#call-"+id).sees("pending", "not decided yet")
	owner.eval("window.stays = true", nil)
	s.must("POST", "/api/v1/invocations/"+id+"/approve", nil, nil)
	call.text()
	owner.within("#call-" + id).sees("completed")
	agent.call("demo_read", args{"text": "three"}).text()
	agent.call("demo_read", args{"text": "four"}).text()
	owner.waitFor(`document.querySelector("#fresh").textContent === "2 new · Show"`, "what is new to be counted")
	if got := owner.rows(); len(got) != 2 || got[0] != id {
		t.Errorf("the list moved: %q", got)
	}
	owner.photo("activity-live")
	owner.clickOn("#fresh button")
	owner.waitFor(`document.querySelectorAll("#rows > tr").length === 4 && !document.querySelector("#fresh").textContent`, "the new calls")
	owner.waitFor(`window.stays === true`, "the page not to have been loaded again")
}

// TestACallTellsItsLife: its page decides, stays where it is while things
// happen, and says what proves it.
func TestACallTellsItsLife(t *testing.T) {
	s := begin(t)
	agent := s.agent("Tell me all")
	call := agent.call("demo_write", args{"text": "milk", "token": "ghp_0123456789abcdefghij0123456789abcdef"})
	id := agent.held()
	owner := s.person("owner")
	owner.goTo("/invocations/" + id)
	owner.sees("Requested params", "The agent requested the call", "Policy required approval", "The call is sealed when it ends.", "no match")
	owner.click("Show redacted values")
	owner.sees("ghp_0123456789abcdefghij0123456789abcdef")
	owner.eval("window.stays = true", nil)
	owner.photo("invocation-pending")
	owner.within("#inv-" + id).click("Approve")
	call.text()
	owner.sees("Approved by Olga Owner", "Completed", "Full params viewed by Olga Owner", "wrote milk")
	owner.waitFor(`window.stays === true`, "the page not to have been loaded again")
	await(t, "the call to be sealed", func() bool {
		owner.reload()
		return strings.Contains(owner.reads(), "The row is unchanged.")
	})
	owner.photo("invocation-done")
	owner.phone()
	owner.fits()
	owner.photo("invocation-done-phone")
	owner.desk()
	var href string
	owner.eval(`[...document.querySelectorAll("main a")].find((a) => a.textContent === "similar calls").getAttribute("href")`, &href)
	owner.goTo(href)
	owner.shows("#call-" + id)
}
