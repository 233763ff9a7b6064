package opencode_test

import (
	"testing"

	"sallyport/conformance/harness"
)

// TestToolsAppearInTheSameTurn has the model read on until it is offered what
// came while it was at work.
func TestToolsAppearInTheSameTurn(t *testing.T) {
	t.Parallel()
	s := beginAlone(t)
	other := harness.StartUpstream(harness.Tool{Name: "look", Description: "Looks.", Reads: true, Does: "looked at "})
	t.Cleanup(other.Close)
	read := harness.Call("sallyport_demo_read", args{"text": "on"})
	model := s.model(
		func(t *harness.Turn) harness.Reply {
			s.Demo.Add(harness.Tool{Name: "find", Description: "Finds.", Reads: true, Does: "found "})
			return read(t)
		},
		harness.Until("sallyport_demo_find", read, harness.Call("sallyport_demo_find", args{"text": "milk"})),
		func(turn *harness.Turn) harness.Reply {
			if got := turn.Result(); got != "found milk" {
				t.Errorf("of a connector's new tool the model saw %q", got)
			}
			if err := s.Connect("other", other); err != nil {
				t.Error(err)
			}
			return read(turn)
		},
		harness.Until("sallyport_other_look", read, harness.Call("sallyport_other_look", args{"text": "milk"})),
		harness.Say("All done."),
	)
	run := s.opencode(model).run("Find it.")
	s.Approve(s.Held()) // nobody has reviewed the new tool
	run.Succeeds()
	if got := model.Result(-1); got != "looked at milk" {
		t.Errorf("of a new connector the model saw %q", got)
	}
}
