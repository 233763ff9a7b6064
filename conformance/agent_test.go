package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// agent is an MCP client of the 2025-11-25 era, written from the wire up so
// that a test sees what came, and can vanish in any moment.
type agent struct {
	url     string
	token   string
	session string // Mcp-Session-Id
	http    *http.Client
	ids     atomic.Int64
}

// answer is what came of a call.
type answer struct {
	Status   int    // of HTTP
	Result   result // of the tool, when there was one
	Raw      json.RawMessage
	Error    *rpcError
	Progress []progress
	Rest     []byte // what came after the response: nothing should
}

type result struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

type progress struct {
	Progress float64 `json:"progress"`
	Message  string  `json:"message"`
}

// did tells whether the call had the effect and was answered with its result,
// once.
func (a *answer) did(effect string) bool {
	return !a.Result.IsError && a.Error == nil && a.text() == "did "+effect && len(a.Rest) == 0
}

// text returns all that the result says in words.
func (a *answer) text() string {
	var b strings.Builder
	for _, c := range a.Result.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// newAgent shakes hands as the session that the token belongs to.
func newAgent(t *testing.T, mcpURL, token string) *agent {
	t.Helper()
	a := &agent{url: mcpURL, token: token, http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(a.http.CloseIdleConnections)
	if err := a.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *agent) initialize(ctx context.Context) error {
	a.session = ""
	response, err := a.post(ctx, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"conformance","version":"1"}}}`)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	a.session = response.Header.Get("Mcp-Session-Id")
	if got, err := read(response, nil); err != nil || got.Status != http.StatusOK || got.Error != nil {
		return fmt.Errorf("initialize: %+v, %w", got, err)
	}
	response, err = a.post(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("initialized: %s", response.Status)
	}
	return nil
}

// post sends one message.
func (a *agent) post(ctx context.Context, message string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.session != "" {
		request.Header.Set("Mcp-Session-Id", a.session)
	}
	return a.http.Do(request)
}

// call calls a tool, with a progress token, and waits for the end. Watch, if
// not nil, is told each progress as it comes.
func (a *agent) call(ctx context.Context, tool, arguments string, watch func(progress)) (answer, error) {
	id := a.ids.Add(1)
	response, err := a.post(ctx, toolsCall(id, tool, arguments, fmt.Sprintf(`"progressToken":%d`, id)))
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	got, err := read(response, watch)
	if err == nil {
		got.Rest, err = io.ReadAll(response.Body)
	}
	return got, err
}

func toolsCall(id int64, tool, arguments, meta string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{%s},"name":%q,"arguments":%s}}`, id, meta, tool, arguments)
}

// cancel tells the server that the latest call is not wanted any more.
func (a *agent) cancel(ctx context.Context, reason string) error {
	response, err := a.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`, a.ids.Load(), reason))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// list lists the tools' names.
func (a *agent) list(ctx context.Context) ([]string, error) {
	response, err := a.post(ctx, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	got, err := read(response, nil)
	if err != nil {
		return nil, err
	}
	var tools struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(got.Raw, &tools); err != nil {
		return nil, fmt.Errorf("%w: %+v", err, got)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

var errNoAnswer = errors.New("the stream ended without an answer")

// read reads messages, as JSON or as a stream of events, up to the response.
func read(response *http.Response, watch func(progress)) (answer, error) {
	got := answer{Status: response.StatusCode}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind != "text/event-stream" {
		raw, err := io.ReadAll(response.Body)
		if err != nil {
			return got, err
		}
		if _, err := got.take(raw, watch); err != nil {
			got.Error = &rpcError{Message: string(raw)} // plain text of an HTTP error
		}
		return got, nil
	}
	err := events(response.Body, func(raw []byte) (bool, error) { return got.take(raw, watch) })
	return got, err
}

// events hands over the data of each event of a stream until take says that it
// was the last.
func events(stream io.Reader, take func(raw []byte) (last bool, err error)) error {
	lines := bufio.NewReaderSize(stream, 1<<20)
	var data bytes.Buffer
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return errors.Join(errNoAnswer, err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data.Write(bytes.TrimPrefix(value, []byte(" ")))
			continue
		}
		if len(line) > 0 || data.Len() == 0 {
			continue // another field, a comment, or an event without data
		}
		last, err := take(bytes.Clone(data.Bytes()))
		if err != nil || last {
			return err
		}
		data.Reset()
	}
}

// take reads one message; last tells that it is the response.
func (a *answer) take(raw []byte, watch func(progress)) (last bool, err error) {
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params progress        `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  *rpcError       `json:"error"`
	}
	if err := json.Unmarshal(raw, &message); err != nil {
		return false, fmt.Errorf("%w: %.200s", err, raw)
	}
	if message.Method == "notifications/progress" {
		a.Progress = append(a.Progress, message.Params)
		if watch != nil {
			watch(message.Params)
		}
		return false, nil
	}
	if message.Result == nil && message.Error == nil {
		return false, nil
	}
	a.Raw, a.Error = message.Result, message.Error
	if message.Result != nil {
		_ = json.Unmarshal(message.Result, &a.Result) // not every result is a tool's
	}
	return true, nil
}

// calling is a call that runs beside the test.
type calling struct {
	t      *testing.T
	cancel context.CancelFunc // vanishes, without a word
	first  chan struct{}      // closed at the first progress
	done   chan struct{}
	got    answer
	err    error
}

// start calls a tool and does not wait.
func (a *agent) start(t *testing.T, tool, arguments string) *calling {
	ctx, cancel := context.WithCancel(t.Context())
	c := &calling{t: t, cancel: cancel, first: make(chan struct{}), done: make(chan struct{})}
	told := sync.OnceFunc(func() { close(c.first) })
	go func() {
		defer close(c.done)
		c.got, c.err = a.call(ctx, tool, arguments, func(progress) { told() })
	}()
	t.Cleanup(func() { cancel(); <-c.done })
	return c
}

// holds waits until the caller was told that its call is held.
func (c *calling) holds() {
	c.t.Helper()
	select {
	case <-c.first:
	case <-c.done:
		c.t.Fatalf("the call was not held: %+v, %v", c.got, c.err)
	case <-time.After(patience):
		c.t.Fatalf("no progress within %v", patience)
	}
}

// wait returns the answer of a call that must get one.
func (c *calling) wait() answer {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		c.t.Fatalf("no answer within %v", patience)
	}
	if c.err != nil {
		c.t.Fatalf("the call broke: %v", c.err)
	}
	return c.got
}
