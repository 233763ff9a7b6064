package wire

import (
	"errors"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// Envelope is a JSON-RPC message, parsed only as far as routing needs. Its slices
// point into the body of the request.
type Envelope struct {
	ID     []byte // raw; nil for notifications
	Method string // empty for responses
	Params []byte // raw; nil when absent
	Result []byte // raw; only of responses
	Error  []byte // raw; only of responses
}

// IsRequest reports whether the sender expects a response.
func (e *Envelope) IsRequest() bool { return e.Method != "" && e.ID != nil }

// ParseEnvelope parses a message. It refuses malformed messages and those that two
// parsers could read differently, such as duplicate members, so that the SDK behind
// the gateway sees the message that was checked. On an error, the ID is set if it
// could be read.
func ParseEnvelope(body []byte) (Envelope, *Error) {
	var e Envelope
	if !utf8.Valid(body) {
		return e, parseError("The body is not valid UTF-8.")
	}
	seen := 0
	var version []byte
	m := Members{Text: body}
	for m.Next() {
		bit := 0
		switch string(m.Key) {
		case "jsonrpc":
			bit, version = 1, m.Value
		case "id":
			bit, e.ID = 2, m.Value
		case "method":
			bit = 4
			if !IsString(m.Value) {
				return e, InvalidRequest("method must be a string.")
			}
			e.Method = DecodeString(m.Value)
		case "params":
			bit, e.Params = 8, m.Value
		case "result":
			bit, e.Result = 16, m.Value
		case "error":
			bit, e.Error = 32, m.Value
		}
		if seen&bit != 0 {
			return e, InvalidRequest("The message has a member twice.")
		}
		seen |= bit
	}
	if m.Err != nil {
		return Envelope{}, envelopeError(body, m.Err)
	}
	if e.ID != nil && !IsString(e.ID) && !IsNumber(e.ID) {
		e.ID = nil
		return e, InvalidRequest("id must be a string or a number.")
	}
	switch {
	case string(version) != `"2.0"`:
		return e, InvalidRequest(`jsonrpc must be "2.0".`)
	case seen&4 != 0 && e.Method == "":
		return e, InvalidRequest("method must not be empty.")
	case seen&4 == 0 && (e.ID == nil || e.Result == nil && e.Error == nil):
		return e, InvalidRequest("The message is neither a request nor a response: it has no method.")
	case e.Params != nil && !IsObject(e.Params):
		return e, InvalidRequest("params must be an object.")
	}
	return e, nil
}

// envelopeError distinguishes a body that is not JSON from JSON that is not a
// message.
func envelopeError(body []byte, err error) *Error {
	i := jsonlex.Space(body, 0)
	switch {
	case i == len(body):
		return parseError("The body is empty; POST one JSON-RPC message.")
	case !errors.Is(err, errNotObject) || !Valid(body):
		return parseError("The body is not valid JSON.")
	case body[i] == '[':
		return InvalidRequest("Batches are not supported; send each message in a request of its own.")
	}
	return InvalidRequest("A JSON-RPC message is an object.")
}

// IDKey returns the map key of a request id within its session: two spellings of the
// same string are one id.
func IDKey(raw []byte) string {
	if IsString(raw) {
		return `"` + DecodeString(raw)
	}
	return string(raw)
}
