package opencode_test

import "testing"

// TestToolsAppearInTheSameTurn has the model read on until it is offered what
// came while it was at work.
func TestToolsAppearInTheSameTurn(t *testing.T) {
	t.Parallel()
	s := beginAlone(t)
	other := startUpstream(tool{Name: "look", Description: "Looks.", Reads: true, Does: "looked at "})
	t.Cleanup(other.close)
	read := call("sallyport_demo_read", args{"text": "on"})
	model := s.model(
		func(t *turn) reply {
			s.demo.has(tool{Name: "find", Description: "Finds.", Reads: true, Does: "found "})
			return read(t)
		},
		until("sallyport_demo_find", read, call("sallyport_demo_find", args{"text": "milk"})),
		func(turn *turn) reply {
			if got := turn.result(); got != "found milk" {
				t.Errorf("of a connector's new tool the model saw %q", got)
			}
			if err := s.connects("other", other); err != nil {
				t.Error(err)
			}
			return read(turn)
		},
		until("sallyport_other_look", read, call("sallyport_other_look", args{"text": "milk"})),
		say("All done."),
	)
	run := s.opencode(model).run("Find it.")
	s.approve(s.held()) // nobody has reviewed the new tool
	run.ends()
	if got := model.result(-1); got != "looked at milk" {
		t.Errorf("of a new connector the model saw %q", got)
	}
}
