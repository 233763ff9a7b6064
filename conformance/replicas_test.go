package conformance_test

import (
	"fmt"
	"testing"
)

// TestReplicas looks at three gateways from behind a load balancer that gives
// every request to another of them.
func TestReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true, "--hold-every", "200ms")
	t.Run("suite", func(t *testing.T) { testSuite(t, c.gateways) })
	t.Run("questions", func(t *testing.T) { testQuestions(t, c.in(t)) })
	for i, k := range kinds() {
		t.Run(fmt.Sprintf("%s %s", k.name, k.era), func(t *testing.T) {
			c := c.in(t)
			testConversation(t, c, k, 1000*(i+1))
			testChange(t, c, k)
		})
	}
	t.Run("rolling restart", func(t *testing.T) { testRollingRestart(t, c.in(t)) })
}

// in is the cluster as a part of a test sees it.
func (c *cluster) in(t *testing.T) *cluster {
	own := *c
	own.t = t
	return &own
}

// held waits for the one invocation with the effect, in any session.
func (c *cluster) held(effect, status string) (found invocation) {
	c.t.Helper()
	await(c.t, fmt.Sprintf("%q to be %s", effect, status), func() bool {
		for _, i := range c.gateways[0].invocations("status=" + status) {
			if i.effect() == effect {
				found = i
				return true
			}
		}
		return false
	})
	return found
}
