package page_test

import (
	"regexp"
	"slices"
	"strings"
)

// forAMember: a member may look at every page, none offers him what he may not
// do, and his browser cannot do it either.
func forAMember(s *story) {
	s.t.Helper()
	member := s.person("member")
	member.walk(func(string) { member.offersNothing() })
	member.photo("member")
	member.refused()
}

// offered is what a page offers to press and to fill in.
type offered struct {
	Deciding       []string `json:"deciding"`
	Calls          []string `json:"calls"`
	Presses, Forms []string
}

// offersNothing fails the story for each control of this page that a member may
// not use.
func (w *window) offersNothing() {
	w.t.Helper()
	var found offered
	w.eval(`(() => {
  const all = (selector, of) => [...document.querySelectorAll(selector)].map(of);
  return {
    deciding: all("[data-decide], [data-granting], [data-verdict], [data-reveal]", (e) => e.outerHTML.slice(0, 160)),
    calls: all("[data-call]", (e) => e.dataset.call),
    presses: all("[data-press]", (e) => e.dataset.press),
    forms: all("form[data-form]:has(button, select, textarea, input:not([type=hidden]))", (e) => e.dataset.form),
  };
})()`, &found)
	for _, d := range found.Deciding {
		w.t.Errorf("%s lets a member decide: %s", w.path(), d)
	}
	for _, c := range found.Calls {
		if strings.Contains(c, " /api/v1/me/") {
			continue // his own; ending his sign-ins would end the story
		}
		if status := w.sends(anID.ReplaceAllString(c, "00000000-0000-7000-8000-000000000000")); status == 403 {
			w.t.Errorf("%s offers a member what the API refuses him: %s", w.path(), c)
		}
	}
	for _, name := range append(found.Presses, found.Forms...) {
		if !slices.Contains(ofMembers(), name) {
			w.t.Errorf("%s offers a member %q; if he may use it, say so in this test", w.path(), name)
		}
	}
}

// ofMembers are the forms and buttons, by their names, that are not only for
// those who decide.
func ofMembers() []string {
	return []string{"signOut", "copy", "session", "connect"}
}

// anID is replaced in what is tried, by one of nothing.
var anID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// sends does what a button of the page would, and returns the status of the
// answer.
func (w *window) sends(call string) (status int) {
	w.t.Helper()
	w.eval(`(([method, path]) => sallyport.call(method, path).then(() => 200, (e) => e.status))(`+quote(call)+`.split(" "))`, &status)
	return status
}

// refused has the browser of a member, with its cookie and its key, try what
// only others may.
func (w *window) refused() {
	w.t.Helper()
	held := w.s.invocations("status=pending")
	if len(held) == 0 {
		w.t.Fatal("nothing is held")
	}
	id := held[0].ID
	var key struct {
		Key string `json:"key"`
	}
	w.s.must("POST", "/api/v1/api-keys", args{"name": "of a member", "role": "member"}, &key)
	for _, call := range []string{
		"POST /api/v1/invocations/" + id + "/approve", "POST /api/v1/invocations/" + id + "/deny", "GET /api/v1/invocations/" + id + "/params",
		"POST /api/v1/grants", "PUT /api/v1/policy/modes/demo:write", "POST /api/v1/connectors", "POST /api/v1/triggers", "POST /api/v1/users",
		"POST /api/v1/api-keys", "PUT /api/v1/secrets/x",
	} {
		status := w.sends(call)
		method, path, _ := strings.Cut(call, " ")
		if byKey := w.s.as(key.Key).status(method, path, nil); status != 403 || byKey != 403 {
			w.t.Errorf("%s: a member's browser is answered %d, his API key %d", call, status, byKey)
		}
	}
	if got := w.s.invocation(id); got.Status != "pending" {
		w.t.Errorf("after all that the call is %s", got.Status)
	}
}
