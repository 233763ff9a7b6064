package opencode_test

import (
	"regexp"
	"testing"
	"time"

	"sallyport/conformance/harness"
)

func TestTheGatewayIsRestartedBetweenCalls(t *testing.T) {
	t.Parallel()
	s := beginAlone(t)
	model := s.model(
		harness.Call("sallyport_demo_read", args{"text": "before"}),
		func(*harness.Turn) harness.Reply {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
			if err := s.Start(); err != nil {
				t.Error(err)
			}
			return harness.Reply{Tool: "sallyport_demo_read", Args: args{"text": "after"}}
		},
		harness.Say("Both are there."),
	)
	s.opencode(model).run("Read twice.").Succeeds()
	model.Sees(1, "read before")
	model.Sees(2, "read after")
}

// TestTheGatewayIsRestartedDuringACall ends it as an upgrade does, which tells
// the model, and as a power cut does, of which OpenCode sees a lost connection
// or only silence.
func TestTheGatewayIsRestartedDuringACall(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(*harness.Gateway) error
		told *regexp.Regexp
	}{
		{"asked", (*harness.Gateway).Stop, regexp.MustCompile(`^The gateway is restarting\. PENDING: .*Call invocation_wait with invocation_id`)},
		{"killed", func(g *harness.Gateway) error { g.Kill(); return nil }, regexp.MustCompile(`Request timed out|socket connection was closed`)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := beginAlone(t)
			back := make(chan struct{})
			write := harness.Call("sallyport_demo_write", args{"text": "milk"})
			model := s.model(write, func(turn *harness.Turn) harness.Reply { <-back; return write(turn) }, harness.Say("Done."))
			run := s.opencode(model, timeout(12*time.Second)).run("Write it down.")
			id := s.Held()
			err := row.end(s.Gateway)
			if err == nil {
				err = s.Start()
			}
			close(back)
			if err != nil {
				t.Fatal(err)
			}
			harness.Await(t, "the model to try again", func() bool { return model.Asked() == 2 })
			s.Approve(id)
			run.Succeeds()
			if got := model.Result(1); !row.told.MatchString(got) {
				t.Errorf("of the restart the model was told %q", got)
			}
			if got := model.Result(2); got != "wrote milk" {
				t.Errorf("the model saw %q", got)
			}
			if n := s.Demo.Did("wrote milk"); n != 1 {
				t.Errorf("the write had %d effects", n)
			}
			if i := s.Only(); i.ID != id || i.Status != "completed" {
				t.Errorf("the call ended as %+v", i)
			}
		})
	}
}
