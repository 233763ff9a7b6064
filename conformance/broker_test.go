package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// These are the go/no-go checks of the access broker, one test each, against
// the program as a group's agent and an admin meet it.

// broker is a stage whose agent belongs to a group that has nothing yet.
type broker struct{ *stage }

func newBroker(t *testing.T, args ...string) broker {
	t.Helper()
	s := newStage(t, args...)
	return broker{s}.member(map[string]any{"group": "developer", "task": "T-1"})
}

// member puts an agent of the group on the stage.
func (b broker) member(session map[string]any) broker {
	b.t.Helper()
	b.session = b.mint(session)
	b.agent = newAgent(b.t, b.MCPURL, b.session.Token)
	return b
}

func (b broker) capable(body map[string]any) {
	b.t.Helper()
	b.must("PUT", "/api/v1/capabilities/developer/up", body, nil)
}

// denied makes a call that must be denied, and returns its row.
func (b broker) denied(tool, arguments, why string) invocation {
	b.t.Helper()
	got := b.agent.start(b.t, "up_"+tool, arguments).wait()
	if !got.Result.IsError || !strings.Contains(got.text(), why) {
		b.t.Errorf("%s %s: the agent was told %q, want %q in it", tool, arguments, got.text(), why)
	}
	inv := b.invocations("limit=1")[0]
	if inv.Status != "denied" || inv.DeniedReason != "policy" || inv.Action != tool || !strings.Contains(inv.DeniedNote, why) {
		b.t.Errorf("the row says %s %s (%s): %q", inv.Action, inv.Status, inv.DeniedReason, inv.DeniedNote)
	}
	b.effects((&toolCall{}).of(tool, arguments).effect(), 0)
	return inv
}

// of fills in the call.
func (c *toolCall) of(tool, arguments string) *toolCall {
	c.Params.Name, c.Params.Arguments = tool, json.RawMessage(arguments)
	return c
}

func (b broker) runs(tool, arguments string) {
	b.t.Helper()
	got := b.agent.start(b.t, "up_"+tool, arguments).wait()
	if effect := (&toolCall{}).of(tool, arguments).effect(); !got.did(effect) {
		b.t.Errorf("%s: %s", effect, got.Raw)
	}
}

func TestBrokerFailsClosed(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for i, tool := range []string{"read", "write", "destroy", "fail"} {
		b.denied(tool, fmt.Sprintf(`{"n":%d}`, i), "group 'developer' has no capability at upstream up")
	}
	b.mode("*", "allow") // no allow raises a ceiling
	b.denied("read", `{"n":9}`, "no capability")
	b.capable(map[string]any{"level": 1})
	b.runs("read", `{"n":10}`)
	b.must("DELETE", "/api/v1/capabilities/developer/up", nil, nil)
	b.denied("read", `{"n":11}`, "no capability")
}

func TestBrokerReadersDoNotWrite(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.capable(map[string]any{"level": "read"})
	b.runs("read", `{"n":1}`)
	b.denied("write", `{"n":1}`, "group 'developer' has level 1 (read) at upstream up, write needs level 2")
	b.denied("destroy", `{"n":1}`, "destroy needs level 3")
	if tools, err := b.agent.list(t.Context()); err != nil || strings.Contains(strings.Join(tools, " "), "up_write") {
		t.Errorf("a reader is shown %v (%v)", tools, err)
	}
}

func TestBrokerProductionNeedsItsGate(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.capable(map[string]any{"level": 3, "required_gate": "Security"})
	gate := func(group, task, name string, actions ...string) (id string) {
		t.Helper()
		var made struct {
			ID string `json:"id"`
		}
		body := map[string]any{"gate": name, "group": group, "task": task}
		if actions != nil {
			body["actions"] = actions
		}
		b.must("POST", "/api/v1/gates", body, &made)
		return made.ID
	}
	b.denied("destroy", `{"n":1}`, "Security")
	gate("developer", "T-2", "Security")
	gate("ops", "T-1", "Security")
	gate("developer", "T-1", "Legal")
	gate("developer", "T-1", "Security", "up:write")
	b.denied("destroy", `{"n":2}`, "Security")
	id := gate("developer", "T-1", "Security", "up:destroy")
	b.runs("destroy", `{"n":3}`)
	taskless := b.member(map[string]any{"group": "developer"})
	taskless.denied("destroy", `{"n":4}`, "task")
	b.must("DELETE", "/api/v1/gates/"+id, nil, nil)
	b.denied("destroy", `{"n":5}`, "Security")
}

func TestBrokerEvidenceOfEveryCall(t *testing.T) {
	t.Parallel()
	b := newBroker(t, "--seal-every", "50ms")
	b.capable(map[string]any{"level": 1})
	b.denied("write", `{"n":1}`, "level 1")
	b.runs("read", `{"n":2}`)
	b.agent.start(t, "up_fail", `{"n":3}`).wait()
	rows := b.every("")
	if len(rows) != 3 {
		t.Fatalf("%d rows for three calls", len(rows))
	}
	for _, row := range rows {
		if row.ParamsHash == "" || row.Summary == "" || len(row.Decision) == 0 || row.Status == "completed" && (row.Executor == "" || row.ResultSummary == "") {
			t.Errorf("a row lacks evidence: %+v", row)
		}
	}
	var report struct {
		OK       bool  `json:"ok"`
		Checked  int64 `json:"checked"`
		Unsealed int64 `json:"unsealed"`
	}
	await(t, "the seals", func() bool {
		b.must("POST", "/api/v1/audit/verify", nil, &report)
		return report.Unsealed == 0
	})
	if !report.OK || report.Checked < 3 {
		t.Errorf("the chain: %+v", report)
	}
}

func TestBrokerHashesInsteadOfParams(t *testing.T) {
	t.Parallel()
	b := newBroker(t, "--log-level", "debug")
	b.capable(map[string]any{"level": 2})
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	got := b.agent.start(t, "up_write", `{"n":1,"text":"`+secret+`"}`).wait()
	if !got.did("write 1") {
		t.Fatalf("%s", got.Raw)
	}
	row := b.only("status=completed")
	if len(row.ParamsHash) != 64 || strings.Contains(string(row.Params)+row.Summary, secret) {
		t.Errorf("the row shows %s, %q", row.Params, row.Summary)
	}
	b.stop()
	if bytes.Contains(b.logged(), []byte(secret)) {
		t.Error("the log has it")
	}
}

func TestBrokerAgentsHoldNoSecret(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	const secret = "held-by-the-gateway-0a1b2c3d"
	at, err := url.Parse(b.upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.must("PUT", "/api/v1/secrets/upstream", map[string]any{"host": at.Host, "value": secret}, nil)
	b.must("PATCH", "/api/v1/connectors/up", map[string]any{"secret": "upstream"}, nil)
	b.capable(map[string]any{"level": 1})
	var sent string
	b.upstream.misbehave(func(w http.ResponseWriter, r *http.Request, c *toolCall) bool {
		sent = r.Header.Get("Authorization")
		respond(w, c, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, "you sent "+sent))
		return true
	})
	got := b.agent.start(t, "up_read", `{"n":1}`).wait()
	if !strings.Contains(sent, secret) || strings.Contains(string(got.Raw), secret) || !strings.Contains(got.text(), "you sent") {
		t.Errorf("the upstream got %q and the agent %s", sent, got.Raw)
	}
	mine := b.as(b.session.Token)
	for _, path := range []string{"/api/v1/secrets", "/api/v1/connectors", "/api/v1/capabilities", "/api/v1/audit/export"} {
		if r := mine.do("GET", path, nil); r.Status != http.StatusForbidden {
			t.Errorf("an agent reads %s: %d", path, r.Status)
		}
	}
}

func TestBrokerGrantsAreIdempotent(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	body := map[string]any{"level": 2, "denied_actions": []string{"destroy"}, "rate": map[string]any{"calls": 5, "seconds": 60}}
	for range 3 {
		b.capable(body)
	}
	var log struct {
		Total int `json:"total"`
	}
	b.must("GET", "/api/v1/policy/events?kind=capability", nil, &log)
	var all struct {
		Items []json.RawMessage `json:"items"`
	}
	b.must("GET", "/api/v1/capabilities", nil, &all)
	if log.Total != 1 || len(all.Items) != 1 {
		t.Errorf("the same three times made %d capabilities and %d changes", len(all.Items), log.Total)
	}
	b.must("DELETE", "/api/v1/capabilities/developer/up", nil, nil)
	b.capable(body)
	b.must("GET", "/api/v1/policy/events?kind=capability", nil, &log)
	if log.Total != 3 {
		t.Errorf("given, taken, given again: %d changes", log.Total)
	}
}

// What is kept for a caller to fetch is gone after its time, and what a person
// had to see is gone with the end of the call.
func TestBrokerResponsesAreCleanedUp(t *testing.T) {
	t.Parallel()
	b := newBroker(t, "--pickup", "1s", "--sweep-every", "20ms")
	b.capable(map[string]any{"level": 2})
	b.mode("up:write", "require_approval")
	call := b.agent.start(t, "up_write", `{"n":1}`)
	held := b.held()
	b.approve(held.ID)
	if got := call.wait(); !got.did("write 1") {
		t.Fatalf("%s", got.Raw)
	}
	path := "/api/v1/sessions/" + b.session.ID + "/actions/invocations/" + held.ID + "/result"
	await(t, "the result to be gone", func() bool {
		var out struct {
			Result json.RawMessage `json:"result"`
		}
		b.must("GET", path, nil, &out)
		return out.Result == nil
	})
	var full struct {
		Full bool `json:"full"`
	}
	if b.must("GET", "/api/v1/invocations/"+held.ID+"/params", nil, &full); full.Full {
		t.Error("the full params outlive the call")
	}
}

func TestBrokerSlowProviderIsATimeout(t *testing.T) {
	t.Parallel()
	b := newBroker(t, "--call-timeout", "300ms")
	b.capable(map[string]any{"level": 2})
	release := make(chan struct{})
	defer close(release)
	b.upstream.misbehave(func(_ http.ResponseWriter, r *http.Request, c *toolCall) bool {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	})
	begun := time.Now()
	if got := b.agent.start(t, "up_read", `{"n":1}`).wait(); !got.Result.IsError || !strings.Contains(got.text(), "did not answer in time") {
		t.Errorf("after %s the agent was told %s", time.Since(begun), got.Raw)
	}
	b.agent.start(t, "up_write", `{"n":2}`).wait()
	for action, code := range map[string]string{"read": "upstream_unavailable", "write": "outcome_unknown"} {
		if row := b.only("action=" + action); row.Status != "failed" || row.code() != code {
			t.Errorf("%s is %s (%s)", action, row.Status, row.code())
		}
	}
}

func TestBrokerDeniedActions(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.capable(map[string]any{"level": 3, "required_gate": "Security", "denied_actions": []string{"write"}})
	b.denied("write", `{"n":1}`, "write")
	b.runs("read", `{"n":1}`)
	b.capable(map[string]any{"level": 2, "allowed_actions": []string{"write"}})
	b.denied("read", `{"n":2}`, "read")
	b.runs("write", `{"n":2}`)
	b.capable(map[string]any{"level": 2, "allowed_actions": []string{"write"}, "denied_actions": []string{"write"}})
	b.denied("write", `{"n":3}`, "write")
}

// The snapshot is what is so now, as the API and as an agent's resource.
func TestBrokerSnapshotIsAccurate(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	type snapshot struct {
		Group        string `json:"group"`
		Capabilities []struct {
			Provider string `json:"provider"`
			Level    int    `json:"level"`
			Actions  []struct {
				Action string `json:"action"`
				Level  int    `json:"level"`
				Denied bool   `json:"denied"`
				Reason string `json:"reason"`
			} `json:"actions"`
		} `json:"capabilities"`
	}
	for level, want := range []map[string]bool{
		{"read": true, "fail": true, "write": true, "destroy": true},
		{"read": false, "fail": false, "write": true, "destroy": true},
		{"read": false, "fail": false, "write": false, "destroy": true},
	} {
		b.capable(map[string]any{"level": level})
		var group, mine, own snapshot
		b.must("GET", "/api/v1/capabilities/developer", nil, &group)
		b.as(b.session.Token).must("GET", "/api/v1/sessions/"+b.session.ID+"/actions/capabilities", nil, &mine)
		if err := json.Unmarshal(b.agent.resource(t, "sallyport://capabilities"), &own); err != nil {
			t.Fatal(err)
		}
		for where, s := range map[string]snapshot{"the API": group, "the session's": mine, "the resource": own} {
			if len(s.Capabilities) > 0 && s.Capabilities[0].Provider == "platform" { // the gateway's own tools
				s.Capabilities = s.Capabilities[1:]
			}
			if s.Group != "developer" || len(s.Capabilities) != 1 || s.Capabilities[0].Provider != b.source || s.Capabilities[0].Level != level {
				t.Errorf("level %d, %s: %+v", level, where, s)
				continue
			}
			got := map[string]bool{}
			for _, a := range s.Capabilities[0].Actions {
				if got[a.Action] = a.Denied; a.Denied && a.Reason == "" {
					t.Errorf("level %d, %s: %s is denied without a reason", level, where, a.Action)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("level %d, %s: denied are %v, want %v", level, where, got, want)
			}
		}
	}
}

// resource reads a resource as an agent does.
func (a *agent) resource(t *testing.T, uri string) []byte {
	t.Helper()
	response, err := a.post(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":%q}}`, a.ids.Add(1), uri))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := read(response, nil)
	if err != nil || got.Error != nil {
		t.Fatal(err, got.Error)
	}
	var body struct {
		Contents []struct {
			Text string `json:"text"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(got.Raw, &body); err != nil || len(body.Contents) != 1 {
		t.Fatalf("%v: %s", err, got.Raw)
	}
	return []byte(body.Contents[0].Text)
}
