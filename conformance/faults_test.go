package conformance_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// stage is a gateway with an upstream behind it and an agent before it.
type stage struct {
	*gateway
	upstream *upstream
	source   string
	session  session
	agent    *agent
}

func newStage(t *testing.T, args ...string) *stage {
	t.Helper()
	s := &stage{gateway: startGateway(t, args...), upstream: startUpstream(t)}
	s.source = s.connector("up", s.upstream.URL)
	s.session = s.mint(nil)
	s.agent = newAgent(t, s.MCPURL, s.session.Token)
	return s
}

// another returns an agent of the same session, as one that was restarted.
func (s *stage) another() *agent {
	s.t.Helper()
	return newAgent(s.t, s.MCPURL, s.session.Token)
}

// effects checks how often something happened.
func (s *stage) effects(effect string, want int) {
	s.t.Helper()
	if got := s.upstream.count(effect); got != want {
		s.t.Errorf("%q happened %d times, not %d", effect, got, want)
	}
}

// A power cut while a call is held costs the caller his answer, not his
// place: he asks again and gets the result of the one execution.
func TestKilledWhileHeld(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lost := s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	s.kill()
	<-lost.done
	s.start()

	if again := s.held(); again.ID != held.ID {
		t.Fatalf("after the restart %s is held, not %s", again.ID, held.ID)
	}
	s.approve(held.ID)
	got := s.another().start(t, "up_write", `{"n":1}`).wait()
	if got.Result.IsError || !strings.Contains(got.text(), "did write 1") {
		t.Errorf("the retry was answered with %+v", got)
	}
	s.effects("write 1", 1)
	if i := s.only(""); i.ID != held.ID || i.Status != "completed" {
		t.Errorf("the row is %+v", i)
	}
}

// The same, but the caller is back before the approval.
func TestKilledWhileHeldRetriedFirst(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lost := s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	s.kill()
	<-lost.done
	s.start()

	retry := s.another().start(t, "up_write", `{"n":1}`)
	s.approve(held.ID)
	if got := retry.wait(); got.Result.IsError || !strings.Contains(got.text(), "did write 1") {
		t.Errorf("the retry was answered with %+v", got)
	}
	s.effects("write 1", 1)
	if i := s.only(""); i.ID != held.ID || i.Status != "completed" {
		t.Errorf("the row is %+v", i)
	}
}

// Killed while executing, nobody knows whether the write happened. That is
// what the row says, and what whoever asks is told; nothing runs again.
func TestKilledWhileExecuting(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	begun, release := s.upstream.block("write")
	defer release()
	lost := s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	s.approve(held.ID)
	<-begun
	s.diesExecuting(lost, release)
}

// The same for a write that needed no approval.
func TestKilledWhileExecutingAllowed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mode(s.source+":write", "allow")
	begun, release := s.upstream.block("write")
	defer release()
	lost := s.agent.start(t, "up_write", `{"n":1}`)
	<-begun
	s.diesExecuting(lost, release)
}

// diesExecuting kills the gateway while its only call executes, and checks
// what is said and done of that call afterwards.
func (s *stage) diesExecuting(lost *calling, release func()) {
	s.t.Helper()
	s.kill()
	<-lost.done
	release()
	s.start()

	if i := s.ends(s.only("").ID, "failed"); i.code() != "outcome_unknown" {
		s.t.Errorf("the row is %+v", i)
	}
	got := s.another().start(s.t, "up_write", `{"n":1}`).wait()
	if !got.Result.IsError || !strings.Contains(got.text(), "unknown") {
		s.t.Errorf("the retry was answered with %+v", got)
	}
	s.effects("write 1", 1)
}

// Two hundred identical calls at once are one question to the approver.
func TestIdenticalCallsAreOne(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	agents := []*agent{s.agent, s.another(), s.another(), s.another()}
	var calls []*calling
	for i := range 200 {
		// The order of keys and blanks between them make no difference.
		arguments := `{"n":1,"text":"same"}`
		if i%2 == 1 {
			arguments = `{ "text": "same", "n": 1 }`
		}
		calls = append(calls, agents[i%len(agents)].start(t, "up_write", arguments))
	}
	held := s.held()
	for _, call := range calls {
		call.holds() // who comes once it was answered begins another
	}
	s.approve(held.ID)
	for _, call := range calls {
		if got := call.wait(); got.Result.IsError || !strings.Contains(got.text(), "did write 1") {
			t.Fatalf("a caller was answered with %+v, error %+v", got, got.Error)
		}
	}
	s.effects("write 1", 1)
	if i := s.only(""); i.Status != "completed" {
		t.Errorf("the row is %+v", i)
	}
}

// A flood of different writes stops at ten that wait.
func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	refused := make(chan answer, 64)
	for n := range 64 {
		a := s.agent
		if n%2 == 1 {
			a = newAgent(t, s.MCPURL, s.session.Token)
		}
		call := a.start(t, "up_write", fmt.Sprintf(`{"n":%d}`, n))
		go func() {
			<-call.done
			if call.err == nil {
				refused <- call.got
			}
		}()
	}
	for range 54 {
		select {
		case got := <-refused:
			if !got.Result.IsError && got.Error == nil {
				t.Errorf("a call over the limit was answered with %+v", got)
			}
		case <-time.After(patience):
			t.Fatalf("%d calls are held", len(s.invocations("status=pending")))
		}
	}
	if held := s.invocations("status=pending"); len(held) != 10 {
		t.Errorf("%d calls are held, not 10", len(held))
	}
	if n := s.upstream.total(); n != 0 {
		t.Errorf("%d writes happened without an approval", n)
	}
}

// Whatever is wrong with an upstream, the agent hears that it failed, a row
// says how, and a write that may have happened is said to be unknown.
func TestBrokenUpstream(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		call  func(w http.ResponseWriter, r *http.Request, c *toolCall) bool
		fault string // of the rows
		write string // code of the row of the write; empty: outcome_unknown
	}{
		"garbage": {func(w http.ResponseWriter, _ *http.Request, _ *toolCall) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":`)
			return true
		}, "upstream_protocol", ""},
		"a page": {func(w http.ResponseWriter, _ *http.Request, _ *toolCall) bool {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<html>Welcome to nginx!</html>`)
			return true
		}, "upstream_protocol", ""},
		"nothing": {func(w http.ResponseWriter, _ *http.Request, _ *toolCall) bool {
			w.Header().Set("Content-Type", "text/event-stream")
			return true
		}, "upstream_protocol", ""},
		"an answer to another request": {func(w http.ResponseWriter, _ *http.Request, _ *toolCall) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":"stale","result":{"content":[{"type":"text","text":"stale"}]}}`)
			return true
		}, "upstream_protocol", ""},
		"over 16 MiB": {func(w http.ResponseWriter, _ *http.Request, c *toolCall) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, c.ID)
			for range 17 {
				if _, err := fmt.Fprint(w, huge); err != nil {
					return true
				}
			}
			fmt.Fprint(w, `"}]}}`)
			return true
		}, "upstream_too_large", ""},
		"an error of its server": {func(w http.ResponseWriter, _ *http.Request, _ *toolCall) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}, "upstream_failed", ""},
		"a reset connection": {func(http.ResponseWriter, *http.Request, *toolCall) bool {
			panic(http.ErrAbortHandler)
		}, "upstream_protocol", ""},
		"silence": {func(_ http.ResponseWriter, r *http.Request, _ *toolCall) bool {
			<-r.Context().Done()
			return true
		}, "upstream_timeout", ""},
		"a refused credential": {status(http.StatusUnauthorized), "upstream_auth", "upstream_unavailable"},
		"a rate limit":         {status(http.StatusTooManyRequests), "upstream_rate_limited", "upstream_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := "1m" // reading 17 MiB takes a busy machine seconds
			if c.fault == "upstream_timeout" {
				timeout = "2s"
			}
			s := newStage(t, "--call-timeout", timeout)
			s.mode(s.source+":write", "allow")
			s.upstream.misbehave(c.call)
			for tool, code := range map[string]string{"read": "upstream_unavailable", "write": cmp.Or(c.write, "outcome_unknown")} {
				got := s.agent.start(t, "up_"+tool, `{"n":1}`).wait()
				if !got.Result.IsError {
					t.Errorf("%s was answered with %.300s", tool, got.Raw)
				}
				if len(got.Raw) > 64<<10 {
					t.Errorf("%s was answered with %d bytes", tool, len(got.Raw))
				}
				if i := s.only("action=" + tool); i.Status != "failed" || i.code() != code || i.Error.Fault != c.fault {
					t.Errorf("the row of %s is %+v, error %+v", tool, i, i.Error)
				}
			}
			s.upstream.misbehave(nil) // and it works again, without help
			if got := s.agent.start(t, "up_read", `{"n":2}`).wait(); got.Result.IsError {
				t.Errorf("once the upstream is well, a read is answered with %+v", got)
			}
		})
	}
}

// status returns the misbehaviour of an upstream that answers calls with a status alone.
func status(code int) func(http.ResponseWriter, *http.Request, *toolCall) bool {
	return func(w http.ResponseWriter, _ *http.Request, _ *toolCall) bool {
		w.WriteHeader(code)
		return true
	}
}

// An upstream that is down is said to be; nothing was executed, and its tools
// stay listed for when it is back.
func TestUpstreamDown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mode(s.source+":write", "allow")
	if _, err := s.agent.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.upstream.Close()
	for _, tool := range []string{"read", "write"} {
		got := s.agent.start(t, "up_"+tool, `{"n":1}`).wait()
		if !got.Result.IsError {
			t.Errorf("%s was answered with %+v", tool, got)
		}
		if i := s.only("action=" + tool); i.Status != "failed" || i.code() != "upstream_unavailable" {
			t.Errorf("the row of %s is %+v, error %+v", tool, i, i.Error)
		}
	}
	names, err := s.agent.list(t.Context())
	if err != nil || !strings.Contains(strings.Join(names, " "), "up_read") {
		t.Errorf("the tools are %v, %v", names, err)
	}
}

// A connector that was never reached is an error to see, not a source that is
// missing.
func TestUpstreamNeverUp(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	var dead net.ListenConfig
	listener, err := dead.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := "http://" + listener.Addr().String() + "/mcp"
	listener.Close()
	g.connector("dead", at)
	if _, err := newAgent(t, g.MCPURL, g.mint(nil).Token).list(t.Context()); err != nil {
		t.Errorf("the agent cannot list the other tools: %v", err)
	}
	g.await("the connector to show its error", func() bool {
		var list struct {
			Items []struct {
				Error string `json:"error"`
			} `json:"items"`
		}
		g.must("GET", "/api/v1/connectors", nil, &list)
		return len(list.Items) == 1 && list.Items[0].Error != ""
	})
}

// A caller that vanishes in the middle of a hold leaves a call that nobody
// waits for: after a while it is withdrawn, and nothing ran.
func TestCallerGoneMidHold(t *testing.T) {
	t.Parallel()
	s := newStage(t, "--abandon-after", "2s", "--seen-every", "500ms")
	call := s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	call.cancel()
	if i := s.ends(held.ID, "denied"); i.DeniedReason != "withdrawn" {
		t.Errorf("the row is %+v", i)
	}
	s.effects("write 1", 0)
}

// As long as the caller waits, silence of others withdraws nothing.
func TestCallerStays(t *testing.T) {
	t.Parallel()
	s := newStage(t, "--abandon-after", "2s", "--seen-every", "500ms")
	call := s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	time.Sleep(4 * time.Second)
	s.approve(held.ID)
	if got := call.wait(); got.Result.IsError {
		t.Errorf("the caller was answered with %+v", got)
	}
	s.effects("write 1", 1)
}

// A caller that says he does not want it any more is believed at once; one
// that only ran out of time is not.
func TestCancelled(t *testing.T) {
	t.Parallel()
	s := newStage(t, "--abandon-after", "1h")
	s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	if err := s.agent.cancel(t.Context(), "AbortError: The operation was aborted."); err != nil {
		t.Fatal(err)
	}
	if i := s.ends(held.ID, "denied"); i.DeniedReason != "withdrawn" {
		t.Errorf("the row is %+v", i)
	}

	s.agent.start(t, "up_write", `{"n":2}`)
	held = s.held()
	if err := s.agent.cancel(t.Context(), "McpError: MCP error -32001: Request timed out"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	s.approve(held.ID)
	s.ends(held.ID, "completed")
	got := s.another().start(t, "up_write", `{"n":2}`).wait()
	if got.Result.IsError || !strings.Contains(got.text(), "did write 2") {
		t.Errorf("the retry was answered with %+v", got)
	}
	s.effects("write 1", 0)
	s.effects("write 2", 1)
}

// What was approved runs to its end, whether or not somebody waits for it;
// whoever asks again gets that result.
func TestCallerGoneAfterApproval(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	begun, release := s.upstream.block("write")
	call := s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	s.approve(held.ID)
	<-begun
	call.cancel()
	<-call.done
	release()
	s.ends(held.ID, "completed")
	got := s.another().start(t, "up_write", `{"n":1}`).wait()
	if got.Result.IsError || !strings.Contains(got.text(), "did write 1") {
		t.Errorf("the retry was answered with %+v", got)
	}
	s.effects("write 1", 1)
}

// A write that outlives its timeout is unknown, never "failed, so try again",
// and what the upstream says later changes nothing of that.
func TestExecutionOutlivesItsTimeout(t *testing.T) {
	t.Parallel()
	s := newStage(t, "--call-timeout", "1s")
	s.mode(s.source+":write", "allow")
	answered := make(chan struct{})
	s.upstream.misbehave(func(w http.ResponseWriter, _ *http.Request, c *toolCall) bool {
		defer close(answered)
		time.Sleep(3 * time.Second) // deaf to a caller that hung up
		s.upstream.did(c)
		respond(w, c, resultOf(c))
		return true
	})
	got := s.agent.start(t, "up_write", `{"n":1}`).wait()
	if !got.Result.IsError || !strings.Contains(got.text(), "unknown") {
		t.Errorf("the caller was answered with %q", got.text())
	}
	for _, lie := range []string{"may try again", "nothing was", "please retry"} {
		if strings.Contains(strings.ToLower(got.text()), lie) {
			t.Errorf("the caller is invited to repeat a write that may have happened: %q", got.text())
		}
	}
	select {
	case <-answered:
	case <-time.After(patience):
		t.Fatal("the call never reached the upstream")
	}
	if i := s.only(""); i.Status != "failed" || i.code() != "outcome_unknown" {
		t.Errorf("the row is %+v", i)
	}
	s.effects("write 1", 1)
}

// On a polite shutdown whoever waits is answered before the door closes.
func TestShutdownAnswersWaiters(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	call := s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	s.stop()
	got := call.wait()
	if !strings.Contains(got.text(), held.ID) {
		t.Errorf("the waiting caller was answered with %q, which does not name %s", got.text(), held.ID)
	}
	s.start()
	s.approve(held.ID)
	again := s.another().start(t, "up_write", `{"n":1}`).wait()
	if again.Result.IsError || !strings.Contains(again.text(), "did write 1") {
		t.Errorf("after the restart the retry was answered with %+v", again)
	}
	s.effects("write 1", 1)
}

// Who decided is read from the credential, and what he read has every digit.
func TestDecisionIsTheLogins(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const arguments = `{"n":12345678901234567890,"text":"1.10"}`
	call := s.agent.start(t, "up_write", arguments)
	held := s.held()
	var full struct {
		Params any `json:"params"`
	}
	raw := s.do("GET", "/api/v1/invocations/"+held.ID+"/params", nil)
	if !strings.Contains(string(raw.Body), "12345678901234567890") {
		t.Errorf("the approver reads %s (%v)", raw.Body, full)
	}
	forged := s.do("POST", "/api/v1/invocations/"+held.ID+"/approve", map[string]any{"approved_by": "somebody else", "by": "somebody else"})
	if forged.Status < 400 {
		if i := s.invocation(held.ID); strings.Contains(i.ApprovedBy, "somebody else") {
			t.Errorf("the body said who approved: %+v", i)
		}
	} else {
		s.approve(held.ID)
	}
	got := call.wait()
	if !strings.Contains(string(got.Result.Structured), "12345678901234567890") {
		t.Errorf("the upstream received %s", got.Result.Structured)
	}
	var me struct {
		User string `json:"user_id"`
	}
	s.must("GET", "/api/v1/me", nil, &me)
	if i := s.invocation(held.ID); i.ApprovedBy != me.User {
		t.Errorf("approved by %q, but the key is of %q", i.ApprovedBy, me.User)
	}
}

// A caller without a progress token is told after a while that its call
// waits, and the wait tool brings the result.
func TestPendingNotice(t *testing.T) {
	t.Parallel()
	s := newStage(t, "--pending-after", "1s")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	response, err := s.agent.post(ctx, `{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"up_write","arguments":{"n":1}}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := read(response, nil)
	if err != nil {
		t.Fatal(err)
	}
	held := s.held()
	if !strings.Contains(got.text(), held.ID) || !strings.Contains(got.text(), s.URL) {
		t.Errorf("the notice lacks the id or the link: %q", got.text())
	}
	s.approve(held.ID)
	got = s.agent.start(t, "invocation_wait", fmt.Sprintf(`{"invocation_id":%q}`, held.ID)).wait()
	if got.Result.IsError || !strings.Contains(got.text(), "did write 1") {
		t.Errorf("invocation_wait was answered with %+v", got)
	}
	s.effects("write 1", 1)
}
