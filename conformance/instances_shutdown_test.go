package conformance_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// One of three gateways under load is asked to end. It takes no new calls and
// says so to the balancer, tells callers of held calls how to come back, lets
// what executes end, and loses nothing; whoever comes back elsewhere gets the
// result.
func TestShutdownOfOneUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true)
	leaving, other, third := c.gateways[0], c.gateways[1], c.gateways[2]
	// One executes for a caller who waits, one for a caller who is gone.
	begun, answer, end := c.upstream.blockTwo("write 2", "write 4")
	defer end()
	l := c.startLoad(leaving)
	held := c.agent(leaving).start(t, "up_destroy", `{"n":1}`)
	id := c.find(other, "destroy 1", "pending").ID
	executing := c.write(leaving, 2)
	<-begun
	gone := c.write(leaving, 4)
	<-begun
	gone.cancel()
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
	leaving.stays("while a call with a caller executes")
	answer()
	if got := executing.wait(); !got.did("write 2") {
		t.Errorf("the caller of an executing call was answered with %+v", got)
	}
	leaving.stays("while a call without a caller executes")
	end()
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
	c.find(third, "write 4", "completed")
	for effect, want := range map[string]int{"destroy 1": 1, "write 2": 1, "write 3": 0, "write 4": 1} {
		c.effects(effect, want)
	}
}

// stays checks that the process does not end for a while.
func (g *gateway) stays(why string) {
	g.t.Helper()
	select {
	case <-g.done:
		g.t.Errorf("the gateway ended %s", why)
	case <-time.After(300 * time.Millisecond):
	}
}

// blockTwo is block for two effects that are released one after the other.
func (u *upstream) blockTwo(one, two string) (begun <-chan string, first, second func()) {
	waiting := make(chan string, 2)
	free := map[string]chan struct{}{one: make(chan struct{}), two: make(chan struct{})}
	u.misbehave(func(w http.ResponseWriter, r *http.Request, c *toolCall) bool {
		released, ok := free[c.effect()]
		if !ok {
			return false
		}
		u.did(c)
		waiting <- c.effect()
		select {
		case <-released:
			respond(w, c, resultOf(c))
		case <-r.Context().Done():
		}
		return true
	})
	return waiting, sync.OnceFunc(func() { close(free[one]) }), sync.OnceFunc(func() { close(free[two]) })
}
