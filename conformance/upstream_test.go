package conformance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// upstream is an MCP server (2025-11-25, without sessions) that counts what
// really happened and misbehaves on demand. It is written from the wire up,
// so that it can send what no library would.
type upstream struct {
	*httptest.Server

	mu      sync.Mutex
	effects map[string]int // by tool and the argument n
	headers []http.Header  // of every request
	// call, when set, answers tools/call in place of the server: it returns
	// false to leave the request to it.
	call func(w http.ResponseWriter, r *http.Request, c *toolCall) bool
	// say, when set, answers a method in place of the server: it returns "" to
	// leave the request to it.
	say     func(method string, c *toolCall) string
	can     string         // capabilities; empty: tools alone
	methods map[string]int // requests by method
	shouts  chan string    // notifications for the event stream; nil: there is none
}

// toolCall is one tools/call as the upstream received it.
type toolCall struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		Cursor    string          `json:"cursor"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// effect names what a call does: the tool and the argument n.
func (c *toolCall) effect() string {
	var args struct {
		N json.RawMessage `json:"n"`
	}
	_ = json.Unmarshal(c.Params.Arguments, &args)
	return c.Params.Name + " " + string(args.N)
}

const upstreamTools = `{"tools":[
{"name":"read","description":"Reads.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},"required":["n"]},"annotations":{"readOnlyHint":true}},
{"name":"write","description":"Writes.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},"required":["n"],"additionalProperties":false},"annotations":{"destructiveHint":false}},
{"name":"destroy","description":"Destroys.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},"annotations":{"destructiveHint":true}},
{"name":"fail","description":"Fails.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},"annotations":{"readOnlyHint":true}}
]}`

func startUpstream(t *testing.T, with ...func(*upstream)) *upstream {
	t.Helper()
	u := &upstream{effects: make(map[string]int), methods: make(map[string]int)}
	for _, set := range with {
		set(u)
	}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.cut)
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && u.shouts != nil {
		u.shout(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var c toolCall
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &c) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	u.mu.Lock()
	u.headers = append(u.headers, r.Header.Clone())
	u.methods[c.Method]++
	call, say := u.call, u.say
	u.mu.Unlock()
	if c.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if c.Method == "tools/call" && call != nil && call(w, r, &c) {
		return
	}
	if say != nil {
		if result := say(c.Method, &c); result != "" {
			respond(w, &c, result)
			return
		}
	}
	u.answer(w, &c)
}

// shout keeps an event stream open for what there is to shout.
func (u *upstream) shout(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	for {
		_ = flusher.Flush()
		select {
		case <-r.Context().Done():
			return
		case method := <-u.shouts:
			fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":%q}\n\n", method)
		}
	}
}

// requests counts the requests of a method.
func (u *upstream) requests(method string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.methods[method]
}

func (u *upstream) answer(w http.ResponseWriter, c *toolCall) {
	w.Header().Set("Content-Type", "application/json")
	switch c.Method {
	case "initialize":
		can := u.can
		if can == "" {
			can = `{"tools":{}}`
		}
		respond(w, c, `{"protocolVersion":"2025-11-25","capabilities":`+can+`,"serverInfo":{"name":"upstream","version":"1"}}`)
	case "ping":
		respond(w, c, `{}`)
	case "tools/list":
		respond(w, c, upstreamTools)
	case "tools/call":
		u.did(c)
		if c.Params.Name == "fail" {
			respond(w, c, `{"content":[{"type":"text","text":"it did not work"}],"isError":true}`)
			return
		}
		respond(w, c, resultOf(c))
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, c.ID)
	}
}

// resultOf says what was done, and hands back the arguments with every digit.
func resultOf(c *toolCall) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":"did %s"}],"structuredContent":{"arguments":%s}}`, c.effect(), c.Params.Arguments)
}

func respond(w http.ResponseWriter, c *toolCall, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, result)
}

// did counts the effect of a call.
func (u *upstream) did(c *toolCall) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.effects[c.effect()]++
}

// count returns how often an effect happened.
func (u *upstream) count(effect string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.effects[effect]
}

// total returns how many effects happened.
func (u *upstream) total() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, times := range u.effects {
		n += times
	}
	return n
}

// restart ends the server and all that it was doing, and starts it again where
// it was.
func (u *upstream) restart(t *testing.T) {
	t.Helper()
	at := u.Listener.Addr().String()
	u.cut()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	again := httptest.NewUnstartedServer(u)
	again.Listener.Close()
	again.Listener = listener
	again.Start()
	u.Server = again
}

// cut ends the server and all connections to it, event streams too.
func (u *upstream) cut() {
	_ = u.Config.Close()
	u.Server.Close()
}

// misbehave replaces the answers to tools/call; nil ends it.
func (u *upstream) misbehave(call func(w http.ResponseWriter, r *http.Request, c *toolCall) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.call = call
}

// block lets each call of the tool have its effect and then waits, so that it
// is known to execute, until release is called; then it answers. Begun is sent
// the effect of each call that waits.
func (u *upstream) block(tool string) (begun <-chan string, release func()) {
	waiting, free := make(chan string, 1000), make(chan struct{})
	u.misbehave(func(w http.ResponseWriter, r *http.Request, c *toolCall) bool {
		if c.Params.Name != tool {
			return false
		}
		u.did(c)
		waiting <- c.effect()
		select {
		case <-free:
		case <-r.Context().Done():
			return true
		}
		respond(w, c, resultOf(c))
		return true
	})
	return waiting, sync.OnceFunc(func() { close(free); u.misbehave(nil) })
}
