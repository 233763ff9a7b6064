package opencode_test

import (
	"strings"
	"testing"
	"time"
)

// longHold is more than the minute that OpenCode waits for an answer or a sign
// of life.
const longHold = 75 * time.Second

func TestAWriteIsHeldForLongAndApproved(t *testing.T) {
	t.Parallel()
	s := begin(t)
	model := s.model(call("sallyport_demo_write", args{"text": "after a while"}), say("Done."))
	run := s.opencode(model).run("Write it down.")
	id, since := s.held(), time.Now()
	await(t, "the person to come", func() bool { return time.Since(since) > longHold })
	if n := model.asked(); n != 1 {
		t.Errorf("the model was asked %d times while its call was held", n)
	}
	s.approve(id)
	printed := run.ends()
	if got := model.result(1); got != "wrote after a while" {
		t.Errorf("the model saw %q", got)
	}
	if n := s.demo.did("wrote after a while"); n != 1 {
		t.Errorf("the write had %d effects", n)
	}
	if i := s.only(); i.Status != "completed" || i.ApprovedBy == "" {
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
	write := call("sallyport_demo_write", args{"text": "once"})
	model := s.model(write, write, say("Done."))
	run := s.opencode(model, timeout(12*time.Second)).run("Write it down.")
	id := s.held()
	await(t, "the model to try again", func() bool { return model.asked() == 2 })
	s.approve(id)
	run.ends()
	if got := model.result(1); !strings.Contains(got, "Request timed out") {
		t.Errorf("the first call was answered %q, where it was to time out", got)
	}
	if got := model.result(2); got != "wrote once" {
		t.Errorf("the model saw %q", got)
	}
	if n := s.demo.did("wrote once"); n != 1 {
		t.Errorf("the write had %d effects", n)
	}
	if i := s.only(); i.ID != id || i.Status != "completed" {
		t.Errorf("the call ended as %+v", i)
	}
}
