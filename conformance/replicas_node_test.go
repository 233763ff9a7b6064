package conformance_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// nodeTalker is the TypeScript SDK, in a process of its own.
type nodeTalker struct {
	t       *testing.T
	in      io.Writer
	mcpID   string
	changed atomic.Int64

	mu     sync.Mutex
	orders map[int]*order
	ids    int
	ended  bool
}

// order is something that the process was told to do.
type order struct {
	talk
	result json.RawMessage
}

// said is a line of the process.
type said struct {
	ID       int             `json:"id"`
	Session  string          `json:"session"`
	Ready    bool            `json:"ready"`
	Changed  bool            `json:"changed"`
	Progress json.RawMessage `json:"progress"`
	Result   json.RawMessage `json:"result"`
	Error    string          `json:"error"`
}

var errNodeEnded = errors.New("the process ended")

func talkTypeScript(t *testing.T, url, token, era string) talker {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), node(t), "replicas.mjs")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := &nodeTalker{t: t, in: in, orders: map[int]*order{}}
	ready, over := make(chan struct{}), make(chan struct{})
	go func() { defer close(over); n.listen(out, ready) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-over; _ = cmd.Wait() })
	n.tell(map[string]any{"url": url, "token": token, "era": era})
	select {
	case <-ready:
	case <-over:
		_ = cmd.Wait()
		t.Fatalf("the TypeScript client ended:\n%s", stderr.String())
	}
	return n
}

// listen hears what the process says, until it ends.
func (n *nodeTalker) listen(out io.Reader, ready chan<- struct{}) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line said
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			n.t.Errorf("the TypeScript client says %q", lines.Text())
			continue
		}
		switch {
		case line.Ready:
			n.mcpID = line.Session
			close(ready)
		case line.Changed:
			n.changed.Add(1)
		default:
			n.hear(line)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	for _, o := range n.orders {
		o.err = errNodeEnded
		close(o.done)
	}
}

func (n *nodeTalker) hear(line said) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.orders[line.ID]
	switch {
	case o == nil:
	case line.Progress != nil:
		o.progress.Add(1)
	default:
		if o.result = line.Result; line.Error != "" {
			o.err = errors.New(line.Error)
		}
		var r result
		_ = json.Unmarshal(line.Result, &r) // not every result is a tool's
		for _, content := range r.Content {
			o.text += content.Text
		}
		delete(n.orders, line.ID)
		close(o.done)
	}
}

func (n *nodeTalker) tell(what map[string]any) {
	raw, err := json.Marshal(what)
	if err != nil {
		n.t.Error(err)
	}
	_, _ = n.in.Write(append(raw, '\n')) // a process that ended is heard of otherwise
}

func (n *nodeTalker) order(what string, more map[string]any) *order {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids++
	id := n.ids
	o := &order{talk: talk{done: make(chan struct{})}}
	if n.ended {
		o.err = errNodeEnded
		close(o.done)
		return o
	}
	n.orders[id] = o
	o.cancel = func() { n.order("abort", map[string]any{"of": id}) }
	told := map[string]any{"do": what, "id": id}
	for k, v := range more {
		told[k] = v
	}
	n.tell(told)
	return o
}

func (n *nodeTalker) session() string { return n.mcpID }
func (n *nodeTalker) changes() int    { return int(n.changed.Load()) }

func (n *nodeTalker) list() (names []string, err error) {
	o := n.order("list", nil)
	if _, err := o.wait(); err != nil {
		return nil, err
	}
	return names, json.Unmarshal(o.result, &names)
}

func (n *nodeTalker) begin(tool string, arguments map[string]any) *talk {
	return &n.order("call", map[string]any{"name": tool, "arguments": arguments}).talk
}

func (n *nodeTalker) end() error {
	_, err := n.order("end", nil).wait()
	return err
}
