package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
)

// shows fails the test for each text that the page lacks.
func (b *browser) shows(t *testing.T, path string, texts ...string) string {
	t.Helper()
	r := b.get(path)
	if r.StatusCode != 200 {
		t.Errorf("%s: %d", path, r.StatusCode)
	}
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			t.Errorf("%s lacks %s", path, text)
		}
	}
	return r.body
}

func TestModesAreSearchedByTheServer(t *testing.T) {
	h := newHouse(t)
	for i := range 250 {
		mode := []action.Mode{action.ModeAllow, action.ModeDeny}[i%2]
		h.override("", action.Key{Source: "connector:c1", Action: fmt.Sprintf("act_%03d", i)}, mode, "u-ada")
	}
	b := h.signIn("u-ben")
	row := func(i int) string { return fmt.Sprintf("<code>act_%03d</code>", i) }
	first := b.shows(t, "/policy", row(0), row(199), "200 of 250", `rel="next"`, "data-partly", "ada <time")
	if strings.Contains(first, row(200)) {
		t.Error("the first page has too much")
	}
	second := b.shows(t, "/policy?after=+connector:c1:act_199", row(200), row(249), ">First<")
	if strings.Contains(second, row(199)) || strings.Contains(second, `rel="next"`) {
		t.Error("the second page has too much")
	}
	found := b.shows(t, "/policy?q=GITHUB:act_24&mode=deny&whose=everybody", row(241), row(249), "5 of 250")
	if strings.Contains(found, row(240)) || strings.Contains(found, row(0)) {
		t.Error("what does not match is shown")
	}
	b.shows(t, "/policy?q=nothing", "No matching overrides")
}

func TestExplainPanel(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-cyd")
	b.shows(t, "/policy?key=github:create&session=s1", "<b>Requires approval</b>", `class="hit"`, `selected>`, "A write action has this mode")
	b.shows(t, "/policy?source=github&action=list&group=dev&task=T-1", "<b>Allowed</b>", `value="T-1"`)
	b.shows(t, "/policy?key=github:*", "5 tools: 2 allowed, 2 require approval, 1 denied.")
	b.shows(t, "/policy?key=github:nothing", `<p class="error" role="alert">`)
	b.shows(t, "/policy?key=github:create&session=s1&group=dev", "Send session, or these, not both")
	b.shows(t, "/policy?key=github:create&params=%7B", `<p class="error" role="alert">`)
	b.shows(t, "/policy/answer?key=nowhere:x", "There is no source")
	b.shows(t, "/policy/actions?source=github", `<option value="create">write · require approval</option>`, `<option value="*">`)
}

func TestWhatHoldsWithoutAMode(t *testing.T) {
	h := newHouse(t)
	set := func(automation, key string, mode action.Mode) {
		h.override(automation, must(action.ParseKey(key)), mode, "u-ada")
	}
	b := h.signIn("u-ben")
	b.shows(t, "/policy/removed?key=connector:c1:create", "The default for writes then applies: require approval")
	b.shows(t, "/policy/removed?key=connector:c1:drop", "The default for destructive actions then applies: deny")
	b.shows(t, "/policy/removed?key=connector:c1:*", "reads are allowed, writes need approval")
	set("", "connector:c1:create", action.ModeAllow)
	set("", "*", action.ModeDeny)
	b.shows(t, "/policy/removed?key=connector:c1:create", "for everyone then applies: deny")
	set("", "connector:c1:*", action.ModeRequireApproval)
	b.shows(t, "/policy/removed?key=connector:c1:create", "The override of github:* for everyone then applies: require approval")
	b.shows(t, "/policy/removed?key=connector:c1:create&automation=a1", "The override of github:create for everyone then applies: allow")
	set("a1", "connector:c1:*", action.ModeDeny)
	b.shows(t, "/policy/removed?key=connector:c1:create&automation=a1", "The override of github:* for this automation then applies: deny")
}

func TestGrantsSayWhatBecameOfThem(t *testing.T) {
	h := newHouse(t)
	now := h.clock.now()
	past, left := now.Add(-time.Hour), int64(4)
	add := func(id string, change func(*action.Grant)) {
		g := action.Grant{ToolHash: "tool-hash", Terms: action.Terms{Scope: action.ScopeOrganization, Source: "connector:c1", Action: "create"}}
		change(&g)
		h.granted(id, g)
	}
	add("good", func(g *action.Grant) { g.MaxCalls, g.UsedCalls = &left, 3 })
	add("spent", func(g *action.Grant) { g.MaxCalls, g.UsedCalls = &left, 4 })
	add("over", func(g *action.Grant) { g.ExpiresAt = &past })
	add("back", func(g *action.Grant) { g.RevokedAt, g.RevokedBy = &now, "u-ben" })
	add("other", func(g *action.Grant) { g.ToolHash, g.Scope, g.Session = "another", action.ScopeSession, "s1" })
	b := h.signIn("u-ben")
	usable := b.shows(t, "/grants", `id="grant-good"`, `<progress max="4" value="3"`, "3 of 4, 1 left", "The tool changed since this grant was created", "2 grants")
	if strings.Contains(usable, "grant-spent") || strings.Count(usable, "The tool changed since this grant was created") != 1 {
		t.Error("grants that cover nothing are among the usable, or one is said to be another's")
	}
	b.shows(t, "/grants?show=all", ">used up<", ">expired<", ">revoked<", "by ben")
	if of := b.shows(t, "/grants?scope=session", "grant-other"); strings.Contains(of, "grant-good") {
		t.Error("the scope is not looked at")
	}
	if r := b.get("/grants?scope=odd"); r.StatusCode != 400 {
		t.Errorf("an odd scope: %d", r.StatusCode)
	}
	if body := h.signIn("u-cyd").shows(t, "/grants?show=all"); strings.Contains(body, "data-call") || strings.Contains(body, "data-form") {
		t.Error("a member is offered to change grants")
	}
}

func TestChangesInWords(t *testing.T) {
	h := newHouse(t)
	at := h.clock.now()
	h.exec("DROP TRIGGER policy_events_delete")
	h.exec("DELETE FROM policy_events")
	add := func(kind, subject, by, before, after string) {
		at = at.Add(time.Hour)
		h.insert("policy_events", "id", uuid.NewString(), "organization_id", org, "kind", kind, "subject", subject, "by", by, "at", at, "before", before, "after", after)
	}
	add("mode", "connector:c1:create", "u-ada", "null", `{"mode":"allow","updated_by":"u-ada"}`)
	add("mode", "connector:c1:create", "u-ben", `{"mode":"allow"}`, `{"mode":"deny"}`)
	add("capability", "dev/connector:c1", "u-ben", `{"level":1,"rate":{"calls":5}}`, `{"level":3,"rate":{"calls":9}}`)
	add("grant", "g1", "u-ben", `{"action":"create"}`, `{"action":"create","revoked_at":"2026-03-01T13:00:00Z","revoked_by":"u-ben"}`)
	b := h.signIn("u-ben")
	b.shows(t, "/audit", "Override added", "Override changed", "<del>allow</del>", "<ins>deny</ins>", "github:create", "dev/github", "<del>read</del>", "<ins>production</ins>",
		"<dt>rate › calls</dt>", "Grant revoked", "<ins>ben</ins>", "4 changes", `data-press="verify"`)
	for query, n := range map[string]int{"kind=mode": 2, "by=u-ada": 1, "subject=github:create": 2, "from=2026-03-01T14:30:00Z": 2, "to=2026-02-28": 0, "to=2026-03-01": 4, "by=u-ben&kind=mode": 1} {
		if got := strings.Count(b.get("/audit?"+query).body, `<tr id="event-`); got != n {
			t.Errorf("%s: %d changes, want %d", query, got, n)
		}
	}
	if r := b.get("/audit?from=yesterday"); r.StatusCode != 400 {
		t.Errorf("a time that is none: %d", r.StatusCode)
	}
	if body := h.signIn("u-cyd").shows(t, "/audit", "Override changed"); strings.Contains(body, `data-press="verify"`) || strings.Contains(body, "audit/export") {
		t.Error("a member is offered the evidence")
	}
}

func TestHostilePolicyIsText(t *testing.T) {
	h, _ := hostileHouse(t)
	text := mustJSON(t, hostile)
	h.insert("policy_events", "id", "e", "organization_id", org, "kind", hostile, "subject", hostile, "by", hostile, "at", h.clock.now(), "before", "null", "after", fmt.Sprintf(`{%s:%s}`, text, text))
	b := h.signIn("u-ada")
	for _, path := range []string{"/audit", "/grants?show=all", "/policy", "/policy/answer?key=" + "%3Cimg%3E:%E2%80%AE", "/policy?q=%3Cimg+src%3E&key=%3Cimg+src%3E:x&group=%3Cimg%3E"} {
		r := b.get(path)
		if r.StatusCode >= 500 || strings.Contains(r.body, "<img") || strings.Contains(r.body, "ZgotmplZ") || strings.Contains(r.body, " style=") {
			t.Errorf("%s: %d, with markup that is not its own", path, r.StatusCode)
		}
	}
}
