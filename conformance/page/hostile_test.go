package page_test

import (
	"strings"
	"testing"
)

// hostile is what somebody may choose as a name, a title or a value who would
// like the page to do something, or a reader to see something else: markup,
// quotes, a template, a change of direction, a character of no width, and a
// word of two scripts. It is short, as names have to be.
const hostile = `<img src=x onerror=pwned=1>"'{{.}}` + "\u202e\u200bp\u0430ypal"

// endless is a word that fits no line.
var endless = strings.Repeat("W", 110)

// TestHostileTextIsText plants such text wherever there is room for it and
// visits every page: nothing of it runs, hides, or spoils the page.
func TestHostileTextIsText(t *testing.T) {
	s := beginAlone(t)
	s.furnish(func(text string) string { return text + hostile })
	agent := s.agent(endless + endless[:80])
	agent.call("demo_write", args{"text": endless, endless: endless + hostile, "title": endless})
	agent.held()
	owner := s.named(endless, "owner")
	shown := 0
	owner.walk(func(name string) {
		shown += owner.harmless()
		owner.fits()
		owner.photo("hostile-" + name)
		owner.phone()
		owner.fits()
		owner.desk()
	})
	if shown < 25 {
		t.Errorf("the text is shown %d times on all pages; was it planted?", shown)
	}
}

// harmless fails the story when hostile text is more than text on this page,
// and returns how often it is shown.
func (w *window) harmless() int {
	w.t.Helper()
	var found struct {
		Ran    bool     `json:"ran"`
		Made   []string `json:"made"`
		Hidden []string `json:"hidden"`
		Shown  int      `json:"shown"`
	}
	w.eval(`(() => {
  const bad = /[\u200b-\u200f\u202a-\u202e\u2060-\u2069]/;
  const texts = [...document.querySelectorAll("body *")].filter((e) => !e.matches("script, textarea"))
    .flatMap((e) => [...[...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data), e.title, e.getAttribute("aria-label"), e.getAttribute("placeholder")]);
  return {
    ran: "pwned" in window,
    made: [...document.querySelectorAll("[onerror], img[src=x], body script")].map((e) => e.outerHTML.slice(0, 200)),
    hidden: [...texts, document.title].filter((t) => t && bad.test(t)).map((t) => t.slice(0, 200)),
    shown: document.body.innerText.split("<img src=x onerror=pwned=1>").length - 1,
  };
})()`, &found)
	if found.Ran || len(found.Made) > 0 {
		w.t.Errorf("%s makes more than text of a text: ran: %t, made: %q", w.path(), found.Ran, found.Made)
	}
	if len(found.Hidden) > 0 {
		w.t.Errorf("%s shows characters that nobody sees: %q", w.path(), found.Hidden)
	}
	return found.Shown
}

// TestMixedScriptsAreMarked: a word that mixes scripts is marked where a person
// decides.
func TestMixedScriptsAreMarked(t *testing.T) {
	s := begin(t)
	owner := s.person("owner")
	agent := s.agent("mixed")
	agent.call("demo_write", args{"text": "pay p\u0430ypal", "title": "\u202egnp.exe"})
	card := owner.within("#inv-" + agent.held())
	card.shows(".params .mixed")
	card.sees(`\u202egnp.exe`)
	if strings.Contains(card.reads(), "\u202e") {
		t.Error("the card turns its text around")
	}
}
