package page_test

import (
	"fmt"
	"testing"
)

// TestKeyboardAlone decides two calls without a mouse: the skip link first,
// then from control to control.
func TestKeyboardAlone(t *testing.T) {
	s := begin(t)
	agent := s.agent("By keys")
	first := agent.call("demo_write", args{"text": "one"})
	one := agent.held()
	second := agent.call("demo_write", args{"text": "two"})
	two := agent.held(one)
	owner := s.person("owner")

	owner.within("#inv-" + one).shows("button.approve")
	owner.press("Tab")
	owner.waitFor(`document.activeElement.matches(".skip") && document.activeElement.getBoundingClientRect().top >= 0`, "the skip link, where it can be seen")
	owner.photo("keyboard-skip-link")
	owner.press("Enter")
	owner.waitFor(`document.activeElement.id === "main"`, "the page itself to have the focus")

	owner.tabTo("#inv-" + one + " [data-decide=approve]")
	owner.photo("keyboard-focus")
	owner.press("Enter")
	if got := first.text(); got != "wrote one" {
		t.Errorf("the agent was told %q", got)
	}
	owner.within("#inv-" + one).sees("Approved by")

	owner.goTo("/")
	owner.tabTo("#inv-" + two + " [data-decide=deny]")
	owner.press("Enter")
	owner.waitFor(`document.activeElement.name === "reason"`, "the reason to be asked for")
	owner.press("n", "o", "t", " ", "n", "o", "w", "Enter")
	second.text()
	if got := s.ends(two, "denied"); got.DeniedNote != "not now" {
		t.Errorf("the agent was denied with %q", got.DeniedNote)
	}
	owner.within("#inv-"+two).sees("Denied by", "not now")
}

// TestDangerAsksOnce: a dangerous call is approved only after a question, which
// the keyboard reaches and Escape leaves.
func TestDangerAsksOnce(t *testing.T) {
	s := begin(t)
	s.mode("demo:wipe", "require_approval")
	agent := s.agent("Clean up")
	call := agent.call("demo_wipe", args{"text": "all"})
	id := agent.held()
	owner := s.person("owner")
	approve := "#inv-" + id + " [data-decide=approve]"

	owner.tabTo(approve)
	owner.press("Enter")
	owner.shows("#confirm[open]")
	owner.photo("danger-asks")
	owner.press("Escape")
	owner.hides("#confirm[open]")
	owner.waitFor("document.activeElement.matches("+quote(approve)+")", "the focus to be back")
	if got := s.invocation(id); got.Status != "pending" {
		t.Fatalf("a question that was left made it %s", got.Status)
	}
	// A question that is left and asked again at once: the browser reports that
	// the first was closed when the second is open.
	var open bool
	owner.eval(`(() => {
		const approve = document.querySelector(`+quote(approve)+`), confirm = document.querySelector("#confirm");
		approve.click();
		confirm.close("no");
		approve.click();
		return confirm.open;
	})()`, &open)
	if !open {
		t.Fatal("the second question is not open")
	}
	owner.tabTo("#confirm-yes")
	owner.press("Enter")
	if got := call.text(); got != "wiped all" {
		t.Errorf("the agent was told %q", got)
	}
}

// tabTo presses Tab until the element has the focus, which has to be seen.
func (w *window) tabTo(selector string) {
	w.t.Helper()
	w.shows(selector)
	for range 300 {
		var there bool
		w.eval("document.activeElement.matches("+quote(selector)+")", &there)
		if there {
			w.waitFor(`(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== "none" || s.boxShadow !== "none"; })()`,
				fmt.Sprintf("the focus on %s to be seen", selector))
			w.waitFor("("+liesOpen+").call(document.activeElement) instanceof Array", "nothing to lie over "+selector)
			return
		}
		w.press("Tab")
	}
	w.t.Fatalf("300 times Tab do not lead to %s", selector)
}
