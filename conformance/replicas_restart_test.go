package conformance_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// traveller is a client that goes on while replicas come and go.
type traveller struct {
	talker
	kind
	b     *balancer
	base  int
	calls int   // that came back as they should
	held  *talk // begun before the first restart
}

// testRollingRestart restarts all replicas, one after another, while clients
// of all kinds make calls. None of them notices: no call fails, no session is
// unknown, nobody shakes hands again. A call that is held on a restarted
// replica is answered "pending", and asked for afterwards.
func testRollingRestart(t *testing.T, c *cluster) {
	var all []*traveller
	for i, k := range kinds() {
		tr := &traveller{kind: k, b: startBalancer(t, c.gateways, ""), base: 10_000 * (i + 1)}
		tr.talker = k.connect(t, tr.b.URL+"/mcp", c.gateways[0].mint(nil).Token, k.era)
		tr.b.pin("tools/call", i%len(c.gateways))
		tr.held = tr.begin("up_write", map[string]any{"n": tr.base})
		c.held(fmt.Sprint("write ", tr.base), "pending")
		tr.b.unpin("tools/call")
		all = append(all, tr)
	}
	over := make(chan struct{})
	var going sync.WaitGroup
	for _, tr := range all {
		going.Go(func() { tr.travel(t, over) })
	}
	for i, g := range c.gateways {
		for _, tr := range all {
			tr.b.rest(i)
		}
		g.stop()
		g.start()
		for _, tr := range all {
			tr.b.back(i)
		}
	}
	close(over)
	going.Wait()
	for _, tr := range all {
		t.Run(tr.name+" "+tr.era, func(t *testing.T) { tr.arrived(t, c) })
	}
}

// travel makes calls until the journey is over.
func (tr *traveller) travel(t *testing.T, over <-chan struct{}) {
	for n := tr.base + 1; ; n++ {
		select {
		case <-over:
			return
		default:
		}
		if text, err := tr.begin("up_read", map[string]any{"n": n}).wait(); err != nil || text != fmt.Sprint("did read ", n) {
			t.Errorf("%s, %s: call %d came to %q, error %v", tr.name, tr.era, n, text, err)
			return
		}
		tr.calls++
	}
}

// arrived checks what a client has after the journey.
func (tr *traveller) arrived(t *testing.T, c *cluster) {
	if served := tr.b.spread("tools/call"); slices.Min(served) < 3 {
		t.Errorf("%d calls went to the replicas as %v", tr.calls, served)
	}
	effect := fmt.Sprint("write ", tr.base)
	said, err := tr.held.wait()
	id := regexp.MustCompile(`invocation_id "([0-9a-f-]+)"`).FindStringSubmatch(said)
	if err != nil || id == nil || !strings.Contains(said, "PENDING") {
		t.Fatalf("the held call came to %q, error %v", said, err)
	}
	asked := tr.begin("invocation_wait", map[string]any{"invocation_id": id[1]})
	c.gateways[2].approve(id[1])
	if text, err := asked.wait(); err != nil || text != "did "+effect {
		t.Errorf("afterwards %q came to %q, error %v", effect, text, err)
	}
	c.effects(effect, 1)
	want := map[bool]int{true: 1, false: 0}[tr.older()]
	if n := tr.b.count("initialize", http.StatusOK); n != want {
		t.Errorf("it initialized %d times", n)
	}
	tr.b.calm()
	if !tr.older() {
		return // a subscription that breaks is the caller's to renew
	}
	// Each replica was away once, so the event stream broke, perhaps twice: a client
	// hears only of what changes while its stream is open.
	await(t, "a new event stream", func() bool {
		return tr.b.count(http.MethodGet, http.StatusOK) >= 2 && tr.b.streams(http.MethodGet) > 0
	})
	heard := tr.changes()
	slug := fmt.Sprintf("after-%d", tr.base)
	c.gateways[0].connector(slug, c.upstream.URL)
	await(t, "word of a change", func() bool { return tr.changes() > heard })
	if names, err := tr.list(); err != nil || !slices.Contains(names, slug+"_read") {
		t.Errorf("afterwards it lists %v, error %v", names, err)
	}
}
