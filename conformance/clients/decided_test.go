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

// TestOutputSchema has a person deny and approve calls of a tool with an output schema.
// What the gateway says of it is an error with text alone, which also a client that
// otherwise gives its model only structured content gives it.
func TestOutputSchema(t *testing.T) {
	t.Parallel()
	harness.SkipShort(t)
	gateway := &harness.Setup{}
	tally := harness.StartUpstream(harness.Tool{Name: "add", Description: "Adds to a tally.", Does: "added ", Structured: true})
	t.Cleanup(func() {
		if err := gateway.End(); err != nil {
			t.Error(err)
		}
		tally.Close()
	})
	for i, c := range clients() {
		s := gateway.Session(t, nil)
		if i == 0 {
			if err := gateway.Connect("tally", tally); err != nil {
				t.Fatal(err)
			}
		}
		m := harness.NewModel(t, c.dialect,
			c.calls("tally_add", args{"text": "tea of " + c.name}),
			c.calls("tally_add", args{"text": "milk of " + c.name}),
			harness.Say("Done."),
		)
		agent := c.run(s, m)
		s.Deny(s.Held(), "Not today.")
		s.Approve(s.Held())
		agent.Succeeds()
		m.Sees(1, "denied by a person", "nothing was executed", "Reason given: Not today.")
		m.Sees(2, "added milk of "+c.name)
	}
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
