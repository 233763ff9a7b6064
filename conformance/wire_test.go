package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// wire is a client of MCP in either era, written from the wire up: what comes
// stays the JSON that it is. It answers whatever servers ask of it.
type wire struct {
	t       *testing.T
	url     string
	token   string
	era     string
	can     string // capabilities
	session string // of the older era
	http    *http.Client
	ids     atomic.Int64

	// before, if set, is told of a question before it is answered.
	before func(wireMessage)

	mu    sync.Mutex
	asked []wireMessage // that came on the stream of no request
	heard []wireMessage // likewise
}

// wireMessage is a request or a notification of a server.
type wireMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// wireAnswer is what came of a request.
type wireAnswer struct {
	Status int
	Result json.RawMessage
	Error  *rpcError
	Heard  []wireMessage // notifications, as they came
	Asked  []wireMessage // questions, as they came
}

// What a client may offer.
const (
	nothing  = `{}`
	allOfIt  = `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}}`
	mayAsk   = `["elicitation","url_elicitation","sampling","roots"]`
	formOnly = `{"elicitation":{}}`
)

// newWire connects a client with such capabilities.
func newWire(t *testing.T, url, token, era, can string) *wire {
	t.Helper()
	w := &wire{t: t, url: url, token: token, era: era, can: can, http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(w.http.CloseIdleConnections)
	if era == newerEra {
		return w
	}
	response, err := w.post(t.Context(), "initialize", "", fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"wire","version":"1"}}}`, era, can))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	w.session = response.Header.Get("Mcp-Session-Id")
	got, err := w.read(t.Context(), response)
	if err != nil || got.Result == nil {
		t.Fatalf("initialize: %+v, %v", got, err)
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if bytes.Contains(got.Result, []byte(`"logging"`)) {
		w.request("logging/setLevel", `{"level":"debug"}`)
	}
	return w
}

// post sends a message; method and name go into the headers of the newer era.
func (w *wire) post(ctx context.Context, method, name, message string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if w.era == newerEra {
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	}
	return w.do(r)
}

func (w *wire) do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Accept", "application/json, text/event-stream")
	if r.Method == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	}
	r.Header.Set("Mcp-Protocol-Version", w.era)
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	if w.session != "" {
		r.Header.Set("Mcp-Session-Id", w.session)
	}
	return w.http.Do(r)
}

// send sends a message that has no answer.
func (w *wire) send(message string) {
	response, err := w.post(w.t.Context(), "", "", message)
	if err != nil {
		if w.t.Context().Err() == nil {
			w.t.Error(err)
		}
		return
	}
	response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		w.t.Errorf("%.200s was answered with %s", message, response.Status)
	}
}

// request sends a request, answers what it is asked meanwhile, and returns
// what came in the end.
func (w *wire) request(method, params string) wireAnswer {
	w.t.Helper()
	got, err := w.try(w.t.Context(), method, params)
	if err != nil {
		w.t.Fatalf("%s %.200s: %v", method, params, err)
	}
	return got
}

// try is request for any goroutine.
func (w *wire) try(ctx context.Context, method, params string) (wireAnswer, error) {
	got, err := w.once(ctx, method, params)
	for rounds := 0; err == nil && got.inputRequired() && rounds < 10; rounds++ {
		next, err := w.once(ctx, method, w.retry(params, got.Result))
		if err != nil {
			return got, err
		}
		next.Heard, next.Asked = append(got.Heard, next.Heard...), append(got.questions(), next.Asked...)
		got = next
	}
	return got, err
}

// once sends a request of one round.
func (w *wire) once(ctx context.Context, method, params string) (wireAnswer, error) {
	id := w.ids.Add(1)
	in := make(map[string]json.RawMessage)
	if err := json.Unmarshal([]byte(params), &in); err != nil {
		return wireAnswer{}, err
	}
	meta := map[string]any{"progressToken": id}
	if w.era == newerEra {
		meta["io.modelcontextprotocol/protocolVersion"] = w.era
		meta["io.modelcontextprotocol/clientCapabilities"] = json.RawMessage(w.can)
		meta["io.modelcontextprotocol/clientInfo"] = map[string]string{"name": "wire", "version": "1"}
		meta["io.modelcontextprotocol/logLevel"] = "debug"
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return wireAnswer{}, err
	}
	in["_meta"] = raw
	var name string
	for _, key := range []string{"name", "uri", "taskId"} {
		if in[key] != nil {
			_ = json.Unmarshal(in[key], &name) // what is no string has no header
		}
	}
	response, err := w.post(ctx, method, name, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, object(in)))
	if err != nil {
		return wireAnswer{}, err
	}
	defer response.Body.Close()
	return w.read(ctx, response)
}

// object writes members as they are, which json.Marshal would not: it escapes.
func object(members map[string]json.RawMessage) string {
	var b strings.Builder
	for name, value := range members {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", name, value)
	}
	return "{" + b.String() + "}"
}

// read reads up to the response, and answers questions on the way.
func (w *wire) read(ctx context.Context, response *http.Response) (got wireAnswer, err error) {
	got.Status = response.StatusCode
	take := func(raw []byte) (bool, error) {
		var m struct {
			wireMessage
			Result json.RawMessage `json:"result"`
			Error  *rpcError       `json:"error"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return false, fmt.Errorf("%w: %.200s", err, raw)
		}
		switch {
		case m.Method == "":
			got.Result, got.Error = m.Result, m.Error
			return true, nil
		case m.ID == nil:
			got.Heard = append(got.Heard, m.wireMessage)
		default:
			got.Asked = append(got.Asked, m.wireMessage)
			w.reply(m.wireMessage)
		}
		return false, nil
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		err = events(response.Body, take)
		return got, err
	}
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return got, err
	}
	if _, err := take(raw); err != nil {
		got.Error = &rpcError{Message: string(raw)} // plain text of an HTTP error
	}
	return got, nil
}

// reply answers a question of the older era.
func (w *wire) reply(q wireMessage) {
	if w.before != nil {
		w.before(q)
	}
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, answerTo(q)))
}

// answerTo is what this client's user, model or editor says.
func answerTo(q wireMessage) string {
	switch {
	case q.Method == "elicitation/create" && bytes.Contains(q.Params, []byte(`"mode":"url"`)):
		return `{"action":"accept"}`
	case q.Method == "elicitation/create":
		return `{"action":"accept","content":{"name":"Ada","username":"Ada","email":"ada@example.com","ok":true,"color":"blue","context":"a test"}}`
	case q.Method == "sampling/createMessage":
		return `{"role":"assistant","model":"model-1","content":{"type":"text","text":"Yes <b> & no."},"stopReason":"endTurn"}`
	case q.Method == "roots/list":
		return `{"roots":[{"uri":"file:///home/ada","name":"home"}]}`
	}
	return `{}`
}

// inputRequired tells whether the answer is a question of the newer era.
func (a *wireAnswer) inputRequired() bool {
	var r struct {
		Type string `json:"resultType"`
	}
	return json.Unmarshal(a.Result, &r) == nil && r.Type == "input_required"
}

// inputs are the questions of such an answer, by key, and its state.
func (a *wireAnswer) inputs() (questions map[string]wireMessage, state json.RawMessage) {
	var r struct {
		Questions map[string]wireMessage `json:"inputRequests"`
		State     json.RawMessage        `json:"requestState"`
	}
	_ = json.Unmarshal(a.Result, &r) // then there are none
	return r.Questions, r.State
}

func (a *wireAnswer) questions() (all []wireMessage) {
	questions, _ := a.inputs()
	for _, q := range questions {
		all = append(all, q)
	}
	return append(a.Asked, all...)
}

// retry returns params with answers to what a server asked.
func (w *wire) retry(params string, asked json.RawMessage) string {
	questions, state := (&wireAnswer{Result: asked}).inputs()
	in := make(map[string]json.RawMessage)
	_ = json.Unmarshal([]byte(params), &in) // it was read before
	replies := make(map[string]json.RawMessage)
	for key, q := range questions {
		if w.before != nil {
			w.before(q)
		}
		replies[key] = json.RawMessage(answerTo(q))
	}
	in["inputResponses"] = json.RawMessage(object(replies))
	if state != nil {
		in["requestState"] = state
	}
	return object(in)
}

// listen keeps the stream open on which servers speak unasked. In the newer
// era it asks for changes of all lists, and of the resources. Opened is closed
// once the server agreed.
func (w *wire) listen(resources ...string) (opened <-chan struct{}) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	open := make(chan struct{})
	over := make(chan struct{})
	w.t.Cleanup(func() { cancel(); <-over })
	go func() {
		defer close(over)
		response, err := w.openStream(ctx, resources)
		if err != nil {
			if ctx.Err() == nil {
				w.t.Error(err)
			}
			return
		}
		defer response.Body.Close()
		agreed := sync.OnceFunc(func() { close(open) })
		if w.era != newerEra && response.StatusCode == http.StatusOK {
			agreed()
		}
		err = events(response.Body, func(raw []byte) (bool, error) { return false, w.unasked(raw, agreed) })
		if ctx.Err() == nil {
			w.t.Logf("the stream of %s (%s) ended: %v", w.url, response.Status, err)
		}
	}()
	return open
}

func (w *wire) openStream(ctx context.Context, resources []string) (*http.Response, error) {
	if w.era != newerEra {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
		if err != nil {
			return nil, err
		}
		return w.do(r)
	}
	uris, err := json.Marshal(append([]string{}, resources...))
	if err != nil {
		return nil, err
	}
	return w.post(ctx, "subscriptions/listen", "", fmt.Sprintf(`{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":%s}}}`, w.era, w.can, uris))
}

// unasked takes a message of that stream.
func (w *wire) unasked(raw []byte, agreed func()) error {
	var m wireMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	w.mu.Lock()
	if m.ID != nil {
		w.asked = append(w.asked, m)
	} else {
		w.heard = append(w.heard, m)
	}
	w.mu.Unlock()
	switch {
	case m.Method == "notifications/subscriptions/acknowledged":
		agreed()
	case m.ID != nil && m.Method != "":
		w.reply(m)
	}
	return nil
}

// told counts the notifications of a method that came unasked.
func (w *wire) told(method string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.heard {
		if m.Method == method {
			n++
		}
	}
	return n
}

// updated counts the words that a resource changed.
func (w *wire) updated(uri string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.heard {
		var p struct {
			URI string `json:"uri"`
		}
		if m.Method == "notifications/resources/updated" && json.Unmarshal(m.Params, &p) == nil && p.URI == uri {
			n++
		}
	}
	return n
}
