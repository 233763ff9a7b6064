package page_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of the rows' database
)

func cardOf(id string) string { return "#inv-" + id }

// TestInboxIsLive: a call appears in every window as it comes, is announced to
// those who do not look, and is counted; whether its agent waits is said.
func TestInboxIsLive(t *testing.T) {
	s := beginAlone(t, "--seen-every", "200ms", "--abandon-after", "30s")
	owner, admin := s.person("owner"), s.person("admin")
	owner.sees("You're all caught up")
	owner.eval(`(() => {
  window.notes = [];
  window.Notification = function (title, options) { notes.push({ title, ...options, note: this }); this.close = () => {}; };
  Notification.permission = "default";
  Notification.requestPermission = async () => (Notification.permission = "granted");
  document.hasFocus = () => false;
})()`, nil)
	owner.clickOn("#notify")
	owner.waitFor(`document.querySelector("#notify").getAttribute("aria-checked") === "true" && sallyport.keepConnected`, "notifications to be on")

	agent := s.agent("Fix the login page", args{"task": "T-42"})
	call := agent.call("demo_write", args{"text": "the shopping list"})
	id := agent.held()
	for _, w := range []*window{owner, admin} {
		w.within(cardOf(id)).sees("Demo", "write", "Fix the login page", "T-42", "the shopping list", "The agent is waiting for a decision.")
		w.waitFor(`document.title.startsWith("(1) ")`, "the title to count")
		w.hides("#empty")
	}
	owner.waitFor(`document.querySelector("#news").textContent === "1 new pending call: Demo › write, requested by Fix the login page"`, "what came to be announced")
	var note string
	owner.eval(`[notes.length, notes[0].title, notes[0].body, notes[0].tag].join("|")`, &note)
	if want := "1|Approval required: Demo › write|Requested by Fix the login page. Risk: write.|" + id; note != want {
		t.Errorf("the notification is %q, want %q", note, want)
	}
	owner.eval(`notes[0].note.onclick()`, nil)
	owner.waitFor("document.activeElement.matches("+quote(cardOf(id))+")", "a click on it to lead to the card")
	owner.photo("inbox-live")
	s.must("POST", "/api/v1/invocations/"+id+"/deny", args{"reason": "Not now."}, nil)
	call.text()
	owner.within(cardOf(id)).sees("Denied by", "Not now.")
	owner.waitFor(`!document.title.startsWith("(")`, "the title to count nothing")

	// Who asks over the API and does not wait comes back later, or never.
	var held struct{ Invocation struct{ ID string } }
	s.as(agent.Token).must("POST", "/api/v1/sessions/"+agent.Session+"/actions/invoke", args{"source": "demo", "action": "write", "params": args{"text": "later"}}, &held)
	admin.within(cardOf(agent.held())).sees("may check again later")
}

// TestInboxByKeys: moving, deciding, leaving; no key decides while somebody
// writes, or holds it down, or asks for help.
func TestInboxByKeys(t *testing.T) {
	s := beginAlone(t)
	agent := s.agent("By keys")
	var ids []string
	var calls []*calling
	for n := range 4 {
		calls = append(calls, agent.call("demo_write", args{"text": fmt.Sprint("number ", n)}))
		ids = append(ids, agent.held(ids...))
	}
	owner := s.person("owner")
	focus := func(n int) {
		t.Helper()
		owner.waitFor("document.activeElement.matches("+quote(cardOf(ids[n]))+")", fmt.Sprint("the focus on call ", n))
	}
	owner.shows(cardOf(ids[3]))
	owner.press("a") // nothing has the focus
	owner.press("j")
	focus(3)
	owner.press("j", "ArrowDown", "k", "ArrowUp", "j")
	focus(2)
	owner.press("?")
	owner.shows("#keys[open]")
	owner.photo("inbox-keys")
	owner.press("a", "Escape")
	owner.hides("#keys[open]")
	focus(2)
	owner.press("d")
	owner.waitFor(`document.activeElement.name === "reason"`, "the reason to be asked for")
	owner.press("a", "j", "g", "Escape")
	focus(2)
	owner.hides(cardOf(ids[2]) + " .reason")
	owner.eval(`for (const more of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }, { repeat: true }, { shiftKey: true }])
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true, cancelable: true, ...more }))`, nil)
	owner.eval("new Promise((done) => setTimeout(done, 300))", nil) // what they would have sent had gone
	for n, id := range ids {
		if got := s.invocation(id); got.Status != "pending" {
			t.Fatalf("call %d is %s", n, got.Status)
		}
	}
	owner.press("a")
	if got := calls[2].text(); got != "wrote number 2" {
		t.Errorf("the agent was told %q", got)
	}
	owner.within(cardOf(ids[2])).sees("Approved by", "completed")
	focus(2) // and stays there: moving on is the person's
	owner.press("a", "j")
	focus(1)
	owner.press("d")
	owner.waitFor(`document.activeElement.name === "reason"`, "the reason to be asked for")
	owner.fill(cardOf(ids[1])+" [name=reason]", "no, not now") // the browser's driver types the d too
	owner.press("Enter")
	calls[1].text()
	if got := s.ends(ids[1], "denied"); got.DeniedNote != "no, not now" {
		t.Errorf("denied with %q", got.DeniedNote)
	}
	focus(1)
	owner.press("j", "Enter")
	owner.waitFor("location.pathname === "+quote("/invocations/"+ids[0]), "the details")
	if got := s.invocation(ids[3]); got.Status != "pending" {
		t.Errorf("the call that nobody touched is %s", got.Status)
	}
}

// TestNothingMovesUnderTheFocus: calls come in and are decided elsewhere while
// somebody is at work; what has the focus stays where it is, and a key decides
// it and nothing else.
func TestNothingMovesUnderTheFocus(t *testing.T) {
	s := beginAlone(t)
	agents := []*agent{s.agent("One"), s.agent("Two"), s.agent("Three")}
	var ids []string
	hold := func(a *agent, n int) string {
		a.call("demo_write", args{"text": fmt.Sprint("number ", n, "\n\n- with\n- a list")})
		ids = append(ids, a.held(ids...))
		return ids[len(ids)-1]
	}
	for n := range 5 {
		hold(agents[0], n)
	}
	owner := s.person("owner")
	owner.shows(cardOf(ids[4]))
	owner.press("j", "j", "j")
	shown := ids[2]
	var before, after float64
	where := "document.activeElement.matches(" + quote(cardOf(shown)) + ") ? document.activeElement.getBoundingClientRect().top : -1e9"
	owner.eval(where, &before)
	for n := range 20 {
		hold(agents[1+n%2], n)
	}
	s.must("POST", "/api/v1/invocations/"+ids[4]+"/deny", args{"reason": strings.Repeat("A long reason. ", 40)}, nil)
	s.must("POST", "/api/v1/invocations/"+ids[3]+"/approve", args{}, nil)
	owner.within(cardOf(ids[4])).sees("A long reason.")
	owner.within(cardOf(ids[3])).sees("completed")
	owner.sees("20 new calls · Show")
	owner.eval(where, &after)
	if math.Abs(before-after) >= 1 {
		t.Errorf("the card with the focus moved from %v to %v", before, after)
	}

	// The key and the call arrive together.
	agents[0].call("demo_write", args{"text": "in the very moment"})
	owner.press("a")
	s.ends(shown, "completed")
	owner.sees("21 new calls · Show")
	// A key in the moment in which the list has moved is meant for what stood
	// there before.
	owner.eval(`new Promise((done) => {
  document.addEventListener("focusin", (e) => { e.target.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true, cancelable: true })); done(); }, { once: true });
  document.querySelector("#fresh").click();
})`, nil)
	owner.waitFor(`document.activeElement.matches("#pending > .card:first-child")`, "the newest to have the focus")
	owner.waitFor(`!document.body.classList.contains("settling")`, "the list to stand still")
	if n := len(s.invocations("status=pending")); n != 23 {
		t.Errorf("%d calls wait, and 3 of 26 were decided", n)
	}
	if n := owner.count("#pending > .card"); n != 26 {
		t.Errorf("there are %d cards", n)
	}
}

// TestGrantWithPins: an approval with a grant for this text alone lets the same
// call through, and holds another.
func TestGrantWithPins(t *testing.T) {
	s := begin(t)
	agent := s.agent("Grants")
	first := agent.call("demo_write", args{"text": "milk", "title": "shopping"})
	id := agent.held()
	owner := s.person("owner")
	owner.waitFor("(document.querySelector("+quote(cardOf(id))+")?.focus(), document.activeElement.id === "+quote("inv-"+id)+")", "the card to take the focus")
	owner.eval("new Promise((done) => setTimeout(done, 500))", nil) // keys wait for what has just come in
	card := owner.within(cardOf(id))
	owner.press("g")
	owner.waitFor(`document.activeElement.name === "scope"`, "the form to have the focus")
	card.sees("The next 5 calls to Demo › write in this session with any params will run without approval")
	card.clickOn(`[name=pin][value="/text"]`)
	card.sees(`where /text = "milk" will run without approval`)
	card.fill("[name=max_calls]", "2")
	card.sees("The next 2 calls")
	owner.photo("inbox-grant")
	card.click("Approve and grant")
	if got := first.text(); got != "wrote milk" {
		t.Errorf("the agent was told %q", got)
	}
	if got := agent.call("demo_write", args{"text": "milk", "title": "again"}).text(); got != "wrote milk" {
		t.Errorf("the grant lets nothing through: %q", got)
	}
	agent.call("demo_write", args{"text": "bread"})
	if got := s.invocation(agent.held()); got.Grant != "" || got.ID == id {
		t.Errorf("another text is held as %+v", got)
	}
}

// TestTwoDecideAtOnce: the second sees what the first did, and can send nothing
// again.
func TestTwoDecideAtOnce(t *testing.T) {
	s := begin(t)
	agent := s.agent("Contested")
	call := agent.call("demo_write", args{"text": "contested"})
	id := agent.held()
	owner, admin := s.person("owner"), s.person("admin")
	second := admin.within(cardOf(id))
	second.clickOn("[data-decide=deny]")
	second.fill("[name=reason]", "No, never.")
	// He is about to send it when his window has not heard yet.
	admin.eval(`(() => { const real = fetch; window.fetch = (path, o) => o?.method === "POST" ? new Promise((go) => { window.go = go; }).then(() => real(path, o)) : real(path, o); })()`, nil)
	second.press("Enter")
	admin.waitFor("window.go", "the decision to be on its way")
	owner.within(cardOf(id)).clickOn("[data-decide=approve]")
	if got := call.text(); got != "wrote contested" {
		t.Errorf("the agent was told %q", got)
	}
	second.sees("Approved by", "Olga Owner", "completed")
	admin.eval("go()", nil)
	admin.waitFor(`document.querySelector("#notice").checkVisibility()`, "him to be told")
	second.sees("Approved by", "Olga Owner")
	second.hides("form, button")
	if got := s.invocation(id); got.Status != "completed" || got.DeniedNote != "" {
		t.Errorf("the call is %+v", got)
	}
}

// TestWhatComesInLate: a call that is decided while its card is on its way is
// no call that waits; one whose card does not come waits behind a button.
func TestWhatComesInLate(t *testing.T) {
	s := beginAlone(t)
	agent := s.agent("Late")
	owner := s.person("owner")
	owner.sees("You're all caught up", "live")
	owner.eval(`(() => {
  const real = fetch;
  window.fetch = async (path, o) => {
    if (!String(path).startsWith("/inbox/cards")) return real(path, o);
    if (window.broken) throw new TypeError("no way there");
    const res = await real(path, o);
    if (!window.freely) await new Promise((go) => { window.go = go; });
    return res;
  };
  sallyport.live("invocation", (inv) => { if (inv.status === "denied") window.told = true; });
})()`, nil)
	agent.call("demo_write", args{"text": "one"})
	first := agent.held()
	owner.waitFor("window.go", "the card to be on its way")
	s.must("POST", "/api/v1/invocations/"+first+"/deny", args{}, nil)
	owner.waitFor("window.told", "its end to be heard of")
	owner.eval("broken = true, go(), new Promise((done) => setTimeout(done))", nil)
	second := agent.call("demo_write", args{"text": "two"})
	id := agent.held(first)
	owner.sees("1 new call · Show")
	owner.eval("(broken = false, freely = true)", nil)
	owner.clickOn("#fresh")
	owner.shows(cardOf(id))
	owner.waitFor(`!document.body.classList.contains("settling")`, "the list to stand still")
	owner.within(cardOf(id)).clickOn("[data-decide=approve]")
	if got := second.text(); got != "wrote two" {
		t.Errorf("the agent was told %q", got)
	}
	if n := owner.count("#pending > .card"); n != 1 {
		t.Errorf("there are %d cards", n)
	}
}

// TestAnErrorGoesHome: an error that stood beside a field does not stay there
// for what is wrong with another, or with all.
func TestAnErrorGoesHome(t *testing.T) {
	s := begin(t)
	owner := s.person("owner")
	owner.goTo("/sessions")
	var home, away, back bool
	owner.eval(`(() => {
  const form = document.querySelector("#new-session form, form#new-session"), box = form.querySelector(".error");
  window.homes = [box.parentElement, box.nextElementSibling];
  window.isHome = () => box.parentElement === homes[0] && box.nextElementSibling === homes[1];
  window.errors = [];
  for (const field of ["/title", undefined]) { sallyport.clearErrors(form); sallyport.showError(form, { field, message: "Wrong." }); errors.push(isHome()); }
})()`, nil)
	owner.eval("isHome()", &home)
	owner.eval("errors[0]", &away)
	owner.eval("errors[1]", &back)
	if !home || away || !back {
		t.Errorf("the error's box is at home: %t; beside a field %t, then %t", home, away, back)
	}
}

// TestParamsAreReadable: a text has its own lines, what would hide is spelled
// out, and a secret is shown to who asks, on record.
func TestParamsAreReadable(t *testing.T) {
	s := begin(t)
	agent := s.agent("Write the report")
	const secret = "ghp_0123456789abcdefghij0123456789abcdef"
	agent.call("demo_write", args{
		"title": "Quarterly r\u0435port \u202egnp.exe", "token": secret,
		"text": "# Findings\n\nThe build is **red**.\n\n```go\nfunc main() {\n\tpanic(\"no\")\n}\n```\n" + strings.Repeat("- one more line of a list\n", 60) + "\"title\": \"forged\"",
	})
	id := agent.held()
	owner := s.person("owner")
	card := owner.within(cardOf(id))
	card.sees("text of 70 lines", "The build is **red**.", "func main() {", `\u202e`, "redacted · 40 bytes · #")
	if n := card.count(".prose .line"); n != 70 {
		t.Errorf("the text has %d lines", n)
	}
	if n := card.count(".mixed"); n != 2 { // in the line and in the params
		t.Errorf("%d words are flagged as mixed", n)
	}
	owner.waitFor(`(() => {
  const b = document.querySelector("`+cardOf(id)+` .prose"), more = b.nextElementSibling;
  const shown = [...b.children].filter((l) => l.getBoundingClientRect().bottom <= b.getBoundingClientRect().bottom).length;
  return b.scrollHeight > b.clientHeight && b.tabIndex === 0 && shown > 5 && shown < 41 && more.innerText === shown + " of 70 lines · Show all" && more.checkVisibility({ visibilityProperty: true });
})()`, "a long text to say that there is more of it")
	owner.photo("inbox-params")
	owner.dark()
	owner.photo("inbox-params-dark")
	owner.light()
	owner.phone()
	owner.fits()
	owner.photo("inbox-params-phone")
	owner.desk()
	card.clickOn(".all")
	owner.waitFor(`(() => { const b = document.querySelector("`+cardOf(id)+` .prose"); return b === document.activeElement && b.scrollHeight === b.clientHeight && b.children[69].checkVisibility(); })()`, "all of it to be shown")
	card.hides(".all")
	card.misses(secret)
	card.click("Show redacted values")
	card.sees(secret)
	var events struct {
		Items []struct{ Kind, By string }
	}
	s.must("GET", "/api/v1/invocations/"+id+"/events", nil, &events)
	if len(events.Items) != 1 || events.Items[0].Kind != "params_revealed" || events.Items[0].By != owner.user {
		t.Errorf("on record is %+v", events.Items)
	}
}

// TestTenThousandWait: who scrolls sees all that waits, to the end and back,
// while the page stays small.
func TestTenThousandWait(t *testing.T) {
	const many, deep = 10_000, 1_500 // how many wait, and how far one scrolls
	s := beginAlone(t)
	agent := s.agent("Very many", args{"kind": "unattended"})
	s.as(agent.Token).must("POST", "/api/v1/sessions/"+agent.Session+"/actions/invoke", args{"source": "demo", "action": "write", "params": args{"text": "once more"}}, nil)
	s.repeat(agent.held(), many-1)

	owner := s.person("owner")
	owner.waitFor(`document.title.startsWith("(10000) ")`, "the title to count them all")
	owner.eval(`(() => {
  const list = document.querySelector("#pending");
  window.walk = { seen: new Set(), most: 0, longest: 0, ended: () => !list.querySelector("[data-next]") };
  new PerformanceObserver((l) => { for (const e of l.getEntries()) walk.longest = Math.max(walk.longest, e.duration); }).observe({ type: "longtask" });
  walk.inSight = () => [...list.querySelectorAll(".card")].filter((c) => { const r = c.getBoundingClientRect(); return r.bottom > 80 && r.top < innerHeight; });
  walk.look = () => {
    const cards = list.querySelectorAll(".card");
    for (const c of cards) walk.seen.add(c.dataset.id);
    walk.most = Math.max(walk.most, cards.length);
  };
  walk.down = async () => {
    for (const until = Date.now() + 2000; !walk.ended() && Date.now() < until;) {
      scrollTo(0, document.documentElement.scrollHeight);
      await new Promise((done) => setTimeout(done, 5));
      walk.look();
    }
    return walk.seen.size;
  };
})()`, nil)
	begun, seen := time.Now(), 0
	for last := begun; seen < deep && time.Since(last) < patience; {
		before := seen
		if owner.eval("walk.down()", &seen); seen > before {
			last = time.Now()
		}
	}
	down := time.Since(begun)
	for _, part := range []string{".5", ".1", "0"} {
		owner.eval("scrollTo(0, document.documentElement.scrollHeight * "+part+")", nil)
		owner.waitFor("(walk.look(), walk.inSight().length > 0)", "cards "+part+" down the page")
	}
	var walk struct {
		Most    int
		Longest float64
		Ended   bool
	}
	owner.eval("({ most: walk.most, longest: walk.longest, ended: walk.ended() })", &walk)
	t.Logf("%d cards were seen in %v, at most %d at once; the longest task took %.0f ms", seen, down, walk.Most, walk.Longest)
	if walk.Ended || seen < deep || walk.Most > 300 {
		t.Errorf("of %d cards %d were seen, at most %d at once; at the end: %t", many, seen, walk.Most, walk.Ended)
	}
}

// repeat has the held call wait so many times more, each a second older. Only
// rows can do that in time; what is sealed is bound to its own row, and left
// out.
func (s *story) repeat(id string, times int) {
	s.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.data, "sallyport.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	var columns, values []string
	rows, err := db.QueryContext(s.t.Context(), "SELECT name FROM pragma_table_info('open_calls')")
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			s.t.Fatal(err)
		}
		value := map[string]string{
			"id": "printf('00000000-0000-7000-8000-%012d', n)", "params_hash": "lower(hex(randomblob(32)))", "sealed_params": "NULL",
			"created_at": "strftime('%Y-%m-%dT%H:%M:%S.000000Z', created_at, (n - " + fmt.Sprint(times+1) + ") || ' seconds')",
		}[name]
		columns, values = append(columns, name), append(values, cmp.Or(value, name))
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	_, err = db.ExecContext(s.t.Context(), "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?) INSERT INTO open_calls ("+
		strings.Join(columns, ", ")+") SELECT "+strings.Join(values, ", ")+" FROM open_calls, number WHERE id = ?", times, id)
	if err != nil {
		s.t.Fatal(err)
	}
}
