package opencode_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// model is a server of the OpenAI kind (chat completions, streamed) that
// follows a script and keeps what it was asked.
type model struct {
	*httptest.Server
	t      *testing.T
	script []step

	mu    sync.Mutex
	at    int // the step that comes next
	turns []*turn
}

// mostTurns bounds what a story may ask its model.
const mostTurns = 150

// step is what the model does about a turn. It runs on the server's goroutine,
// so it may mark its test as failed, but not end it.
type step func(*turn) reply

// reply is a call of a tool, or words that end the run.
type reply struct {
	tool  string
	args  any
	words string
	again bool // the same step comes next
}

// call is a step that calls a tool.
func call(tool string, arguments args) step {
	return func(*turn) reply { return reply{tool: tool, args: arguments} }
}

// say is a step that ends the run with words.
func say(words string) step {
	return func(*turn) reply { return reply{words: words} }
}

// until is a step that does something else as long as the model is not offered
// a tool.
func until(tool string, meanwhile, then step) step {
	return func(t *turn) reply {
		if slices.Contains(t.offers(""), tool) {
			return then(t)
		}
		time.Sleep(100 * time.Millisecond) // between two looks
		r := meanwhile(t)
		r.again = true
		return r
	}
}

// turn is one request of OpenCode on the model's behalf: all that the model
// sees.
type turn struct {
	t        *testing.T
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Tools    []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string, or parts
}

// text is what a message says in words.
func (m *message) text() string {
	var words string
	if json.Unmarshal(m.Content, &words) == nil {
		return words
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts) // content that is neither has no words
	for _, p := range parts {
		words += p.Text
	}
	return words
}

// offers lists the tools whose name begins so, sorted.
func (t *turn) offers(prefix string) (names []string) {
	for _, tool := range t.Tools {
		if strings.HasPrefix(tool.Function.Name, prefix) {
			names = append(names, tool.Function.Name)
		}
	}
	slices.Sort(names)
	return names
}

// has fails unless the model was offered all of those tools.
func (t *turn) has(tools ...string) {
	t.t.Helper()
	for _, tool := range tools {
		if !slices.Contains(t.offers(""), tool) {
			t.t.Errorf("the model was not offered %s, but %q", tool, t.offers(""))
		}
	}
}

// system is the system prompt.
func (t *turn) system() (text string) {
	for _, m := range t.Messages {
		if m.Role == "system" {
			text += m.text()
		}
	}
	return text
}

// result is the last result of a tool; empty before the first.
func (t *turn) result() (text string) {
	for _, m := range t.Messages {
		if m.Role == "tool" {
			text = m.text()
		}
	}
	return text
}

// model starts a model that follows the script. The story fails if it was not
// followed to its end.
func (s *story) model(script ...step) *model {
	m := &model{t: s.t, script: script}
	m.Server = httptest.NewServer(m)
	s.t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
		if m.at != len(script) && !s.t.Failed() {
			s.t.Errorf("the model was asked for %d steps where the script has %d", m.at, len(script))
		}
	})
	return m
}

// turn is what the model saw in its request of that number: from zero, or from
// the last one, which is -1.
func (m *model) turn(n int) *turn {
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

// result is the tool result that the model saw last in that turn.
func (m *model) result(n int) string { m.t.Helper(); return m.turn(n).result() }

// asked counts the turns so far.
func (m *model) asked() int { m.mu.Lock(); defer m.mu.Unlock(); return len(m.turns) }

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := &turn{t: m.t}
	if err := json.NewDecoder(r.Body).Decode(t); err != nil || r.URL.Path != "/v1/chat/completions" {
		m.t.Errorf("OpenCode asked its model for %s, which is not understood: %v", r.URL.Path, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	stream := stream{w}
	if t.Model != "agent" { // titles
		stream.say("A title")
		return
	}
	n, answer := m.next(t)
	if answer.tool == "" {
		stream.say(answer.words)
		return
	}
	stream.call(fmt.Sprintf("call_%d", n), answer.tool, answer.args)
}

// next keeps the turn and takes the step that the script has for it.
func (m *model) next(t *turn) (n int, r reply) {
	m.mu.Lock()
	n, at := len(m.turns), m.at
	m.turns = append(m.turns, t)
	m.at++
	m.mu.Unlock()
	if at >= len(m.script) || n >= mostTurns {
		return n, reply{words: "The script is over."} // the story fails at its end
	}
	if r = m.script[at](t); r.again {
		m.mu.Lock()
		m.at--
		m.mu.Unlock()
	}
	return n, r
}

// stream writes a completion in the chunks of the protocol.
type stream struct{ w http.ResponseWriter }

func (s stream) say(words string) { s.send(args{"role": "assistant", "content": words}, "stop") }

func (s stream) call(id, tool string, arguments any) {
	raw, _ := json.Marshal(arguments) // written in Go; it encodes
	s.send(args{"role": "assistant", "tool_calls": []args{{
		"index": 0, "id": id, "type": "function", "function": args{"name": tool, "arguments": string(raw)},
	}}}, "tool_calls")
}

func (s stream) send(delta args, finish string) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []args{{"index": 0, "delta": delta, "finish_reason": nil}, {"index": 0, "delta": args{}, "finish_reason": finish}} {
		raw, _ := json.Marshal(args{ // written in Go; it encodes
			"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "agent",
			"choices": []args{choice}, "usage": args{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
		})
		fmt.Fprintf(s.w, "data: %s\n\n", raw)
	}
	fmt.Fprint(s.w, "data: [DONE]\n\n")
}
