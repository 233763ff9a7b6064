package conformance_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// testConversation has a client do all that agents do, while each request goes
// to another replica.
func testConversation(t *testing.T, c *cluster, k kind, base int) {
	b := startBalancer(t, c.gateways, "")
	token := c.gateways[0].mint(nil).Token
	client := k.connect(t, b.URL+"/mcp", token, k.era)
	if names, err := client.list(); err != nil || !slices.Contains(names, "up_write") {
		t.Fatalf("it lists %v, error %v", names, err)
	}
	thirtyCalls(t, c, b, client, base)
	heldElsewhere(t, c, b, client, base+100)
	if k.older() {
		cancelledElsewhere(t, c, b, client, base+200)
		saysGoodbye(t, c, b, client, token)
		if n := b.count("initialize", http.StatusOK); n != 1 {
			t.Errorf("it initialized %d times", n)
		}
	} else if n := b.count("initialize", http.StatusOK); n != 0 || client.session() != "" {
		t.Errorf("it initialized %d times and has the session %q", n, client.session())
	}
	b.calm()
}

// thirtyCalls makes calls in a row, on replica after replica.
func thirtyCalls(t *testing.T, c *cluster, b *balancer, client talker, base int) {
	t.Helper()
	for n := base; n < base+30; n++ {
		effect := fmt.Sprint("read ", n)
		if text, err := client.begin("up_read", map[string]any{"n": n}).wait(); err != nil || text != "did "+effect {
			t.Fatalf("%q came to %q, error %v", effect, text, err)
		}
		c.effects(effect, 1)
	}
	if served := b.spread("tools/call"); slices.Min(served) < 8 {
		t.Errorf("the calls went to the replicas as %v", served)
	}
}

// heldElsewhere has a call approved on another replica than it is held on.
func heldElsewhere(t *testing.T, c *cluster, b *balancer, client talker, n int) {
	t.Helper()
	b.pin("tools/call", 0)
	defer b.unpin("tools/call")
	effect := fmt.Sprint("write ", n)
	call := client.begin("up_write", map[string]any{"n": n})
	id := c.held(effect, "pending").ID
	await(t, "progress", func() bool { return call.progress.Load() >= 2 })
	c.gateways[1].approve(id)
	if text, err := call.wait(); err != nil || text != "did "+effect {
		t.Errorf("%q came to %q, error %v", effect, text, err)
	}
	c.effects(effect, 1)
}

// cancelledElsewhere has a client cancel a call that is held, with the word of
// it going to another replica.
func cancelledElsewhere(t *testing.T, c *cluster, b *balancer, client talker, n int) {
	t.Helper()
	b.pin("tools/call", 0)
	b.pin("notifications/cancelled", 2)
	defer b.unpin("tools/call", "notifications/cancelled")
	effect := fmt.Sprint("write ", n)
	call := client.begin("up_write", map[string]any{"n": n})
	c.held(effect, "pending")
	call.cancel()
	if text, err := call.wait(); err == nil {
		t.Errorf("a cancelled call came to %q", text)
	}
	if got := c.held(effect, "denied"); got.DeniedReason != "withdrawn" {
		t.Errorf("a call that its client cancelled: %+v", got)
	}
	if told := b.spread("notifications/cancelled"); told[2] == 0 {
		t.Errorf("the replicas were told of cancels as %v", told)
	}
	c.effects(effect, 0)
}

// saysGoodbye has a client end its session, which no replica knows any more.
func saysGoodbye(t *testing.T, c *cluster, b *balancer, client talker, token string) {
	t.Helper()
	gone := &agent{token: token, session: client.session(), http: http.DefaultClient}
	if err := client.end(); err != nil {
		t.Errorf("saying goodbye: %v", err)
	}
	if n := b.count(http.MethodDelete, http.StatusNoContent); n != 1 {
		t.Errorf("%d times a DELETE was answered 204", n)
	}
	for i, g := range c.gateways {
		gone.url = g.MCPURL
		response, err := gone.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("replica %d answers a session that ended with %s", i, response.Status)
		}
	}
}

// testChange has a connector added on one replica. Clients hear of it whatever
// replica their event stream is on, and then find its tools on any.
func testChange(t *testing.T, c *cluster, k kind) {
	b := startBalancer(t, c.gateways, "")
	token := c.gateways[0].mint(nil).Token
	slug := strings.ToLower(fmt.Sprintf("ch-%s%s-%s", k.name[:1], k.name[len(k.name)-1:], k.era[:4]))
	var clients []talker
	for i := range c.gateways {
		b.pin(http.MethodGet, i)
		b.pin("subscriptions/listen", i)
		clients = append(clients, k.connect(t, b.URL+"/mcp", token, k.era))
		await(t, "an event stream", func() bool {
			return b.spread(http.MethodGet)[i]+b.spread("subscriptions/listen")[i] == 1
		})
	}
	for _, client := range clients {
		if _, err := client.list(); err != nil {
			t.Fatal(err)
		}
	}
	c.gateways[1].connector(slug, c.upstream.URL)
	for i, client := range clients {
		await(t, fmt.Sprintf("the client with a stream on %d to be told", i), func() bool { return client.changes() > 0 })
		for range c.gateways {
			names, err := client.list()
			if err != nil || !slices.Contains(names, slug+"_read") {
				t.Errorf("told of a change on %d, it lists %v, error %v", i, names, err)
			}
		}
	}
	b.calm()
}
