package conformance_test

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"sallyport/internal/dbtest"
)

// cluster is several gateways on one PostgreSQL, with or without a Valkey, in
// front of one upstream.
type cluster struct {
	t        *testing.T
	postgres *dbtest.Server
	valkey   *dbtest.Server // nil: none
	gateways []*gateway
	upstream *upstream
	source   string // of the upstream
	session  session
	program  func() (string, error) // which the gateways run; nil: the one of all tests
	loads    int                    // that were begun
}

// withValkey says how instances hear of each other.
type withValkey bool

// newCluster starts n gateways on servers of their own. They share an upstream
// with the slug "up" and a session.
func newCluster(t *testing.T, n int, hints withValkey, args ...string) *cluster {
	t.Helper()
	c := newServers(t, hints)
	for range n {
		c.prepare("gateway", args...)
	}
	c.begin()
	return c
}

// newServers starts what gateways need, and none yet.
func newServers(t *testing.T, hints withValkey) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("runs gateways and databases as processes")
	}
	c := &cluster{t: t, postgres: dbtest.NewPostgres(t), upstream: startUpstream(t)}
	if hints {
		c.valkey = dbtest.NewValkey(t)
	}
	return c
}

// begin starts the gateways that were not started yet, at the same time, and
// sets up what they share.
func (c *cluster) begin() {
	c.t.Helper()
	for _, g := range c.gateways {
		if g.cmd == nil {
			g.spawn()
		}
	}
	for _, g := range c.gateways {
		g.serves()
	}
	c.source = c.gateways[0].connector("up", c.upstream.URL)
	c.session = c.gateways[0].mint(nil)
}

// finish ends all gateways at the same time, once.
func (c *cluster) finish() {
	var ends sync.WaitGroup
	for _, g := range c.gateways {
		ends.Go(g.finish)
	}
	ends.Wait()
	c.gateways = nil
}

// The keys that all gateways of a cluster share.
const (
	masterKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	tokenKey  = "1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100"
)

func keys() []string {
	return []string{"SALLYPORT_MASTER_KEY=" + masterKey, "SALLYPORT_TOKEN_KEY=" + tokenKey}
}

// prepare adds a process on the cluster's servers that is not started yet.
func (c *cluster) prepare(part string, args ...string) *gateway {
	c.t.Helper()
	program := c.program
	if program == nil {
		program = binary
	}
	g := newGatewayOf(c.t, program, part, append([]string{"--database-url", c.postgres.URL}, args...)...)
	if c.valkey != nil {
		g.args = append(g.args, "--valkey-url", c.valkey.URL)
	}
	g.env = keys()
	c.gateways = append(c.gateways, g)
	c.t.Cleanup(c.finish) // before the folder of g goes
	return g
}

// agent returns an agent of the cluster's session at one gateway.
func (c *cluster) agent(g *gateway) *agent {
	c.t.Helper()
	return newAgent(c.t, g.MCPURL, c.session.Token)
}

// write begins a write of n at one gateway, as a client of its own.
func (c *cluster) write(g *gateway, n int) *calling {
	c.t.Helper()
	return c.agent(g).start(c.t, "up_write", fmt.Sprintf(`{"n":%d}`, n))
}

// find waits for the invocation of the cluster's session that has the effect,
// and one of the statuses.
func (c *cluster) find(g *gateway, effect string, statuses ...string) invocation {
	c.t.Helper()
	var found []invocation
	g.await(fmt.Sprintf("%q to be %v", effect, statuses), func() bool {
		found = nil
		for _, status := range statuses {
			for _, i := range g.invocations("session=" + c.session.ID + "&status=" + status) {
				if i.effect() == effect {
					found = append(found, i)
				}
			}
		}
		return len(found) > 0
	})
	if len(found) > 1 {
		c.t.Fatalf("%q has %d rows: %+v", effect, len(found), found)
	}
	return found[0]
}

// waits waits until so many callers wait at the gateway.
func (c *cluster) waits(g *gateway, callers int) {
	c.t.Helper()
	g.await(fmt.Sprintf("%d callers to wait", callers), func() bool { return g.metric("sallyport_waiting_calls") == fmt.Sprint(callers) })
}

// once checks that there was one call with the effect, that it completed and
// happened once, and what its caller was told.
func (c *cluster) once(g *gateway, effect string, got answer) {
	c.t.Helper()
	if !got.did(effect) {
		c.t.Errorf("the caller of %q was answered with %+v, error %+v", effect, got, got.Error)
	}
	c.find(g, effect, "completed")
	if rows := c.rows(g)[effect]; len(rows) != 1 {
		c.t.Errorf("%q has %d rows: %+v", effect, len(rows), rows)
	}
	c.effects(effect, 1)
}

// rows returns all invocations by their effect.
func (c *cluster) rows(g *gateway) map[string][]invocation {
	c.t.Helper()
	rows := make(map[string][]invocation)
	for _, i := range g.every("") {
		rows[i.effect()] = append(rows[i.effect()], i)
	}
	return rows
}

// effects checks how often something happened.
func (c *cluster) effects(effect string, want int) {
	c.t.Helper()
	if got := c.upstream.count(effect); got != want {
		c.t.Errorf("%q happened %d times, not %d", effect, got, want)
	}
}

// metric reads a number of /metrics, as it is written there.
func (g *gateway) metric(name string) string {
	g.t.Helper()
	for lines := bufio.NewScanner(bytes.NewReader(g.do("GET", "/metrics", nil).Body)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return value
		}
	}
	return ""
}
