package opencode_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/conformance/harness"
)

func TestDiscovery(t *testing.T) {
	t.Parallel()
	s := begin(t)
	printed := s.opencode(s.model()).Start("mcp", "list").Succeeds()
	if !strings.Contains(printed, "✓ sallyport connected") {
		t.Errorf("opencode mcp list printed:\n%s", printed)
	}
}

func TestARead(t *testing.T) {
	t.Parallel()
	s := begin(t)
	model := s.model(harness.Call("sallyport_demo_read", args{"text": "milk"}), harness.Say("There is milk."))
	printed := s.opencode(model).run("What is there?").Succeeds()

	first := model.Turn(0)
	want := []string{"sallyport_demo_read", "sallyport_demo_write"} // what is denied is not listed
	if d := cmp.Diff(want, first.Offers("sallyport_demo_")); d != "" {
		t.Errorf("the model was offered other tools (-want +got):\n%s", d)
	}
	first.Has("sallyport_grant_request", "sallyport_invocation_status", "sallyport_invocation_wait")
	for _, part := range []string{`<server name="sallyport">`, "need a person's approval"} {
		if !strings.Contains(first.System, part) {
			t.Errorf("the system prompt lacks %q:\n%s", part, first.System)
		}
	}
	if got := model.Result(1); got != "read milk" {
		t.Errorf("the model saw %q", got)
	}
	if i := s.Only(); i.Action != "read" || i.Status != "completed" {
		t.Errorf("the call ended as %+v", i)
	}
	for _, part := range []string{"sallyport_demo_read", "There is milk."} {
		if !strings.Contains(printed, part) {
			t.Errorf("the user was not shown %q:\n%s", part, printed)
		}
	}
}
