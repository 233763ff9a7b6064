package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Model is a server of models that follows a script and keeps what it was
// asked. It speaks the dialect that the agent speaks.
type Model struct {
	*httptest.Server
	t       testing.TB
	dialect Dialect
	script  []Step

	mu    sync.Mutex
	at    int // the step that comes next
	turns []*Turn
}

// mostTurns bounds what a test may ask its model.
const mostTurns = 150

// Dialect is the API of a provider of models, streamed.
type Dialect interface {
	// Read reads a request into the turn. It reports false, having answered,
	// for requests that are not the agent's: titles, token counts, model lists.
	Read(w http.ResponseWriter, r *http.Request, body []byte, t *Turn) (bool, error)
	// Say streams words that end the run.
	Say(w http.ResponseWriter, words string)
	// Call streams a call of a tool.
	Call(w http.ResponseWriter, id, tool string, arguments any)
}

// Step is what the model does in a turn. It runs on the server's goroutine, so
// it may mark its test as failed, but not end it.
type Step func(*Turn) Reply

// Reply is a call of a tool, or words that end the run.
type Reply struct {
	Tool  string
	Args  any
	Words string

	again bool // the same step comes next
}

// Call is a step that calls a tool.
func Call(tool string, arguments Args) Step {
	return func(*Turn) Reply { return Reply{Tool: tool, Args: arguments} }
}

// Say is a step that ends the run with words.
func Say(words string) Step {
	return func(*Turn) Reply { return Reply{Words: words} }
}

// Until is a step that does something else as long as the model is not offered
// a tool.
func Until(tool string, meanwhile, then Step) Step {
	return func(t *Turn) Reply {
		if slices.Contains(t.Offers(""), tool) {
			return then(t)
		}
		time.Sleep(100 * time.Millisecond) // between two attempts
		r := meanwhile(t)
		r.again = true
		return r
	}
}

// Turn is one request of an agent to its model: all that the model sees.
type Turn struct {
	Tools   []Offer
	System  string   // the system prompt
	User    string   // the words of the user
	Results []string // of tools, in order

	t testing.TB
}

// Offer is a tool that the model may call.
type Offer struct {
	Name        string
	Description string
}

// Offers lists the tools whose name has the prefix, sorted.
func (t *Turn) Offers(prefix string) (names []string) {
	for _, tool := range t.Tools {
		if strings.HasPrefix(tool.Name, prefix) {
			names = append(names, tool.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Has fails unless the model was offered all of those tools.
func (t *Turn) Has(tools ...string) {
	t.t.Helper()
	for _, tool := range tools {
		if !slices.Contains(t.Offers(""), tool) {
			t.t.Errorf("the model was not offered %s, but %q", tool, t.Offers(""))
		}
	}
}

// Result is the last result of a tool; empty before the first.
func (t *Turn) Result() string {
	if len(t.Results) == 0 {
		return ""
	}
	return t.Results[len(t.Results)-1]
}

// NewModel starts a model that follows the script. The test fails if it was
// not followed to its end.
func NewModel(t testing.TB, dialect Dialect, script ...Step) *Model {
	m := &Model{t: t, dialect: dialect, script: script}
	m.Server = httptest.NewServer(m)
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
		if m.at != len(script) && !t.Failed() {
			t.Errorf("the model was asked for %d steps, and the script has %d", m.at, len(script))
		}
	})
	return m
}

// Turn is what the model saw in its request of that number: from zero, or from
// the last one, which is -1.
func (m *Model) Turn(n int) *Turn {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if n < 0 {
		n += len(m.turns)
	}
	if n < 0 || n >= len(m.turns) {
		m.t.Fatalf("the model was asked %d times; turn %d is not among them", len(m.turns), n)
	}
	return m.turns[n]
}

// Result is the tool result that the model saw last in that turn.
func (m *Model) Result(n int) string { m.t.Helper(); return m.Turn(n).Result() }

// Sees fails unless the model saw all of those words in the last result of a
// turn.
func (m *Model) Sees(n int, words ...string) {
	m.t.Helper()
	got := m.Result(n)
	for _, part := range words {
		if !strings.Contains(got, part) {
			m.t.Errorf("in turn %d the model did not see %q but:\n%s", n, part, got)
		}
	}
}

// Asked counts the turns so far.
func (m *Model) Asked() int { m.mu.Lock(); defer m.mu.Unlock(); return len(m.turns) }

func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := &Turn{t: m.t}
	body, err := io.ReadAll(r.Body)
	asked := false
	if err == nil {
		asked, err = m.dialect.Read(w, r, body, t)
	}
	if err != nil {
		m.t.Errorf("the agent sent its model %s %s, which is not understood: %v", r.Method, r.URL.Path, err)
		w.WriteHeader(http.StatusBadRequest)
	}
	if !asked {
		return
	}
	n, answer := m.next(t)
	w.Header().Set("Content-Type", "text/event-stream")
	if answer.Tool == "" {
		m.dialect.Say(w, answer.Words)
		return
	}
	m.dialect.Call(w, fmt.Sprintf("call_%d", n), answer.Tool, answer.Args)
}

// next keeps the turn and takes the step that the script has for it.
func (m *Model) next(t *Turn) (n int, r Reply) {
	m.mu.Lock()
	n, at := len(m.turns), m.at
	m.turns = append(m.turns, t)
	m.at++
	m.mu.Unlock()
	if at >= len(m.script) || n >= mostTurns {
		return n, Reply{Words: "The script is over."} // the test fails at its end
	}
	if r = m.script[at](t); r.again {
		m.mu.Lock()
		m.at--
		m.mu.Unlock()
	}
	return n, r
}

// words are the words of content that is a string, or parts.
func words(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &parts) // content that is neither has no words
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// event writes a server-sent event; without a name it has data only.
func event(w io.Writer, name string, data any) {
	raw, _ := json.Marshal(data) // written in Go; it encodes
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", raw)
}
