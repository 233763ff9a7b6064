package page_test

import (
	"strings"
	"testing"
)

// TestWindowsSeeFaults proves that a window notices what no page may do, and
// what some people could not use: stories that find nothing say something.
func TestWindowsSeeFaults(t *testing.T) {
	axe := axe(t)
	s := begin(t)
	owner := s.person("owner")
	for does, wanted := range map[string]string{
		`setTimeout(() => { throw new Error("thrown") })`:                                                     "an exception: Uncaught: Error: thrown",
		`Promise.reject(new Error("left alone")); 0`:                                                          "left alone",
		`console.error("said", 7)`:                                                                            "the console: said 7",
		`document.body.insertAdjacentHTML("beforeend", "<p onclick='pwned()'>")`:                              "violation of the content security policy: script-src-attr",
		`document.body.append(Object.assign(document.createElement("script"), { textContent: "pwned = 1" }))`: "violation of the content security policy: script-src-elem",
		`document.body.insertAdjacentHTML("beforeend", "<p style='color:red'>red</p>")`:                       "violation of the content security policy: style-src-attr",
		`fetch("https://elsewhere.example.com/").catch(() => {}); 0`:                                          "violation of the content security policy: connect-src",
		`document.body.append(Object.assign(new Image(), { src: "/assets/missing.svg" }))`:                    "status 404",
		`setTimeout(() => alert("boo"))`:                                                                      "a dialog of the browser: boo",
	} {
		owner.faults.take()
		owner.eval(does, nil)
		var found []string
		await(t, "the fault of "+does, func() bool {
			found = append(found, owner.faults.take()...)
			return strings.Contains(strings.Join(found, "\n"), wanted)
		})
	}
	owner.goTo("/")
	owner.faults.take()
	if wide := owner.sticksOut(); len(wide) > 0 {
		t.Fatalf("the page is too wide already: %q", wide)
	}
	owner.eval(`(() => { const e = document.createElement("input"); e.style.width = "3000px"; e.style.color = "#888"; e.style.background = "#999"; document.querySelector("main").append(e); })()`, nil)
	if wide := owner.sticksOut(); len(wide) == 0 {
		t.Error("an element of 3000 pixels is not noticed")
	}
	if issues := strings.Join(owner.issues(axe), "\n"); !strings.Contains(issues, "label (critical)") {
		t.Errorf("a field without a label is not noticed: %q", issues)
	}
}
