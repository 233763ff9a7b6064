package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"
)

// A level of log messages holds on the instances that know the session; one that
// was told nothing takes info for it.
func TestLogLevelOnAnotherInstance(t *testing.T) {
	c := newCluster(t, 2)
	c.gate.offer()
	a, b := c.nodes[0], c.nodes[1]
	id := a.initialize(t, "token-a")
	logs := func(n int) string {
		return b.post(t, "token-a", id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"logs"}}`, n)).text
	}
	if got := logs(1); strings.Contains(got, `"debug"`) || !strings.Contains(got, `"warning"`) {
		t.Errorf("before anybody said a level: %s", got)
	}
	a.post(t, "token-a", id, `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}`)
	c.peers.carried.Wait()
	if got := logs(3); strings.Contains(got, `"warning"`) {
		t.Errorf("after the level was told elsewhere: %s", got)
	}
	a.post(t, "token-a", id, `{"jsonrpc":"2.0","id":4,"method":"logging/setLevel","params":{"level":"debug"}}`)
	c.peers.carried.Wait()
	if got := logs(5); !strings.Contains(got, `"debug"`) {
		t.Errorf("after another level was told elsewhere: %s", got)
	}
}

// However many resources a listen names, it counts as one call.
func TestListenCountsOnce(t *testing.T) {
	s := open(t, nil)
	s.gate.offer()
	l := s.modern(t, "token-a", "subscriptions/listen", listenBody("demo://b", "demo://t/1", "demo://t/2"))
	eventually(t, "it is acknowledged", func() bool { return strings.Contains(l.said(), "acknowledged") })
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if s.gate.admitted != 1 {
		t.Errorf("it counted %d times", s.gate.admitted)
	}
}
