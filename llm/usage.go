package llm

import (
	"bytes"
	"encoding/json"
	"strings"

	"sallyport/action"
)

// meter counts the tokens of a response as it passes. Providers report them at the end
// of a response, or in one of the last events of a stream.
type meter struct {
	dialect action.ModelDialect
	json    *picker
	stream  bool // server-sent events

	prefix []byte // of the line, until it is known whether it has data
	data   bool   // the line has data
	events int64

	tokens   action.ModelTokens
	complete bool // the provider reported all tokens
}

func newMeter(d action.ModelDialect, contentType string) *meter {
	m := &meter{dialect: d, stream: strings.HasPrefix(contentType, "text/event-stream")}
	wanted := map[action.ModelDialect][]string{
		action.DialectAnthropic: {"usage", "message.usage"},
		action.DialectOpenAI:    {"usage", "response.usage"},
		action.DialectGoogle:    {"usageMetadata", "*.usageMetadata"},
	}[d]
	m.json = newPicker(m.found, wanted...)
	return m
}

const dataPrefix = "data:"

// Write implements io.Writer. It never fails: what cannot be read is not counted.
func (m *meter) Write(b []byte) (int, error) {
	if !m.stream {
		return m.json.Write(b)
	}
	for rest := b; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		for len(line) > 0 && !m.data && len(m.prefix) < len(dataPrefix) {
			m.prefix, line = append(m.prefix, line[0]), line[1:]
			if m.data = string(m.prefix) == dataPrefix; m.data {
				m.events++
			}
		}
		if m.data {
			_, _ = m.json.Write(line) // after an error the rest of the line is skipped
		}
		if !ended {
			break
		}
		rest = after
		m.prefix, m.data = m.prefix[:0], false
		m.json.reset()
	}
	return len(b), nil
}

// report is the usage in the words of every dialect.
type report struct {
	// Anthropic, and OpenAI's responses.
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CacheRead    int64 `json:"cache_read_input_tokens"`
	CacheWrite   int64 `json:"cache_creation_input_tokens"`
	InputDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	// OpenAI's chat completions.
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	PromptDetails    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	// Google.
	PromptCount     int64 `json:"promptTokenCount"`
	ToolPromptCount int64 `json:"toolUsePromptTokenCount"`
	CachedCount     int64 `json:"cachedContentTokenCount"`
	CandidatesCount int64 `json:"candidatesTokenCount"`
	ThoughtsCount   int64 `json:"thoughtsTokenCount"`
}

// found takes a report over. A later one of the same response replaces an earlier one,
// and leaves what it does not say.
func (m *meter) found(path string, raw []byte) error {
	var r report
	if raw[0] != '{' || json.Unmarshal(raw, &r) != nil {
		return nil
	}
	t := action.ModelTokens{Input: r.InputTokens, Cached: r.CacheRead, CacheWrite: r.CacheWrite, Output: r.OutputTokens}
	switch m.dialect {
	case action.DialectAnthropic:
	case action.DialectOpenAI: // cached tokens are part of the input
		t.Cached = r.InputDetails.Cached + r.PromptDetails.Cached
		t.Input = r.InputTokens + r.PromptTokens - t.Cached
		t.Output = r.OutputTokens + r.CompletionTokens
	case action.DialectGoogle:
		t.Cached = r.CachedCount
		t.Input = r.PromptCount + r.ToolPromptCount - t.Cached
		t.Output = r.CandidatesCount + r.ThoughtsCount
	}
	for _, n := range []struct{ sum, said *int64 }{
		{&m.tokens.Input, &t.Input}, {&m.tokens.Cached, &t.Cached}, {&m.tokens.CacheWrite, &t.CacheWrite}, {&m.tokens.Output, &t.Output},
	} {
		if *n.said > 0 {
			*n.sum = *n.said
		}
	}
	// The first event of Anthropic's streams reports the input, the last one the output.
	m.complete = m.complete || path != "message.usage"
	return nil
}

// bytesPerToken is a usual ratio for text.
const bytesPerToken = 4

// result returns the tokens of a request of a size. What the provider did not report is
// estimated: the input by the size, the output of a stream as one token an event. So an
// agent cannot spend more than its budget by leaving early, or by not asking for usage.
func (m *meter) result(requestSize int64) (t action.ModelTokens, estimated bool) {
	t = m.tokens
	if m.complete {
		return t, false
	}
	if t.Input+t.Cached+t.CacheWrite == 0 {
		t.Input = (requestSize + bytesPerToken - 1) / bytesPerToken
	}
	t.Output = max(t.Output, m.events)
	return t, true
}
