package page_test

import (
	"encoding/json"
	"os"
	"testing"
)

// axe is the script that finds what some people could not use.
func axe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile("../node_modules/axe-core/axe.min.js")
	if err != nil {
		missing(t, "run make prepare to install axe-core: %v", err)
	}
	return string(script)
}

// usable fails the story for each serious or critical issue of the page that
// axe-core finds with these rules; none are all.
func (w *window) usable(axe string, rules ...string) {
	w.t.Helper()
	for _, issue := range w.issues(axe, rules...) {
		w.t.Errorf("%s: %s", w.path(), issue)
	}
}

func (w *window) issues(axe string, rules ...string) (issues []string) {
	w.t.Helper()
	wanted, err := json.Marshal(append([]string{}, rules...))
	if err != nil {
		w.t.Fatal(err)
	}
	var there bool
	if w.eval("!!window.axe", &there); !there {
		w.eval(axe+"; 0", nil)
	}
	w.eval(`(async (rules) => {
  const found = await axe.run(document, { resultTypes: ["violations"], ...(rules.length && { runOnly: { type: "rule", values: rules } }) });
  return found.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
    .flatMap((v) => v.nodes.slice(0, 4).map((n) => v.id + " (" + v.impact + "): " + v.help + ": " + n.html.slice(0, 200) + " " + (n.any[0]?.message ?? n.failureSummary ?? "").slice(0, 200)));
})(`+string(wanted)+`)`, &issues)
	return issues
}
