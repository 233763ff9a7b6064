// Package opencode_test runs the real OpenCode against a real gateway, with a
// model of our own that follows a script.
//
// A story is a test that begins a [story]. Stories that [begin] share one
// gateway and one upstream, so each looks only at its own session; one that
// restarts the gateway, or needs other flags, begins with [beginAlone]. This is
// a whole one:
//
//	func TestAWriteIsApproved(t *testing.T) {
//		t.Parallel()
//		s := begin(t)
//		model := s.model(harness.Call("sallyport_demo_write", args{"text": "milk"}), harness.Say("Done."))
//		run := s.opencode(model).run("Buy milk.")   // opencode run, beside the story
//		id := s.Held()                              // waits until the call is held
//		s.Approve(id)
//		run.Succeeds()                              // waits for OpenCode's exit status 0
//		if got := model.Result(1); got != "wrote milk" {
//			t.Errorf("the model saw %q", got)       // of the second request: the last tool result
//		}
//	}
//
// The script has one step for each request that OpenCode makes on the model's
// behalf; a story fails when the model is asked more or less often. OpenCode's
// requests for titles go to another model, which is not scripted.
package opencode_test
