package conformance_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// One of three gateways under load is asked to end. It takes no new calls and
// says so to the balancer, tells callers of held calls how to come back, lets
// what executes end, and loses nothing; whoever comes back elsewhere gets the
// result.
func TestShutdownOfOneUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true)
	leaving, other, third := c.gateways[0], c.gateways[1], c.gateways[2]
	begun, release := c.upstream.block("write 2")
	defer release()
	l := c.startLoad(leaving)
	held := c.agent(leaving).start(t, "up_destroy", `{"n":1}`)
	id := c.find(other, "destroy 1", "pending").ID
	executing := c.write(leaving, 2)
	<-begun
	late := c.agent(leaving)
	l.more(60, toldResult)

	leaving.ask()
	leaving.ready(http.StatusServiceUnavailable)
	if got := held.wait(); got.Result.IsError || !strings.Contains(got.text(), "PENDING") || !strings.Contains(got.text(), "invocation_wait") || !strings.Contains(got.text(), id) {
		t.Errorf("the caller of a held call was answered with %+v", got)
	}
	if got := late.start(t, "up_write", `{"n":3}`).wait(); !got.Result.IsError || !strings.Contains(got.text(), "nothing was executed") {
		t.Errorf("a new call was answered with %+v", got)
	}
	if leaving.ended() {
		t.Error("the gateway ended while a call was executing")
	}
	release()
	if got := executing.wait(); !got.did("write 2") {
		t.Errorf("the caller of an executing call was answered with %+v", got)
	}
	<-leaving.done
	if code := leaving.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the gateway ended with status %d", code)
	}

	asked := c.agent(other).start(t, "invocation_wait", fmt.Sprintf(`{"invocation_id":%q}`, id))
	repeated := c.agent(third).start(t, "up_destroy", `{"n":1}`)
	asked.holds()
	repeated.holds()
	third.approve(id)
	for _, back := range []*calling{asked, repeated} {
		if got := back.wait(); !got.did("destroy 1") {
			t.Errorf("who came back was answered with %+v", got)
		}
	}
	l.more(60, toldResult)
	l.end()
	l.check(third)
	for effect, want := range map[string]int{"destroy 1": 1, "write 2": 1, "write 3": 0} {
		c.effects(effect, want)
	}
}
