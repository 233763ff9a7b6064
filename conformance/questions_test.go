package conformance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// asking adds the reference server as a connector that may ask the agents, and
// returns its source.
func (a *api) asking(slug, at, may string) string {
	a.t.Helper()
	source := a.connector(slug, at, func(body map[string]any) { body["may_ask"] = json.RawMessage(may) })
	a.mode(source+":*", "allow")
	return source
}

// testQuestions has a server ask the caller of a call, whose reply goes to
// another instance than the one that executes.
func testQuestions(t *testing.T, c *cluster) {
	for _, upstreamEra := range []string{olderEra, newerEra} {
		tool, arguments := "test_elicitation", `{"message":"Who are you?"}`
		if upstreamEra == newerEra {
			tool, arguments = "test_input_required_result_elicitation", `{}`
		}
		slug := "ask-" + upstreamEra[:4]
		source := c.gateways[0].asking(slug, startReference(t, upstreamEra == newerEra), mayAsk)
		for _, era := range []string{olderEra, newerEra} {
			t.Run(fmt.Sprintf("a server of %s, a client of %s", upstreamEra, era), func(t *testing.T) {
				b := startBalancer(t, c.gateways, c.gateways[0].mint(nil).Token)
				b.pin("tools/call", 0)
				b.pin(http.MethodPost, 2) // the replies of the older era
				w := newWire(t, b.URL+"/mcp", "", era, allOfIt)
				w.before = func(wireMessage) { b.pin("tools/call", 1) } // the repetitions of the newer
				got := w.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, slug+"_"+tool, arguments))
				if len(got.Asked) != 1 || got.Asked[0].Method != "elicitation/create" || !strings.Contains(string(got.Asked[0].Params), "upstream "+slug) {
					t.Errorf("the client was asked %v", got.Asked)
				}
				if got.Error != nil || !strings.Contains(string(got.Result), "Ada") {
					t.Errorf("the call came to %s, %+v", got.Result, got.Error)
				}
				replies := b.spread(http.MethodPost)[2]
				if era == newerEra {
					replies = b.spread("tools/call")[1]
				}
				if replies != 1 {
					t.Errorf("%d replies went to another replica", replies)
				}
				rows := c.gateways[1].invocations("source=" + source)
				if len(rows) == 0 || rows[0].Status != "completed" {
					t.Errorf("the rows are %+v", rows)
				}
			})
		}
	}
	t.Run("held, approved, and asked", func(t *testing.T) { testHeldAndAsked(t, c) })
	t.Run("a task", func(t *testing.T) { testTask(t, c) })
}

// testHeldAndAsked has a call approved on one replica, executed on another and
// asked from there; it is one row and one effect. Its client, which opens pages,
// is asked first to open the one of the approval: that it agrees decides nothing.
func testHeldAndAsked(t *testing.T, c *cluster) {
	g := c.gateways[0]
	source := g.asking("held", startReference(t, false), mayAsk)
	g.mode(source+":test_elicitation", "require_approval")
	for _, era := range []string{olderEra, newerEra} {
		b := startBalancer(t, c.gateways, g.mint(nil).Token)
		b.pin("tools/call", 0)
		w := newWire(t, b.URL+"/mcp", "", era, allOfIt)
		var opened atomic.Bool
		w.before = func(q wireMessage) { opened.Store(opened.Load() || strings.Contains(string(q.Params), `"mode":"url"`)) }
		done := make(chan wireAnswer, 1)
		go func() {
			got, err := w.try(t.Context(), "tools/call", `{"name":"held_test_elicitation","arguments":{"message":"Who?"}}`)
			if err != nil {
				t.Error(err)
			}
			done <- got
		}()
		held := g.held()
		await(t, "the client to agree to open the page", func() bool { return opened.Load() })
		if now := g.held(); now.ID != held.ID {
			t.Errorf("%s: after the client agreed, another call is held: %s", era, now.ID)
		}
		c.gateways[1].approve(held.ID)
		got := <-done
		if len(got.Asked) != 2 || !strings.Contains(string(got.Asked[0].Params), `"url":"`+g.URL+"/") || !strings.Contains(string(got.Asked[0].Params), held.ID) {
			t.Errorf("%s: the page to open came as %v", era, got.Asked)
		}
		if !strings.Contains(string(got.Result), "Ada") {
			t.Errorf("%s: asked %v, it came to %s, %+v", era, got.Asked, got.Result, got.Error)
		}
		g.ends(held.ID, "completed")
	}
	if rows := g.invocations("source=" + source); len(rows) != 2 {
		t.Errorf("two calls have %d rows", len(rows))
	}
}

// testTask has a call held as a task on one replica, approved and asked on others,
// and looked at on all of them, also after one started again.
func testTask(t *testing.T, c *cluster) {
	g := c.gateways[0]
	source := g.asking("task", startReference(t, false), mayAsk)
	g.mode(source+":test_elicitation", "require_approval")
	b := startBalancer(t, c.gateways, g.mint(nil).Token)
	b.pin("tools/call", 0)
	w := newWire(t, b.URL+"/mcp", "", newerEra, `{"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	made := w.request("tools/call", `{"name":"task_test_elicitation","arguments":{"message":"Who?"}}`)
	var task wireTask
	task.read(t, made)
	held := g.held()
	if task.Type != "task" || task.ID != held.ID || task.Status != "working" || !strings.Contains(task.Message, g.URL+"/") || len(made.Asked) != 0 {
		t.Fatalf("the call became %s, and the row is %s", made.Result, held.ID)
	}
	c.gateways[0].stop()
	c.gateways[0].start()
	on := func(replica int, method, more string) (task wireTask) {
		b.pin(method, replica)
		task.read(t, w.request(method, fmt.Sprintf(`{"taskId":%q%s}`, held.ID, more)))
		return task
	}
	if now := on(1, "tasks/get", ""); now.Type != "complete" || now.Status != "working" {
		t.Errorf("after a restart the task is %+v", now)
	}
	c.gateways[1].approve(held.ID)
	var asks wireTask
	await(t, "the task to ask", func() bool {
		asks = on(2, "tasks/get", "")
		return asks.Status == "input_required"
	})
	for key, q := range asks.Questions {
		on(0, "tasks/update", fmt.Sprintf(`,"inputResponses":{%q:%s}`, key, answerTo(q)))
	}
	await(t, "the task to end", func() bool {
		task = on(0, "tasks/get", "")
		return task.Status == "completed"
	})
	if !strings.Contains(string(task.Result), "Ada") || len(asks.Questions) != 1 {
		t.Errorf("asked %v, the task came to %s", asks.Questions, task.Result)
	}
	g.ends(held.ID, "completed")
}

// wireTask is a task as a client sees it.
type wireTask struct {
	Type      string                 `json:"resultType"`
	ID        string                 `json:"taskId"`
	Status    string                 `json:"status"`
	Message   string                 `json:"statusMessage"`
	Questions map[string]wireMessage `json:"inputRequests"`
	Result    json.RawMessage        `json:"result"`
}

func (w *wireTask) read(t *testing.T, got wireAnswer) {
	t.Helper()
	if got.Error != nil || json.Unmarshal(got.Result, w) != nil {
		t.Fatalf("a task came as %s, %+v", got.Result, got.Error)
	}
}

// TestQuestionsWithoutValkey has instances that hear of each other by their
// rows alone.
func TestQuestionsWithoutValkey(t *testing.T) {
	t.Parallel()
	testQuestions(t, newCluster(t, 3, false, "--hold-every", "200ms"))
}

// Who cannot be asked is not, and the server is told at once; what it makes of
// that is its own.
func TestQuestionsNobodyTakes(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	at := startReference(t, false)
	g.asking("may", at, mayAsk)
	g.asking("not", at, `[]`)
	g.asking("form", at, `["elicitation"]`)
	for _, c := range []struct {
		name, tool, can, arguments string
		asked                      bool
	}{
		{"allowed, and the client can", "may_test_elicitation", formOnly, `{"message":"1"}`, true},
		{"allowed, and the client cannot", "may_test_elicitation", nothing, `{"message":"2"}`, false},
		{"nobody allowed it", "not_test_elicitation", allOfIt, `{"message":"3"}`, false},
		{"nobody allowed that kind", "form_test_sampling", allOfIt, `{"prompt":"4"}`, false},
	} {
		for _, era := range []string{olderEra, newerEra} {
			t.Run(c.name+" "+era, func(t *testing.T) {
				w := newWire(t, g.MCPURL, g.mint(nil).Token, era, c.can)
				got := w.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, c.tool, c.arguments))
				if asked := len(got.Asked) > 0; asked != c.asked {
					t.Errorf("the client was asked %v", got.Asked)
				}
				if !c.asked && !strings.Contains(string(got.Result), "failed") {
					t.Errorf("the call came to %s, %+v", got.Result, got.Error)
				}
				var events struct {
					Items []struct {
						Kind string          `json:"kind"`
						Data json.RawMessage `json:"data"`
					} `json:"items"`
				}
				g.must("GET", "/api/v1/invocations/"+g.invocations("")[0].ID+"/events", nil, &events)
				recorded := false
				for _, e := range events.Items {
					recorded = recorded || e.Kind == "asked"
				}
				if recorded != c.asked {
					t.Errorf("what was asked is written down as %+v", events)
				}
			})
		}
	}
}
