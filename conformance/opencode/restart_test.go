package opencode_test

import (
	"regexp"
	"testing"
	"time"
)

func TestTheGatewayIsRestartedBetweenCalls(t *testing.T) {
	t.Parallel()
	s := beginAlone(t)
	model := s.model(
		call("sallyport_demo_read", args{"text": "before"}),
		func(*turn) reply {
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			if err := s.start(); err != nil {
				t.Error(err)
			}
			return reply{tool: "sallyport_demo_read", args: args{"text": "after"}}
		},
		say("Both are there."),
	)
	s.opencode(model).run("Read twice.").ends()
	model.sees(1, "read before")
	model.sees(2, "read after")
}

// TestTheGatewayIsRestartedDuringACall ends it as an upgrade does, which tells
// the model, and as a power cut does, of which OpenCode sees a lost connection
// or only silence.
func TestTheGatewayIsRestartedDuringACall(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(*gateway) error
		told *regexp.Regexp
	}{
		{"asked", (*gateway).stop, regexp.MustCompile(`^The gateway is restarting\. PENDING: .*Call invocation_wait with invocation_id`)},
		{"killed", func(g *gateway) error { g.kill(); return nil }, regexp.MustCompile(`Request timed out|socket connection was closed`)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := beginAlone(t)
			back := make(chan struct{})
			write := call("sallyport_demo_write", args{"text": "milk"})
			model := s.model(write, func(turn *turn) reply { <-back; return write(turn) }, say("Done."))
			run := s.opencode(model, timeout(12*time.Second)).run("Write it down.")
			id := s.held()
			err := row.end(s.gateway)
			if err == nil {
				err = s.start()
			}
			close(back)
			if err != nil {
				t.Fatal(err)
			}
			await(t, "the model to try again", func() bool { return model.asked() == 2 })
			s.approve(id)
			run.ends()
			if got := model.result(1); !row.told.MatchString(got) {
				t.Errorf("of the restart the model was told %q", got)
			}
			if got := model.result(2); got != "wrote milk" {
				t.Errorf("the model saw %q", got)
			}
			if n := s.demo.did("wrote milk"); n != 1 {
				t.Errorf("the write had %d effects", n)
			}
			if i := s.only(); i.ID != id || i.Status != "completed" {
				t.Errorf("the call ended as %+v", i)
			}
		})
	}
}
