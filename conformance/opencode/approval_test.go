package opencode_test

import (
	"strings"
	"testing"
	"time"

	"sallyport/conformance/harness"
)

// longHold is more than the minute that OpenCode waits for an answer or a sign
// of life.
const longHold = 75 * time.Second

func TestAWriteIsHeldForLongAndApproved(t *testing.T) {
	t.Parallel()
	s := begin(t)
	model := s.model(harness.Call("sallyport_demo_write", args{"text": "after a while"}), harness.Say("Done."))
	run := s.opencode(model).run("Write it down.")
	id, since := s.Held(), time.Now()
	harness.Await(t, "the person to come", func() bool { return time.Since(since) > longHold })
	if n := model.Asked(); n != 1 {
		t.Errorf("the model was asked %d times while its call was held", n)
	}
	s.Approve(id)
	printed := run.Succeeds()
	if got := model.Result(1); got != "wrote after a while" {
		t.Errorf("the model saw %q", got)
	}
	if n := s.Demo.Did("wrote after a while"); n != 1 {
		t.Errorf("the write had %d effects", n)
	}
	if i := s.Only(); i.Status != "completed" || i.ApprovedBy == "" {
		t.Errorf("the call ended as %+v", i)
	}
	if !strings.Contains(printed, "Done.") || strings.Contains(printed, "failed") {
		t.Errorf("the user was shown:\n%s", printed)
	}
}

// TestARetryAfterATimeoutJoins has a client that is shown no progress, and so
// gives up while a person decides. Its model does what it was told not to.
func TestARetryAfterATimeoutJoins(t *testing.T) {
	t.Parallel()
	s := beginAlone(t, "--hold-every", "1h")
	write := harness.Call("sallyport_demo_write", args{"text": "once"})
	model := s.model(write, write, harness.Say("Done."))
	run := s.opencode(model, timeout(12*time.Second)).run("Write it down.")
	id := s.Held()
	harness.Await(t, "the model to try again", func() bool { return model.Asked() == 2 })
	s.Approve(id)
	run.Succeeds()
	if got := model.Result(1); !strings.Contains(got, "Request timed out") {
		t.Errorf("the first call was answered %q, where it was to time out", got)
	}
	if got := model.Result(2); got != "wrote once" {
		t.Errorf("the model saw %q", got)
	}
	if n := s.Demo.Did("wrote once"); n != 1 {
		t.Errorf("the write had %d effects", n)
	}
	if i := s.Only(); i.ID != id || i.Status != "completed" {
		t.Errorf("the call ended as %+v", i)
	}
}
