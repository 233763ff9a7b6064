package page_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestOverview: an empty house says what comes next; calls are drawn as they
// come, and every figure leads to them; what somebody looks at stays in place.
func TestOverview(t *testing.T) {
	s := beginAlone(t, "--rate-limit", "0")
	owner := s.person("owner")
	owner.goTo("/overview")
	owner.sees("No data yet", "create a session")
	owner.photo("overview-empty")

	agent := s.agent("Draws a chart")
	for i := range 5 {
		agent.call("demo_read", args{"text": fmt.Sprint(i)}).text()
	}
	held := agent.call("demo_write", args{"text": "milk"})
	s.must("POST", "/api/v1/invocations/"+agent.held()+"/approve", nil, nil)
	held.text()
	refused := agent.call("demo_write", args{"text": "wine"})
	s.must("POST", "/api/v1/invocations/"+agent.held()+"/deny", args{"reason": "Not now."}, nil)
	refused.text()
	s.must("PUT", "/api/v1/policy/modes/demo:wipe", args{"mode": "deny"}, nil)
	if status := s.as(agent.Token).status("POST", "/api/v1/sessions/"+agent.Session+"/actions/invoke", args{"source": "demo", "action": "wipe"}); status >= 500 {
		t.Fatalf("a denied call was answered %d", status)
	}

	owner.sees("8 calls", "5 allowed, 2 required approval, 1 denied by policy", "2 calls required approval", "1 approved, 1 denied", "2 calls were denied", "Denied by a person", "Organization override", "Demo")
	owner.drawn("modes")
	owner.drawn("waits")
	owner.stays()
	owner.photo("overview-light")
	owner.dark()
	owner.drawn("modes")
	owner.photo("overview-dark")
	owner.phone()
	owner.fits()
	owner.drawn("waits")
	owner.photo("overview-phone-dark")
	owner.light()
	owner.photo("overview-phone")
	owner.desk()

	owner.click("last 7 days")
	owner.sees("8 calls")
	owner.clickOn("#o-denials a")
	owner.waitFor(`location.pathname === "/activity" && document.querySelectorAll("#rows tr").length === 1`, "the call that a person denied, and no other")
}

// drawn waits until a chart has painted something in each of its colours.
func (w *window) drawn(chart string) {
	w.t.Helper()
	w.waitFor(fmt.Sprintf(`(() => {
  const canvas = document.querySelector("[data-chart=%s] canvas");
  if (!canvas || !canvas.width) return false;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = {};
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 250) { const c = data.slice(i, i + 3).join(); seen[c] = (seen[c] || 0) + 1; }
  const style = getComputedStyle(document.documentElement);
  const rgb = (name) => { const h = style.getPropertyValue(name).trim().slice(1); return [0, 2, 4].map((i) => parseInt(h.slice(i, i + 2), 16)).join(); };
  return %s.every((name) => seen[rgb(name)] > 10);
})()`, chart, map[string]string{"modes": `["--c-allow", "--c-held", "--c-deny"]`, "waits": `["--c-held"]`}[chart]), "the chart of "+chart+" to be painted")
}

// stays fails the story when new figures move what somebody looks at.
func (w *window) stays() {
	w.t.Helper()
	var moved string
	w.eval(`(async () => {
  document.querySelector("#o-modes").closest("details").open = true;
  const link = document.querySelector("#o-actions tr:last-child a");
  link.focus();
  const before = [scrollY, link.getAttribute("href")], real = fetch;
  window.fetch = async (...all) => new Response((await (await real(...all)).text()).replaceAll("8 calls", "9 calls").replaceAll(">wipe<", ">wiped<"));
  await sallyport.overview.refresh();
  window.fetch = real;
  const wrong = [];
  if (!document.body.textContent.includes("9 calls")) wrong.push("it is not shown");
  if (document.activeElement.getAttribute("href") !== before[1]) wrong.push("the focus is at " + document.activeElement.outerHTML);
  if (scrollY !== before[0]) wrong.push("it scrolled by " + (scrollY - before[0]));
  if (!document.querySelector("#o-modes").closest("details").open) wrong.push("a table was closed");
  await sallyport.overview.refresh();
  document.querySelector("#o-modes").closest("details").open = false;
  return wrong.join("; ");
})()`, &moved)
	if strings.TrimSpace(moved) != "" {
		w.t.Errorf("with new figures: %s", moved)
	}
}
