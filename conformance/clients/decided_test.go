package clients_test

import (
	"testing"

	"sallyport/conformance/harness"
)

// TestDecisions has a person approve a call and deny another, which the model
// then repeats.
func TestDecisions(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		s := shared.Session(t, nil)
		milk, tea := "milk of "+c.name, "tea of "+c.name
		denied := c.calls("demo_write", args{"text": tea})
		m := harness.NewModel(t, c.dialect, c.calls("demo_write", args{"text": milk}), denied, denied, harness.Say("I was not allowed to."))
		agent := c.run(s, m)
		first := s.Held()
		if n := m.Asked(); n != 1 {
			t.Errorf("the model was asked %d times while its call was pending", n)
		}
		s.Approve(first)
		second := s.Held()
		s.Deny(second, "Use the other notebook.")
		agent.Succeeds()
		m.Sees(1, "wrote "+milk)
		m.Sees(2, "denied by a person", "nothing was executed", "Reason given: Use the other notebook.", "Do not repeat", second)
		m.Sees(3, "denied automatically", "Reason given: Use the other notebook.", "Tell the user")
		if n := s.Demo.Did("wrote " + milk); n != 1 {
			t.Errorf("the approved write had %d effects", n)
		}
		if n := s.Demo.Did("wrote " + tea); n != 0 {
			t.Errorf("the denied write had %d effects", n)
		}
		if i := s.Becomes(first, "completed"); i.ApprovedBy == "" {
			t.Errorf("the approved call ended as %+v", i)
		}
	})
}

// TestDenialByPolicy has the model call a tool that it was not shown.
func TestDenialByPolicy(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		s := searching.Session(t, nil)
		text := "all of " + c.name
		m := harness.NewModel(t, c.dialect,
			c.calls("actions_search", args{"query": "notes"}),
			c.calls("actions_call", args{"tool": "demo_wipe", "arguments": args{"text": text}}),
			harness.Say("I may not."),
		)
		c.run(s, m).Succeeds()
		m.Sees(1, "demo_read", "demo_write")
		m.Sees(2, "demo wipe is denied by policy", "nothing was executed", "destructive", "an admin can change the policy")
		if n := s.Demo.Did("wiped " + text); n != 0 {
			t.Errorf("what was denied happened %d times", n)
		}
	})
}
