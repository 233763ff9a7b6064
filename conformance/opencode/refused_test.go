package opencode_test

import (
	"strings"
	"testing"
)

// sees fails unless the model saw all of that in the last result of a turn.
func (m *model) sees(n int, parts ...string) {
	m.t.Helper()
	got := m.result(n)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			m.t.Errorf("in turn %d the model did not see %q but:\n%s", n, part, got)
		}
	}
}

func TestADenialIsFinal(t *testing.T) {
	t.Parallel()
	s := begin(t)
	write := call("sallyport_demo_write", args{"text": "no"})
	model := s.model(write, write, say("I was not allowed to."))
	run := s.opencode(model).run("Write it down.")
	id := s.held()
	s.deny(id, "Use the other notebook.")
	printed := run.ends()
	model.sees(1, "denied by a person", "nothing was executed", "Reason given: Use the other notebook.", "Do not repeat", id)
	model.sees(2, "denied automatically", "Reason given: Use the other notebook.", "Tell the user")
	if !strings.Contains(printed, "Use the other notebook.") {
		t.Errorf("the user was not shown the reason:\n%s", printed)
	}
	if n := s.demo.did("wrote no"); n != 0 {
		t.Errorf("what was denied happened %d times", n)
	}
}

func TestNobodyDecides(t *testing.T) {
	t.Parallel()
	s := beginAlone(t, "--hold-interactive", "2s")
	model := s.model(call("sallyport_demo_write", args{"text": "late"}), say("Nobody was there."))
	s.opencode(model).run("Write it down.").ends()
	i := s.only()
	if i.Status != "expired" {
		t.Errorf("the call ended as %+v", i)
	}
	model.sees(1, "Nobody approved", "in time; nothing was executed", i.ID)
	if n := s.demo.did("wrote late"); n != 0 {
		t.Errorf("what nobody approved happened %d times", n)
	}
}

func TestASessionIsRevokedWhileItsCallIsHeld(t *testing.T) {
	t.Parallel()
	s := begin(t)
	model := s.model(
		call("sallyport_demo_write", args{"text": "over"}),
		call("sallyport_demo_read", args{"text": "over"}),
		say("I am out."),
	)
	run := s.opencode(model).run("Write it down.")
	id := s.held()
	s.must(t, "DELETE", "/api/v1/sessions/"+s.session.ID, nil, nil)
	run.ends()
	s.becomes(id, "denied")
	model.sees(1, "was withdrawn", "nothing was executed", "The session was revoked.")
	model.sees(2, "This session was revoked. Ask for a new session token.")
	if n := s.demo.did("wrote over"); n != 0 {
		t.Errorf("the write of a revoked session happened %d times", n)
	}
}
