package clients_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/conformance/harness"
)

// TestRestart restarts the gateway while a person decides: the model is told
// that its call is pending, and waits for the result.
func TestRestart(t *testing.T) {
	t.Parallel()
	harness.SkipShort(t)
	gateway := &harness.Setup{}
	t.Cleanup(func() {
		if err := gateway.End(); err != nil {
			t.Error(err)
		}
	})
	type story struct {
		c     client
		s     *harness.Session
		m     *harness.Model
		agent *harness.Process
		id    string
	}
	back := make(chan struct{})
	var stories []*story
	for _, c := range clients() {
		y := &story{c: c, s: gateway.Session(t, nil)}
		y.m = harness.NewModel(t, c.dialect,
			c.calls("demo_write", args{"text": c.name}),
			func(*harness.Turn) harness.Reply {
				<-back
				return harness.Reply{Tool: c.prefix + "invocation_wait", Args: args{"invocation_id": y.id}}
			},
			harness.Say("Done."),
		)
		y.agent = c.run(y.s, y.m)
		stories = append(stories, y)
	}
	for _, y := range stories {
		y.id = y.s.Held()
	}
	// Claude Code first answers a question: the link that it was asked to open.
	harness.Await(t, "all to wait", func() bool { return waiting(t, gateway) == len(stories) })
	time.Sleep(300 * time.Millisecond)
	harness.Await(t, "all to wait", func() bool { return waiting(t, gateway) == len(stories) })
	err := gateway.Stop()
	if err == nil {
		err = gateway.Start()
	}
	close(back)
	if err != nil {
		t.Fatal(err)
	}
	for _, y := range stories {
		y.s.Approve(y.id)
		y.agent.Succeeds()
		y.m.Sees(1, "The gateway is restarting.", "PENDING", "nothing has run", "/invocations/"+y.id, "Do not repeat", "invocation_wait")
		y.m.Sees(2, "wrote "+y.c.name)
		if n := gateway.Demo.Did("wrote " + y.c.name); n != 1 {
			t.Errorf("the write had %d effects", n)
		}
	}
}

// TestTask has the interactive Claude Code, which gets a task in place of a
// call that stays open.
func TestTask(t *testing.T) {
	t.Parallel()
	s := shared.Session(t, nil)
	c := clients()[0]
	m := harness.NewModel(t, c.dialect,
		c.calls("demo_write", args{"text": "a task"}),
		harness.Say("A person decides."),
		harness.Say("It is written."),
	)
	claudeCode(t, s, m).StartInTerminal("--allowedTools", "mcp__sallyport", "--", "Write it down.")
	id := s.Held()
	harness.Await(t, "the model to go on", func() bool { return m.Asked() == 2 })
	m.Sees(1, "PENDING", "needs a person's approval; nothing has run", "/invocations/"+id, "Do not repeat the call")
	s.Approve(id)
	harness.Await(t, "the model to be told the result", func() bool { return m.Asked() == 3 })
	if said := m.Turn(2).User; !strings.Contains(said, "wrote a task") {
		t.Errorf("the model was not given the result, but:\n%s", said)
	}
}

// waiting is how many calls wait for a decision with a caller that listens.
func waiting(t *testing.T, gateway *harness.Setup) (n int) {
	t.Helper()
	response, err := http.Get(gateway.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, value, ok := strings.Cut(string(raw), "\nsallyport_waiting_calls ")
	if !ok {
		t.Fatalf("no sallyport_waiting_calls among the metrics:\n%s", raw)
	}
	if _, err := fmt.Sscan(value, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
