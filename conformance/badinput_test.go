package conformance_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Whatever an agent sends, it gets a clear answer, and nothing happens.
func TestBadCalls(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, c := range []struct {
		name   string
		body   string
		status int // zero: 200
		code   int // of JSON-RPC; zero: a tool result that is an error
		says   string
	}{
		{name: "not JSON", body: `{"jsonrpc":`, status: 400},
		{name: "not JSON-RPC", body: `{"hello":"world"}`, status: 400},
		{name: "an unknown method", body: `{"jsonrpc":"2.0","id":1,"method":"tools/destroy"}`, code: -32601},
		{name: "an unknown tool", body: toolsCall(2, "up_nothing", `{}`, ""), code: -32602, says: "up_nothing"},
		{name: "no name", body: `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}`, code: -32602},
		{name: "a missing param", body: toolsCall(4, "up_write", `{}`, ""), says: "n"},
		{name: "a param of the wrong type", body: toolsCall(5, "up_write", `{"n":"one"}`, ""), says: "n"},
		{name: "a param that the schema does not have", body: toolsCall(6, "up_write", `{"n":1,"m":2}`, ""), says: "m"},
		{name: "a key twice", body: toolsCall(7, "up_write", `{"n":1,"n":2}`, ""), says: "n"},
		{name: "params that are no object", body: toolsCall(8, "up_write", `[1]`, "")},
		{name: "a denied tool by name", body: toolsCall(9, "up_destroy", `{"n":1}`, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			response, err := s.agent.post(t.Context(), c.body)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			got, err := read(response, nil)
			if err != nil {
				t.Fatal(err)
			}
			said := got.text()
			if got.Error != nil {
				said = got.Error.Message
			}
			switch {
			case c.status != 0 && got.Status != c.status,
				c.code != 0 && (got.Error == nil || got.Error.Code != c.code),
				c.status == 0 && c.code == 0 && !got.Result.IsError && (got.Error == nil || got.Error.Code != -32602),
				!strings.Contains(said, c.says), said == "":
				t.Errorf("answered with status %d, error %+v, result %s", got.Status, got.Error, got.Raw)
			}
		})
	}
	for _, i := range s.invocations("") {
		if i.Action != "destroy" || i.Status != "denied" {
			t.Errorf("it left %+v", i)
		}
	}
	if n := s.upstream.total(); n != 0 {
		t.Errorf("%d effects happened", n)
	}
}

// A body over the limit is refused on both doors.
func TestBodyTooLarge(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	huge := strings.Repeat("x", 20<<20)
	response, err := s.agent.post(t.Context(), toolsCall(1, "up_write", `{"n":1,"text":"`+huge+`"}`, ""))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("/mcp answered %s", response.Status)
	}
	if r := s.do("POST", "/api/v1/sessions", map[string]any{"title": huge}); r.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("/api/v1/sessions answered %d: %.200s", r.Status, r.Body)
	}
	// What a person would have to read is bounded further.
	got := s.agent.start(t, "up_write", `{"n":1,"text":"`+strings.Repeat("x", 300<<10)+`"}`).wait()
	if !got.Result.IsError && got.Error == nil {
		t.Errorf("params of 300 KiB were answered with %.300s", got.Raw)
	}
	if list := s.invocations("status=pending"); len(list) != 0 {
		t.Errorf("it left %d calls held", len(list))
	}
}

// Without a good token there is nothing to see, and a client is told what is
// missing.
func TestBadTokens(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	good := g.mint(nil)
	revoked := g.mint(nil)
	g.must("DELETE", "/api/v1/sessions/"+revoked.ID, nil, nil)
	short := g.mint(map[string]any{"ttl": "1s"})
	time.Sleep(1100 * time.Millisecond)
	other := startGateway(t) // with keys of its own
	for name, token := range map[string]string{
		"missing":  "",
		"nonsense": "nonsense",
		"forged":   good.Token[:len(good.Token)-4] + "AAAA",
		"foreign":  other.mint(nil).Token,
		"expired":  short.Token,
		"revoked":  revoked.Token,
		"no key":   "spk_nothing",
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{url: g.MCPURL, token: token, http: http.DefaultClient}
			response, err := a.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusUnauthorized || response.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("/mcp answered %s, WWW-Authenticate %q", response.Status, response.Header.Get("WWW-Authenticate"))
			}
			r := g.as(token).do("GET", "/api/v1/me", nil)
			if r.Status != http.StatusUnauthorized || r.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("/api/v1/me answered %d, WWW-Authenticate %q", r.Status, r.Header.Get("WWW-Authenticate"))
			}
		})
	}
	// A token that is good for the API of people is none for agents.
	a := &agent{url: g.MCPURL, token: g.APIKey, http: http.DefaultClient}
	response, err := a.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("/mcp answered an API key with %s", response.Status)
	}
}

// A token that is revoked in the middle of an MCP session ends it.
func TestRevokedWhileConnected(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must("DELETE", "/api/v1/sessions/"+s.session.ID, nil, nil)
	time.Sleep(1100 * time.Millisecond) // a snapshot may be a second old
	response, err := s.agent.post(t.Context(), toolsCall(1, "up_read", `{"n":1}`, ""))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a revoked session was answered %s", response.Status)
	}
	if n := s.upstream.total(); n != 0 {
		t.Errorf("%d effects happened", n)
	}
}

// No credential of an agent, and no member, gets through a door of those who
// decide.
func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	before := s.policyAndConnectors()
	var made struct {
		Key string `json:"key"`
	}
	s.must("POST", "/api/v1/api-keys", map[string]any{"name": "of a member", "role": "member"}, &made)
	doors := []struct {
		method, path string
		body         any
	}{
		{"POST", "/api/v1/invocations/" + held.ID + "/approve", map[string]any{}},
		{"POST", "/api/v1/invocations/" + held.ID + "/deny", map[string]any{}},
		{"POST", "/api/v1/sessions/" + s.session.ID + "/actions/invocations/" + held.ID + "/approve", map[string]any{}},
		{"POST", "/api/v1/sessions/" + s.session.ID + "/actions/invocations/" + held.ID + "/deny", map[string]any{}},
		{"PUT", "/api/v1/policy/modes/" + url.PathEscape("*"), map[string]any{"mode": "allow"}},
		{"DELETE", "/api/v1/policy/modes/" + url.PathEscape("*"), nil},
		{"PUT", "/api/v1/secrets/stolen", map[string]any{"host": "evil.example", "value": "x"}},
		{"DELETE", "/api/v1/secrets/stolen", nil},
		{"POST", "/api/v1/connectors", map[string]any{"name": "evil", "url": "https://evil.example/mcp"}},
		{"PATCH", "/api/v1/connectors/up", map[string]any{"url": "https://evil.example/mcp"}},
		{"DELETE", "/api/v1/connectors/up", nil},
		{"POST", "/api/v1/connectors/up/disable", nil},
		{"POST", "/api/v1/users", map[string]any{"name": "mallory", "role": "owner"}},
		{"POST", "/api/v1/api-keys", map[string]any{"name": "mine", "role": "owner"}},
		{"DELETE", "/api/v1/sessions/" + s.session.ID, nil},
		{"POST", "/api/v1/sessions", map[string]any{"group": "production"}},
	}
	for who, key := range map[string]string{"session": s.session.Token, "member": made.Key} {
		for _, door := range doors {
			r := s.as(key).do(door.method, door.path, door.body)
			if r.Status != http.StatusForbidden || r.problem().Code == "" {
				t.Errorf("%s: %s %s answered %d: %s", who, door.method, door.path, r.Status, r.Body)
			}
		}
	}
	if r := s.as(s.session.Token).do("POST", "/api/v1/sessions", map[string]any{}); r.Status != http.StatusForbidden {
		t.Errorf("a session created a session: %d: %s", r.Status, r.Body)
	}
	if i := s.invocation(held.ID); i.Status != "pending" {
		t.Errorf("the call is %s", i.Status)
	}
	if after := s.policyAndConnectors(); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}

func (s *stage) policyAndConnectors() string {
	s.t.Helper()
	var all []string
	for _, path := range []string{"/api/v1/policy/modes", "/api/v1/secrets", "/api/v1/users"} {
		all = append(all, string(s.do("GET", path, nil).Body))
	}
	var connectors struct {
		Items []struct {
			ID, URL string
			Enabled bool
		}
	}
	s.must("GET", "/api/v1/connectors", nil, &connectors)
	return strings.Join(append(all, fmt.Sprint(connectors)), "\n")
}

// One session sees nothing of another.
func TestForeignSession(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	stranger := s.mint(nil)
	own := "/api/v1/sessions/" + s.session.ID + "/actions/"
	for _, path := range []string{
		own + "available", own + "invocations", own + "invocations/" + held.ID, own + "invocations/" + held.ID + "/result",
		"/api/v1/sessions/" + stranger.ID + "/actions/invocations/" + held.ID,
		"/api/v1/sessions/" + stranger.ID + "/actions/invocations/" + held.ID + "/result",
		"/api/v1/invocations", "/api/v1/invocations/" + held.ID, "/api/v1/sessions", "/api/v1/connectors", "/api/v1/policy/modes",
	} {
		r := s.as(stranger.Token).do("GET", path, nil)
		if r.Status != http.StatusForbidden && r.Status != http.StatusNotFound {
			t.Errorf("GET %s answered %d: %s", path, r.Status, r.Body)
		}
	}
	got := newAgent(t, s.MCPURL, stranger.Token).start(t, "invocation_status", fmt.Sprintf(`{"invocation_id":%q}`, held.ID)).wait()
	if (!got.Result.IsError && got.Error == nil) || strings.Contains(got.text(), "up_write") {
		t.Errorf("invocation_status was answered with %+v", got)
	}
	// Nor does an MCP session id open another's session.
	thief := &agent{url: s.MCPURL, token: stranger.Token, session: s.agent.session, http: http.DefaultClient}
	response, err := thief.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode < 400 {
		t.Errorf("a stolen MCP session was answered %s", response.Status)
	}
}

// Decisions on what is not there, was decided or is over.
func TestBadDecisions(t *testing.T) {
	t.Parallel()
	s := newStage(t, "--hold-interactive", "3s")
	decide := func(id, verb string, status int) {
		t.Helper()
		r := s.do("POST", "/api/v1/invocations/"+id+"/"+verb, map[string]any{})
		if p := r.problem(); r.Status != status || p.Code == "" || p.Detail == "" || p.Status != status {
			t.Errorf("%s %s: answered %d, not %d: %s", verb, id, r.Status, status, r.Body)
		}
	}
	decide("0199a3c4-5d6e-7f80-9123-456789abcdef", "approve", http.StatusNotFound)
	decide("nothing", "deny", http.StatusNotFound)

	call := s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	s.approve(held.ID)
	call.wait()
	decide(held.ID, "approve", http.StatusConflict)
	decide(held.ID, "deny", http.StatusConflict)
	s.effects("write 1", 1)

	call = s.agent.start(t, "up_write", `{"n":2}`)
	held = s.held()
	s.must("POST", "/api/v1/invocations/"+held.ID+"/deny", map[string]any{"reason": "no"}, nil)
	if got := call.wait(); !got.Result.IsError {
		t.Errorf("a denied call was answered with %+v", got)
	}
	decide(held.ID, "approve", http.StatusConflict)
	if got := s.agent.start(t, "up_write", `{"n":2}`).wait(); !got.Result.IsError {
		t.Errorf("a denied call, repeated, was answered with %+v", got)
	}
	if list := append(s.invocations("status=pending"), s.invocations("status=expired")...); len(list) != 0 {
		t.Errorf("a denied call was asked again: %+v", list)
	}

	call = s.agent.start(t, "up_write", `{"n":3}`)
	held = s.held()
	if got := call.wait(); !got.Result.IsError {
		t.Errorf("an expired call was answered with %+v", got)
	}
	decide(held.ID, "approve", http.StatusGone)
	decide(held.ID, "deny", http.StatusGone)
	s.effects("write 2", 0)
	s.effects("write 3", 0)
}

// What was read is what is approved.
func TestApprovalOfOtherParams(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.start(t, "up_write", `{"n":1}`)
	held := s.held()
	r := s.do("POST", "/api/v1/invocations/"+held.ID+"/approve", map[string]any{"params_hash": "of something else"})
	if r.Status != http.StatusConflict {
		t.Errorf("answered %d: %s", r.Status, r.Body)
	}
	if i := s.invocation(held.ID); i.Status != "pending" {
		t.Errorf("the call is %s", i.Status)
	}
}

// Too many held calls, and calls too fast, are 429 over HTTP and an error
// result over MCP.
func TestTooMany(t *testing.T) {
	t.Parallel()
	s := newStage(t, "--rate-limit", "15")
	me := s.as(s.session.Token)
	invoke := func(action string, n int) reply {
		return me.do("POST", "/api/v1/sessions/"+s.session.ID+"/actions/invoke",
			map[string]any{"source": s.source, "action": action, "params": map[string]any{"n": n}})
	}
	for n := range 10 {
		if r := invoke("write", n); r.Status != http.StatusAccepted {
			t.Fatalf("write %d answered %d: %s", n, r.Status, r.Body)
		}
	}
	if r := invoke("write", 10); r.Status != http.StatusTooManyRequests || r.problem().Code != "too_many_pending" {
		t.Errorf("the eleventh write answered %d: %s", r.Status, r.Body)
	}
	var last reply
	for n := range 10 {
		if last = invoke("read", n); last.Status == http.StatusTooManyRequests {
			break
		}
	}
	if last.Status != http.StatusTooManyRequests || last.problem().Code != "rate_limited" || last.Header.Get("Retry-After") == "" {
		t.Errorf("the last read answered %d, Retry-After %q: %s", last.Status, last.Header.Get("Retry-After"), last.Body)
	}
	got := s.agent.start(t, "up_read", `{"n":1}`).wait()
	if !got.Result.IsError && got.Error == nil {
		t.Errorf("over MCP it was answered with %+v", got)
	}
}

// The invoke route answers wrong params by name, and unknown things by what
// is missing.
func TestBadInvoke(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	me := s.as(s.session.Token)
	path := "/api/v1/sessions/" + s.session.ID + "/actions/invoke"
	for name, c := range map[string]struct {
		body   any
		status int
		says   string
	}{
		"not JSON":           {`{"source":`, 400, ""},
		"an empty body":      {``, 400, ""},
		"a missing param":    {map[string]any{"source": "up", "action": "write", "params": map[string]any{}}, 400, "n"},
		"a wrong param":      {map[string]any{"source": "up", "action": "write", "params": map[string]any{"n": "x"}}, 400, "n"},
		"an unknown source":  {map[string]any{"source": "nothing", "action": "write"}, 404, ""},
		"an unknown action":  {map[string]any{"source": "up", "action": "nothing"}, 404, ""},
		"an unknown field":   {map[string]any{"source": "up", "action": "write", "approved_by": "me"}, 400, "approved_by"},
		"another's session":  {map[string]any{"source": "up", "action": "write", "session": "another"}, 400, "session"},
		"a denied action":    {map[string]any{"source": "up", "action": "destroy"}, 403, ""},
		"a key that is long": {map[string]any{"source": "up", "action": "read", "params": map[string]any{"n": 1}, "idempotency_key": strings.Repeat("k", 300)}, 400, "idempotency_key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := me.do("POST", path, c.body)
			p := r.problem()
			if r.Status != c.status || p.Code == "" || !strings.Contains(p.Field+" "+p.Detail, c.says) {
				t.Errorf("answered %d: %s", r.Status, r.Body)
			}
			if kind := r.Header.Get("Content-Type"); kind != "application/problem+json" {
				t.Errorf("the error came as %q", kind)
			}
		})
	}
	if r := s.do("POST", path, map[string]any{"source": "up", "action": "read"}); r.Status != http.StatusForbidden {
		t.Errorf("a person called an action: %d: %s", r.Status, r.Body)
	}
	if n := s.upstream.total(); n != 0 {
		t.Errorf("%d effects happened", n)
	}
}

// The same idempotency key is the same call; with other params it is refused.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mode(s.source+":write", "allow")
	me := s.as(s.session.Token)
	invoke := func(n int) reply {
		return me.do("POST", "/api/v1/sessions/"+s.session.ID+"/actions/invoke?wait=30s",
			map[string]any{"source": "up", "action": "write", "params": map[string]any{"n": n}, "idempotency_key": "k"})
	}
	var first, second struct {
		Invocation invocation      `json:"invocation"`
		Result     json.RawMessage `json:"result"`
	}
	for _, into := range []any{&first, &second} {
		r := invoke(1)
		if err := json.Unmarshal(r.Body, into); err != nil || r.Status != http.StatusOK {
			t.Fatalf("answered %d: %s", r.Status, r.Body)
		}
	}
	if first.Invocation.ID != second.Invocation.ID || string(first.Result) != string(second.Result) || len(first.Result) == 0 {
		t.Errorf("the repeat was answered with %+v, not %+v", second, first)
	}
	if r := invoke(2); r.Status != http.StatusConflict {
		t.Errorf("other params with the key were answered %d: %s", r.Status, r.Body)
	}
	s.effects("write 1", 1)
	s.effects("write 2", 0)
}

// A page of another origin, and a name that was rebound to this address, get
// nothing, whatever credential they come with.
func TestHostileOrigin(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, path := range []string{"/mcp", "/api/v1/me", "/api/v1/sessions", "/login"} {
		for name, header := range map[string]string{
			"another origin":   "Origin: http://evil.example",
			"another port":     "Origin: http://127.0.0.1:1",
			"an opaque origin": "Origin: null",
		} {
			if status := s.raw(path, s.session.Token, s.addr, header); status != http.StatusForbidden {
				t.Errorf("%s from %s answered %d", path, name, status)
			}
		}
		if status := s.raw(path, s.session.Token, "evil.example", "X-Nothing: 1"); status != http.StatusForbidden {
			t.Errorf("%s as evil.example answered %d", path, status)
		}
	}
}

// raw posts an empty object with a Host header and one more of the test's
// making, which http.Client would not send.
func (s *stage) raw(path, token, host, header string) int {
	s.t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(s.t.Context(), "tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", path, host, token, header)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
	response.Body.Close()
	return response.StatusCode
}
