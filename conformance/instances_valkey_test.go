package conformance_test

import (
	"bytes"
	"fmt"
	"testing"
)

// The logs' words about Valkey.
const (
	valkeyAway = "Valkey is unavailable"
	valkeyBack = "Valkey is connected"
)

// Valkey is killed while calls are held, hangs, and comes back, each time
// empty. Approvals given elsewhere arrive all the same, every caller is
// answered, and it is said once each time.
func TestValkeyGoneAndBack(t *testing.T) {
	t.Parallel()
	// Slow beats, so that a busy machine is not taken for a Valkey that is away.
	c := newCluster(t, 3, true, "--valkey-heartbeat", "3s")
	c.valkeyUp("1")
	held := c.hold(0)
	c.valkey.Kill()
	c.valkeyUp("0")
	c.approveElsewhere(held[:3])
	early := c.hold(10)
	c.valkey.Start()
	c.valkeyUp("1")
	c.approveElsewhere(held[3:])
	c.approveElsewhere(early)

	held = c.hold(20)
	c.valkey.Pause()
	c.valkeyUp("0")
	c.approveElsewhere(held[:3])
	c.valkey.Resume()
	c.valkeyUp("1")
	c.approveElsewhere(held[3:])
	for _, g := range c.gateways {
		g.said(valkeyAway, 2)
		g.said(valkeyBack, 3)
	}
}

// A cluster that starts while Valkey is away serves, and uses it as soon as it
// is there.
func TestValkeyAwayAtStart(t *testing.T) {
	t.Parallel()
	c := newServers(t, true)
	c.valkey.Kill()
	c.prepare("gateway")
	c.prepare("gateway")
	c.begin()
	c.valkeyUp("0")
	c.approveElsewhere(c.hold(0))
	held := c.hold(10)
	c.valkey.Start()
	c.valkeyUp("1")
	c.approveElsewhere(held)
	for _, g := range c.gateways {
		g.said(valkeyAway, 1)
		g.said(valkeyBack, 1)
	}
}

// waiter is a caller who waits on a gateway.
type waiter struct {
	*calling
	at     int // the gateway
	effect string
}

// hold has two calls held on each gateway.
func (c *cluster) hold(from int) (held []waiter) {
	c.t.Helper()
	s := c.gateways[0].mint(nil)
	for i := range 2 * len(c.gateways) {
		at := i % len(c.gateways)
		a := newAgent(c.t, c.gateways[at].MCPURL, s.Token)
		call := a.start(c.t, "up_write", fmt.Sprintf(`{"n":%d}`, from+i))
		held = append(held, waiter{call, at, fmt.Sprintf("write %d", from+i)})
	}
	await(c.t, "all calls to be held", func() bool { return len(c.gateways[0].invocations("status=pending&session="+s.ID)) == len(held) })
	return held
}

// approveElsewhere approves each call on another gateway than its caller's,
// and waits for the answer.
func (c *cluster) approveElsewhere(held []waiter) {
	c.t.Helper()
	rows := c.rows(c.gateways[0])
	for _, w := range held {
		c.gateways[(w.at+1)%len(c.gateways)].approve(rows[w.effect][0].ID)
	}
	for _, w := range held {
		if got := w.wait(); !got.did(w.effect) {
			c.t.Errorf("the caller of %q was answered with %+v", w.effect, got)
		}
		c.effects(w.effect, 1)
	}
}

// valkeyUp waits until all gateways say that Valkey is there, or not.
func (c *cluster) valkeyUp(want string) {
	c.t.Helper()
	for _, g := range c.gateways {
		g.await("sallyport_valkey_up to be "+want, func() bool { return g.metric("sallyport_valkey_up") == want })
	}
}

// said checks how often the log says something.
func (g *gateway) said(words string, want int) {
	g.t.Helper()
	if got := bytes.Count(g.logged(), []byte(words)); got != want {
		g.t.Errorf("the log says %d times %q, not %d times", got, words, want)
	}
}
