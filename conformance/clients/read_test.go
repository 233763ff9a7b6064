package clients_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/conformance/harness"
)

func TestReadAndGuide(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		s := shared.Session(t, nil)
		script := []harness.Step{
			c.calls("demo_read", args{"text": "milk"}),
			c.calls("actions_guide", args{"source": "demo"}),
			harness.Say("There is milk."),
		}
		if c.loads { // the model is first offered names, and loads what it needs
			script = slices.Insert(script, 0, harness.Call("ToolSearch", args{"query": "select:" + c.prefix + "demo_read"}))
		}
		m := harness.NewModel(t, c.dialect, script...)
		printed := c.run(s, m).Succeeds()

		first := m.Turn(0)
		want := []string{c.prefix + "demo_read", c.prefix + "demo_write"} // denied tools are not listed
		if d := cmp.Diff(want, first.Offers(c.prefix+"demo_")); d != "" {
			t.Errorf("the model was offered other tools (-want +got):\n%s", d)
		}
		first.Has(c.prefix+"actions_guide", c.prefix+"grant_request", c.prefix+"invocation_status", c.prefix+"invocation_wait")
		if !strings.Contains(first.System+first.User, "Sallyport, a gateway") {
			t.Errorf("the model did not get the gateway's instructions, but:\n%s\n%s", first.System, first.User)
		}
		m.Turn(-1).Has(c.prefix + "demo_read")
		m.Sees(-2, "read milk")
		m.Sees(-1, "`demo_read`", "`demo_write`", "Reads a note.", "needs a person's approval", "How approvals behave")
		if !strings.Contains(printed, "There is milk.") {
			t.Errorf("the user was shown:\n%s", printed)
		}
	})
}
