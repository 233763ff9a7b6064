package wire

import (
	"fmt"
	"net/http"
	"strconv"

	"sallyport/internal/jsonlex"
)

// TextResult is a tool result with a text and structured content, an object. Some
// clients give their models only the structured content, so it says all that the text
// says: WithMessage adds the text.
func TextResult(text string, content []byte) Response {
	return structuredResult(WithMessage(content, text), text)
}

// JSONResult is a tool result whose text is its structured content.
func JSONResult(content []byte) Response { return structuredResult(content, string(content)) }

// DefinitionResult is a [TextResult] with a definition: a second text, and a member of
// the structured content.
func DefinitionResult(text string, content, definition []byte) Response {
	content = append(append(content[:len(content)-1:len(content)-1], `,"definition":`...), definition...)
	return structuredResult(WithMessage(append(content, '}'), text), text, string(definition))
}

func structuredResult(content []byte, texts ...string) Response {
	b := []byte(`{"content":[`)
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsonlex.Quote(append(b, `{"type":"text","text":`...), text), '}')
	}
	b = append(append(b, `],"structuredContent":`...), content...)
	return Response{Result: append(b, '}')}
}

// WithMessage returns an object with the message as its first member, unless it has a
// message.
func WithMessage(object []byte, message string) []byte {
	if Member(object, "message") != nil {
		return object
	}
	b := jsonlex.Quote([]byte(`{"message":`), message)
	rest := object[jsonlex.Space(object, 0)+1:]
	if rest[jsonlex.Space(rest, 0)] != '}' {
		b = append(b, ',')
	}
	return append(b, rest...)
}

// Response is a JSON-RPC response: a raw result or a raw error.
type Response struct {
	Result []byte
	Error  []byte
	status int // of HTTP, if nothing was sent yet; zero: see HTTPStatus

	// Text is the message of a failed tool result. Methods other than tools/call
	// have no failed results: AsError turns Text into an error with Code (zero:
	// CodeInternal) and raw Data.
	Text string
	Code int
	Data []byte
}

// AsError converts a failed tool result for a method other than tools/call.
func (m Response) AsError() Response {
	if m.Text == "" {
		return m
	}
	p := Error{Code: m.Code, Message: m.Text, Data: m.Data}
	if p.Code == 0 {
		p.Code = CodeInternal
	}
	return p.Response()
}

// Response returns the response that carries the error.
func (p *Error) Response() Response { return Response{Error: p.Raw(), status: p.Status} }

// HTTPStatus returns the HTTP status of the response. The stateless protocol requires
// that of some errors.
func (m *Response) HTTPStatus(stateless bool) int {
	switch {
	case m.status != 0:
		return m.status
	case stateless && m.Error != nil:
		switch code, _ := strconv.Atoi(string(Member(m.Error, "code"))); code { // zero has no special status
		case codeMethodNotFound:
			return http.StatusNotFound
		case CodeInvalidParams, CodeUnsupportedVersion, CodeMissingCapability, codeHeaderMismatch:
			return http.StatusBadRequest
		}
	}
	return http.StatusOK
}

// ToolError is a tool result that tells the model what went wrong.
func ToolError(format string, args ...any) Response {
	text := fmt.Sprintf(format, args...)
	b := []byte(`{"content":[{"type":"text","text":`)
	b = jsonlex.Quote(b, text)
	return Response{Result: append(b, `}],"isError":true}`...), Text: text}
}

// MethodNotFound is the error for an unknown method.
func MethodNotFound(method string) *Error {
	return &Error{Code: codeMethodNotFound, Message: "There is no method " + strconv.Quote(Truncate(method, 64)) + "."}
}

// The error codes of JSON-RPC and MCP that the server uses.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	codeHeaderMismatch     = -32020
	CodeUnsupportedVersion = -32022
	codeMethodNotFound     = -32601
	CodeMissingCapability  = -32021
	CodeNoResource         = -32002 // with sessions; the stateless protocol uses CodeInvalidParams
)

// Error is a JSON-RPC error with its HTTP status.
type Error struct {
	Status  int // zero: see Response.HTTPStatus
	Code    int
	Message string
	Data    []byte // raw; nil for none
}

// parseError is the error for a body that is not JSON.
func parseError(text string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: codeParse, Message: text}
}

// InvalidRequest is the error for JSON that is not a valid message.
func InvalidRequest(text string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: codeInvalidRequest, Message: text}
}

// HeaderMismatch is the error for headers that contradict the body.
func HeaderMismatch(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: codeHeaderMismatch, Message: fmt.Sprintf(format, args...)}
}

// InvalidParams is the error for params that the method cannot use.
func InvalidParams(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// InternalError hides the details of an unexpected error.
func InternalError() *Error {
	return &Error{Code: CodeInternal, Message: "Internal error of the gateway; its log has the details."}
}

// Raw returns the error object as JSON.
func (p *Error) Raw() []byte {
	b := append([]byte(`{"code":`), strconv.Itoa(p.Code)...)
	b = jsonlex.Quote(append(b, `,"message":`...), p.Message)
	if p.Data != nil {
		b = append(append(b, `,"data":`...), p.Data...)
	}
	return append(b, '}')
}
