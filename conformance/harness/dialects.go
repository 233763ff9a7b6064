package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

var errPath = errors.New("the path is unknown")

// deferred are the names of MCP tools in Claude Code's list of those that are
// loaded when needed.
var deferred = regexp.MustCompile(`(?:\\n)(mcp__\w+)`)

// Chat is the API of OpenAI's chat completions, and of the many who copied it.
// The agent's model is called "agent".
type Chat struct{}

// Read implements [Dialect].
func (c Chat) Read(w http.ResponseWriter, r *http.Request, body []byte, t *Turn) (bool, error) {
	if r.URL.Path != "/v1/chat/completions" {
		return false, errPath
	}
	var request struct {
		Model    string
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct{ Function Offer }
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return false, err
	}
	if request.Model != "agent" {
		w.Header().Set("Content-Type", "text/event-stream")
		c.Say(w, "A title")
		return false, nil
	}
	for _, tool := range request.Tools {
		t.Tools = append(t.Tools, tool.Function)
	}
	for _, m := range request.Messages {
		switch said := words(m.Content); m.Role {
		case "system":
			t.System += said
		case "user":
			t.User += said
		case "tool":
			t.Results = append(t.Results, said)
		}
	}
	return true, nil
}

// Say implements [Dialect].
func (c Chat) Say(w http.ResponseWriter, words string) {
	c.send(w, Args{"role": "assistant", "content": words}, "stop")
}

// Call implements [Dialect].
func (c Chat) Call(w http.ResponseWriter, id, tool string, arguments any) {
	raw, _ := json.Marshal(arguments) // written in Go; it encodes
	c.send(w, Args{"role": "assistant", "tool_calls": []Args{{
		"index": 0, "id": id, "type": "function", "function": Args{"name": tool, "arguments": string(raw)},
	}}}, "tool_calls")
}

func (Chat) send(w http.ResponseWriter, delta Args, finish string) {
	for _, choice := range []Args{{"index": 0, "delta": delta, "finish_reason": nil}, {"index": 0, "delta": Args{}, "finish_reason": finish}} {
		event(w, "", Args{
			"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "agent",
			"choices": []Args{choice}, "usage": Args{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
		})
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// Messages is the API of Anthropic's messages. Small models, which write
// titles, are called "haiku". Tools that the model is offered by name alone, to
// load their schemas when it needs them, count as offered.
type Messages struct{}

// Read implements [Dialect].
func (m Messages) Read(w http.ResponseWriter, r *http.Request, body []byte, t *Turn) (bool, error) {
	switch r.URL.Path {
	case "/v1/messages":
	case "/v1/messages/count_tokens":
		_ = json.NewEncoder(w).Encode(Args{"input_tokens": 1})
		return false, nil
	default:
		w.WriteHeader(http.StatusNotFound) // reachability, features
		return false, nil
	}
	var request struct {
		Model    string
		System   json.RawMessage
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []Offer
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return false, err
	}
	if strings.Contains(request.Model, "haiku") {
		w.Header().Set("Content-Type", "text/event-stream")
		m.Say(w, "A title")
		return false, nil
	}
	t.Tools, t.System = request.Tools, words(request.System)
	for _, name := range deferred.FindAllSubmatch(body, -1) {
		t.Tools = append(t.Tools, Offer{Name: string(name[1])})
	}
	for _, message := range request.Messages {
		switch message.Role {
		case "system": // reminders, where the model takes them there
			t.System += words(message.Content)
			continue
		case "assistant":
			continue
		}
		t.User += words(message.Content)
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(message.Content, &blocks) // content may be a string
		for _, b := range blocks {
			if b.Type == "tool_result" {
				t.Results = append(t.Results, words(b.Content))
			}
		}
	}
	return true, nil
}

// Say implements [Dialect].
func (m Messages) Say(w http.ResponseWriter, words string) {
	m.send(w, Args{"type": "text", "text": ""}, Args{"type": "text_delta", "text": words}, "end_turn")
}

// Call implements [Dialect].
func (m Messages) Call(w http.ResponseWriter, id, tool string, arguments any) {
	raw, _ := json.Marshal(arguments) // written in Go; it encodes
	m.send(w, Args{"type": "tool_use", "id": "toolu_" + id, "name": tool, "input": Args{}}, Args{"type": "input_json_delta", "partial_json": string(raw)}, "tool_use")
}

func (Messages) send(w http.ResponseWriter, block, delta Args, stop string) {
	usage := Args{"input_tokens": 1, "output_tokens": 1}
	for _, e := range []Args{
		{"type": "message_start", "message": Args{"id": "msg_1", "type": "message", "role": "assistant", "model": "agent", "content": []Args{}, "usage": usage}},
		{"type": "content_block_start", "index": 0, "content_block": block},
		{"type": "content_block_delta", "index": 0, "delta": delta},
		{"type": "content_block_stop", "index": 0},
		{"type": "message_delta", "delta": Args{"stop_reason": stop, "stop_sequence": nil}, "usage": usage},
		{"type": "message_stop"},
	} {
		event(w, e["type"].(string), e)
	}
}

// Responses is the API of OpenAI's responses.
type Responses struct{}

// Read implements [Dialect].
func (Responses) Read(w http.ResponseWriter, r *http.Request, body []byte, t *Turn) (bool, error) {
	if !strings.HasSuffix(r.URL.Path, "/responses") {
		w.WriteHeader(http.StatusNotFound) // lists of models
		return false, nil
	}
	var request struct {
		Instructions string
		Input        []struct {
			Type    string
			Role    string
			Content json.RawMessage
			Output  json.RawMessage
		}
		Tools []struct {
			Offer
			Type  string
			Tools []Offer // of a namespace
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return false, err
	}
	t.System = request.Instructions
	for _, tool := range request.Tools {
		if tool.Type == "namespace" {
			t.System += tool.Description // the instructions of an MCP server
		} else {
			t.Tools = append(t.Tools, tool.Offer)
		}
		for _, inner := range tool.Tools {
			t.Tools = append(t.Tools, Offer{tool.Name + "." + inner.Name, inner.Description})
		}
	}
	for _, item := range request.Input {
		switch {
		case item.Type == "function_call_output":
			t.Results = append(t.Results, words(item.Output))
		case item.Role == "user":
			t.User += words(item.Content)
		case item.Role == "developer":
			t.System += words(item.Content)
		}
	}
	return true, nil
}

// Say implements [Dialect].
func (r Responses) Say(w http.ResponseWriter, words string) {
	r.send(w, Args{"type": "message", "id": "m", "role": "assistant", "content": []Args{{"type": "output_text", "text": words}}})
}

// Call implements [Dialect]. A tool of a namespace is called by both names,
// with a dot between.
func (r Responses) Call(w http.ResponseWriter, id, tool string, arguments any) {
	raw, _ := json.Marshal(arguments) // written in Go; it encodes
	call := Args{"type": "function_call", "id": "fc_" + id, "call_id": id, "name": tool, "arguments": string(raw)}
	if namespace, name, ok := strings.Cut(tool, "."); ok {
		call["namespace"], call["name"] = namespace, name
	}
	r.send(w, call)
}

func (Responses) send(w http.ResponseWriter, item Args) {
	usage := Args{"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2}
	for _, e := range []Args{
		{"type": "response.created", "response": Args{"id": "r"}},
		{"type": "response.output_item.done", "output_index": 0, "item": item},
		{"type": "response.completed", "response": Args{"id": "r", "usage": usage, "output": []Args{item}}},
	} {
		event(w, e["type"].(string), e)
	}
}

// Gemini is the API of Google's generateContent.
type Gemini struct{}

// Read implements [Dialect].
func (g Gemini) Read(w http.ResponseWriter, r *http.Request, body []byte, t *Turn) (bool, error) {
	if !strings.HasSuffix(r.URL.Path, ":streamGenerateContent") {
		_ = json.NewEncoder(w).Encode(g.content(Args{"text": "{}"})) // summaries, token counts
		return false, nil
	}
	type content struct {
		Role  string
		Parts []struct {
			Text             string
			FunctionResponse *struct{ Response json.RawMessage }
		}
	}
	var request struct {
		SystemInstruction content
		Contents          []content
		Tools             []struct{ FunctionDeclarations []Offer }
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return false, err
	}
	for _, p := range request.SystemInstruction.Parts {
		t.System += p.Text
	}
	for _, tools := range request.Tools {
		t.Tools = append(t.Tools, tools.FunctionDeclarations...)
	}
	for _, c := range request.Contents {
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				t.Results = append(t.Results, g.result(p.FunctionResponse.Response))
			} else if c.Role == "user" {
				t.User += p.Text
			}
		}
	}
	return true, nil
}

// result is the output of a tool, or its error.
func (Gemini) result(response json.RawMessage) string {
	var of struct{ Output, Error string }
	if json.Unmarshal(response, &of) != nil || of.Output+of.Error == "" {
		return string(response)
	}
	return of.Output + of.Error
}

// Say implements [Dialect].
func (g Gemini) Say(w http.ResponseWriter, words string) {
	event(w, "", g.content(Args{"text": words}))
}

// Call implements [Dialect].
func (g Gemini) Call(w http.ResponseWriter, id, tool string, arguments any) {
	event(w, "", g.content(Args{"functionCall": Args{"id": id, "name": tool, "args": arguments}}))
}

func (Gemini) content(part Args) Args {
	return Args{
		"candidates":    []Args{{"index": 0, "content": Args{"role": "model", "parts": []Args{part}}, "finishReason": "STOP"}},
		"usageMetadata": Args{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
		"totalTokens":   1,
	}
}
