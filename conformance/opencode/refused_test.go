package opencode_test

import (
	"strings"
	"testing"

	"sallyport/conformance/harness"
)

func TestADenialIsFinal(t *testing.T) {
	t.Parallel()
	s := begin(t)
	write := harness.Call("sallyport_demo_write", args{"text": "no"})
	model := s.model(write, write, harness.Say("I was not allowed to."))
	run := s.opencode(model).run("Write it down.")
	id := s.Held()
	s.Deny(id, "Use the other notebook.")
	printed := run.Succeeds()
	model.Sees(1, "denied by a person", "nothing was executed", "Reason given: Use the other notebook.", "Do not repeat", id)
	model.Sees(2, "denied automatically", "Reason given: Use the other notebook.", "Tell the user")
	if !strings.Contains(printed, "Use the other notebook.") {
		t.Errorf("the user was not shown the reason:\n%s", printed)
	}
	if n := s.Demo.Did("wrote no"); n != 0 {
		t.Errorf("what was denied happened %d times", n)
	}
}

func TestNobodyDecides(t *testing.T) {
	t.Parallel()
	s := beginAlone(t, "--hold-interactive", "2s")
	model := s.model(harness.Call("sallyport_demo_write", args{"text": "late"}), harness.Say("Nobody was there."))
	s.opencode(model).run("Write it down.").Succeeds()
	i := s.Only()
	if i.Status != "expired" {
		t.Errorf("the call ended as %+v", i)
	}
	model.Sees(1, "Nobody approved", "in time; nothing was executed", i.ID)
	if n := s.Demo.Did("wrote late"); n != 0 {
		t.Errorf("what nobody approved happened %d times", n)
	}
}

func TestASessionIsRevokedWhileItsCallIsHeld(t *testing.T) {
	t.Parallel()
	s := begin(t)
	model := s.model(
		harness.Call("sallyport_demo_write", args{"text": "over"}),
		harness.Call("sallyport_demo_read", args{"text": "over"}),
		harness.Say("I am out."),
	)
	run := s.opencode(model).run("Write it down.")
	id := s.Held()
	s.Must(t, "DELETE", "/api/v1/sessions/"+s.ID, nil, nil)
	run.Succeeds()
	s.Becomes(id, "denied")
	model.Sees(1, "was withdrawn", "nothing was executed", "The session was revoked.")
	model.Sees(2, "This session was revoked. Ask for a new session token.")
	if n := s.Demo.Did("wrote over"); n != 0 {
		t.Errorf("the write of a revoked session happened %d times", n)
	}
}
