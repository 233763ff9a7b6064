package mcpserver

import (
	"errors"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// envelope is a JSON-RPC message, taken apart as far as is needed to tell who
// handles it. Its slices point into the request's body.
type envelope struct {
	id     []byte // raw; nil for notifications
	method string // empty for responses
	params []byte // raw; nil when absent
	result []byte // raw; of a response, as is fault
	fault  []byte
}

// isCall reports whether the message wants an answer.
func (e *envelope) isCall() bool { return e.method != "" && e.id != nil }

// parseEnvelope takes a message apart. It refuses what is malformed and what
// two parsers could read in two ways, so that nobody behind us sees another
// message than we did. The id is set where it could be read, also with a
// problem.
func parseEnvelope(body []byte) (envelope, *problem) {
	var e envelope
	if !utf8.Valid(body) {
		return e, malformed("The body is not valid UTF-8.")
	}
	seen := 0
	var version []byte
	m := members{text: body}
	for m.next() {
		bit := 0
		switch string(m.key) {
		case "jsonrpc":
			bit, version = 1, m.value
		case "id":
			bit, e.id = 2, m.value
		case "method":
			bit = 4
			if !isString(m.value) {
				return e, wrongEnvelope("method must be a string.")
			}
			e.method = decodeString(m.value)
		case "params":
			bit, e.params = 8, m.value
		case "result":
			bit, e.result = 16, m.value
		case "error":
			bit, e.fault = 32, m.value
		}
		if seen&bit != 0 {
			return e, wrongEnvelope("The message has a member twice.")
		}
		seen |= bit
	}
	if m.err != nil {
		return envelope{}, envelopeProblem(body, m.err)
	}
	if e.id != nil && !isString(e.id) && !isNumber(e.id) {
		e.id = nil
		return e, wrongEnvelope("id must be a string or a number.")
	}
	switch {
	case string(version) != `"2.0"`:
		return e, wrongEnvelope(`jsonrpc must be "2.0".`)
	case seen&4 != 0 && e.method == "":
		return e, wrongEnvelope("method must not be empty.")
	case seen&4 == 0 && (e.id == nil || e.result == nil && e.fault == nil):
		return e, wrongEnvelope("The message is neither a request nor a response: it has no method.")
	case e.params != nil && !isObject(e.params):
		return e, wrongEnvelope("params must be an object.")
	}
	return e, nil
}

// envelopeProblem tells a body that is no JSON from one that is no message.
func envelopeProblem(body []byte, err error) *problem {
	i := jsonlex.Space(body, 0)
	switch {
	case i == len(body):
		return malformed("The body is empty; POST one JSON-RPC message.")
	case !errors.Is(err, errNoObject) || !validJSON(body):
		return malformed("The body is not valid JSON.")
	case body[i] == '[':
		return wrongEnvelope("Batches are not supported; send each message in a request of its own.")
	}
	return wrongEnvelope("A JSON-RPC message is an object.")
}

// idKey returns what identifies a request id within its session: two
// spellings of one string are one id.
func idKey(raw []byte) string {
	if isString(raw) {
		return `"` + decodeString(raw)
	}
	return string(raw)
}
